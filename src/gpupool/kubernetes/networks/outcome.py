"""What came of a Tenant's network, and how its status says so. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from gpupool.kubernetes.networks.judgement import NetworkRefusal

IN_FORCE = "NetworkInForce"
PEERED = "PeeringsInForce"
#: Objects that a message names at most.
_NAMED = 5


@dataclass(frozen=True)
class NetworkOutcome:
    """What came of a Tenant's network.

    Attributes:
        refusal: why it is not written.
        pending: objects that Kube-OVN has not put in force; None: not looked at yet.
        peers: that it wants.
        missing: one sentence for each peering that is not in force.
    """

    refusal: NetworkRefusal | None = None
    pending: tuple[str, ...] | None = None
    peers: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()


def list_conditions(outcome: NetworkOutcome) -> list[dict[str, Any]]:
    """Return the conditions of a Tenant with a network, without times."""
    conditions = [_describe_network(outcome)]
    if outcome.peers and outcome.refusal is None:
        conditions.append(_describe_peerings(outcome))
    return conditions


def shorten(found: list[str]) -> str:
    """Return a text with the first few of them and the number of the others."""
    more = f" and {len(found) - _NAMED} more" if len(found) > _NAMED else ""
    return ", ".join(found[:_NAMED]) + more


def _describe_network(outcome: NetworkOutcome) -> dict[str, Any]:
    refusal = outcome.refusal
    if refusal is not None:
        message = f"{refusal.code}: {refusal.message}; what was in force stays"
        hint = f"; {refusal.hint}" if refusal.hint else ""
        return _build(IN_FORCE, "False", "NotWritten", message + hint)
    if outcome.pending is None:
        return _build(IN_FORCE, "Unknown", "NotCompared", "it has not been compared yet")
    if outcome.pending:
        waiting = shorten(list(outcome.pending))
        return _build(IN_FORCE, "False", "Pending", f"Kube-OVN has yet to put in force: {waiting}")
    return _build(IN_FORCE, "True", "InForce", "Kube-OVN reports every object in force")


def _describe_peerings(outcome: NetworkOutcome) -> dict[str, Any]:
    if outcome.missing:
        return _build(PEERED, "False", "NotPeered", "; ".join(outcome.missing))
    joined = ", ".join(outcome.peers)
    if outcome.pending:
        return _build(PEERED, "False", "Pending", f"written, and not in force yet: {joined}")
    return _build(PEERED, "True", "Peered", f"joined with {joined}")


def _build(kind: str, status: str, reason: str, message: str) -> dict[str, Any]:
    return {"type": kind, "status": status, "reason": reason, "message": message[:1024]}
