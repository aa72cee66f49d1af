"""Rejects pods that cannot have cards, whichever words they ask in.

Reasons: preloading and mounts do not reach a sandboxed runtime's kernel (HAMi issue 2581); a
privileged container sees every card (HAMi 611, 41, 2138); a pod with `nodeName` passes no
scheduler, and one with a foreign `schedulerName` is bound by a scheduler that does not know what
is free (HAMi 488, 1162, 1164).
"""

from __future__ import annotations

from gpupool.base.errors import PodRejection
from gpupool.dialects.contract import PodClaim
from gpupool.dialects.facts import NodeFacts
from gpupool.dialects.manifests.registry import SCHEDULERS
from gpupool.dialects.pod import PodView

KUBERNETES = "default-scheduler"
#: Runtime classes with a kernel of their own, which the fence's preloaded library does not reach.
SANDBOXES = ("gvisor", "runsc", "kata")


def check_pod(pod: PodView, claim: PodClaim, facts: NodeFacts) -> tuple[str, ...]:
    """What is to be noted. Raises PodRejection."""
    _check_node_name(pod)
    _check_runtime_class(pod, claim)
    _check_privileged(pod, claim)
    return (*_check_scheduler(pod, facts), *_note_init_containers(claim))


def list_shares(claim: PodClaim) -> list[str]:
    """Names of the containers with a part of a card that software must keep."""
    found = []
    for one in claim.containers:
        if not one.ask.is_whole and one.ask.profile is None:
            found.append(one.container)
    return found


def _check_node_name(pod: PodView) -> None:
    if pod.node_name is not None:
        raise PodRejection(
            f"nodeName: {pod.node_name}: the pod would pass no scheduler, and cards are given by one",
            hint=f"leave nodeName out; for that node write nodeSelector: {{kubernetes.io/hostname: {pod.node_name}}}",
            path=("spec", "nodeName"),
        )


def _check_runtime_class(pod: PodView, claim: PodClaim) -> None:
    name = (pod.runtime_class or "").lower()
    if list_shares(claim) and any(box in name for box in SANDBOXES):
        raise PodRejection(
            f"runtimeClassName: {pod.runtime_class}: a share is not fenced in a sandbox,"
            f" and {', '.join(list_shares(claim))} asks for one",
            hint="ask for whole cards, or leave runtimeClassName out",
            path=("spec", "runtimeClassName"),
        )


def _check_privileged(pod: PodView, claim: PodClaim) -> None:
    sharing = list_shares(claim)
    bare = [one for one in pod.containers if one.privileged and one.name in sharing]
    if bare:
        raise PodRejection(
            f"container {bare[0].name} is privileged and asks for a share: it would see every card of the node",
            hint="ask for whole cards, or leave privileged out",
            path=(*bare[0].path, "securityContext", "privileged"),
        )


def _check_scheduler(pod: PodView, facts: NodeFacts) -> tuple[str, ...]:
    name = pod.scheduler
    if name is None or name == KUBERNETES or name in facts.schedulers:
        return ()
    if name in SCHEDULERS:
        return (
            f"schedulerName: {name} is {SCHEDULERS[name]}'s own, whose place is taken: written as {KUBERNETES}",
        )
    raise PodRejection(
        f"schedulerName: {name} is no scheduler known here: it would bind the pod where its cards are not",
        hint=f"leave it out, or name it in a file of facts: `schedulers: [{name}]`",
        path=("spec", "schedulerName"),
    )


def _note_init_containers(claim: PodClaim) -> tuple[str, ...]:
    asking = [one.container for one in claim.containers if one.kind == "init"]
    return (
        (f"{', '.join(asking)}: an init container that asks has a slot of its own while it runs",)
        if asking
        else ()
    )
