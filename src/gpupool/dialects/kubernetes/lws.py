"""Which group of a LeaderWorkerSet a pod is of: its replicas are gangs of their own, though their
templates are one.

Source: kubernetes-sigs/lws, its labels and annotations. The leader's index is written by a webhook
that may come after ours, and stands in its name as well: `SET-INDEX`.
"""

from __future__ import annotations

from gpupool.dialects.pod import PodView

_DOMAIN = "leaderworkerset.sigs.k8s.io"
_SET = f"{_DOMAIN}/name"
_GROUP = f"{_DOMAIN}/group-index"
SIZE = f"{_DOMAIN}/size"


def find_group(pod: PodView) -> str:
    """The group's index as it is written; empty for a pod of nothing like that."""
    owner = pod.find_label(_SET)
    index = pod.find_label(_GROUP)
    if owner is None or index is not None:
        return "" if index is None else str(index.value)
    # The leader is named `SET-INDEX`; its index label may be set only after our webhook ran.
    before, _, number = (pod.name or "").rpartition("-")
    return number if before == str(owner.value) and number.isdigit() else ""
