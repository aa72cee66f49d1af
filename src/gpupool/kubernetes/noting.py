"""Which changes nobody's plan depends on: what was decided goes its way. They are looked at together, a little later.

Pure.
"""

from __future__ import annotations

from dataclasses import replace

from gpupool.kubernetes.objects import EntryState, GpuNode
from gpupool.kubernetes.pods import Pod


def goes_its_way(before: Pod | None, now: Pod | None, node: str) -> bool:
    """Whether the pod was let go, bound or started on the node where its cards are, and nothing else happened to it."""
    if before is None or now is None or not node or now.gated or now.node not in ("", node):
        return False
    so_far = replace(
        before,
        gated=False,
        node=now.node,
        version=now.version,
        constraint=now.constraint,
        started_ns=now.started_ns,
        ready=now.ready,
        refusal=now.refusal,
    )
    return so_far == now and not (now.ended or now.deleting)


def only_started(before: GpuNode | None, now: GpuNode | None) -> bool:
    """Whether the agent has prepared what it was given, and gives nothing back; or the meter has told what was held."""
    if before is None or now is None or any(entry.state is EntryState.DRAINING for entry in now.entries):
        return False
    return replace(before, slots=now.slots, observed=now.observed, metered_ns=now.metered_ns) == now
