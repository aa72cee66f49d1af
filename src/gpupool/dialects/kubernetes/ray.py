"""Which Ray cluster a pod is of: two of them made from one template are two gangs.

A RayService that is upgraded has the next cluster beside the old one for a while, and a RayJob that
is tried again makes another, all of them with the labels of the one template. Source:
ray-project/kuberay, the labels of its pods.
"""

from __future__ import annotations

from gpupool.dialects.pod import PodView

_CLUSTER = "ray.io/cluster"


def find_cluster(pod: PodView) -> str:
    """The cluster's name; empty for a pod of nothing like that."""
    name = pod.find_label(_CLUSTER)
    return "" if name is None else str(name.value)
