"""Counts what a controller has done, for metrics, tests and benches."""

from __future__ import annotations

from dataclasses import dataclass, field


def _count(said: str) -> int:
    found: int = field(default=0, metadata={"said": said})
    return found


@dataclass
class ControllerCounters:
    """Since it leads."""

    cycles: int = _count("plans made")
    ledger_writes: int = _count("writes of a node's ledger")
    ledger_conflicts: int = _count("writes of a ledger that somebody else had changed")
    restorations: int = _count("pods let go without an entry in a ledger that got one again")
    releases: int = _count("pods released to their node")
    evictions: int = _count("pods asked to leave for others")
    reason_writes: int = _count("conditions written that say why a pod waits")
    tenant_writes: int = _count("writes of a Tenant's status")
    replacements: int = _count("pods deleted that no node took, so that their owner makes another")
    event_writes: int = _count("events written on pods and nodes")
    capacity_writes: int = _count("writes of what a node has")
    policy_failures: int = _count(
        "exceptions of a placement policy, each answered by a simpler one"
    )
