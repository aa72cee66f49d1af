"""Filters out changes that cannot affect the next plan, such as a pod that starts as planned. Pure.

Such changes are gathered and handled together a little later.
"""

from __future__ import annotations

from dataclasses import replace

from gpupool.kubernetes.resources.gpu_node import EntryState, GpuNode
from gpupool.kubernetes.resources.pod import Pod


def is_expected_progress(before: Pod | None, now: Pod | None, node: str) -> bool:
    """Whether the pod was only released, bound or started, on the node where it has its cards."""
    if before is None or now is None or not node or now.gated or now.node not in ("", node):
        return False
    # Every field that a start changes is taken over; any other difference, even one that is added
    # to `Pod` later, counts as a change that the plan must see.
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


def is_agent_progress(before: GpuNode | None, now: GpuNode | None) -> bool:
    """Whether the agent only prepared what it was given, or the meter reported closed intervals."""
    if (
        before is None
        or now is None
        or any(entry.state is EntryState.DRAINING for entry in now.entries)
    ):
        return False
    return replace(before, slots=now.slots, observed=now.observed, metered_ns=now.metered_ns) == now
