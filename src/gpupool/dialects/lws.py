"""Which group of a LeaderWorkerSet a pod is of: its replicas are gangs of their own, though their templates are one.

Source: kubernetes-sigs/lws, its labels and annotations. The leader's index is written by a webhook that may come after
ours, and stands in its name as well: `SET-INDEX`.
"""

from __future__ import annotations

from gpupool.dialects.pod import Pod

_DOMAIN = "leaderworkerset.sigs.k8s.io"
_SET, _GROUP, SIZE = f"{_DOMAIN}/name", f"{_DOMAIN}/group-index", f"{_DOMAIN}/size"


def group_of(pod: Pod) -> str:
    """The group's index as it is written; empty for a pod of nothing like that."""
    owner, index = pod.label(_SET), pod.label(_GROUP)
    if owner is None or index is not None:
        return "" if index is None else str(index.value)
    before, _, number = (pod.name or "").rpartition("-")
    return number if before == str(owner.value) and number.isdigit() else ""
