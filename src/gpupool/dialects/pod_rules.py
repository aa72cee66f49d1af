"""What a pod must not be if it is to have cards, whichever words it asks in.

Reasons: preloading and mounts do not reach a sandboxed runtime's kernel (HAMi issue 2581); a privileged container sees
every card (HAMi 611, 41, 2138); a pod with `nodeName` passes no scheduler, and one with a foreign `schedulerName` is
bound by somebody who does not know what is free (HAMi 488, 1162, 1164).
"""

from __future__ import annotations

from gpupool.base.errors import PodRefused
from gpupool.dialects.contract import PodClaim
from gpupool.dialects.facts import NodeFacts
from gpupool.dialects.pod import Pod
from gpupool.dialects.registry import SCHEDULERS

KUBERNETES = "default-scheduler"
SANDBOXES = ("gvisor", "runsc", "kata")


def check(pod: Pod, claim: PodClaim, facts: NodeFacts) -> tuple[str, ...]:
    """What is to be noted. Raises PodRefused."""
    _placed(pod)
    _sandboxed(pod, claim)
    _privileged(pod, claim)
    return (*_scheduler(pod, facts), *_inits(claim))


def shares(claim: PodClaim) -> list[str]:
    """Names of the containers with a part of a card that software must keep."""
    return [one.container for one in claim.containers if not one.ask.whole and one.ask.profile is None]


def _placed(pod: Pod) -> None:
    if pod.node_name is not None:
        raise PodRefused(
            f"nodeName: {pod.node_name}: the pod would pass no scheduler, and cards are given by one",
            hint=f"leave nodeName out; for that node write nodeSelector: {{kubernetes.io/hostname: {pod.node_name}}}",
            path=("spec", "nodeName"),
        )


def _sandboxed(pod: Pod, claim: PodClaim) -> None:
    name = (pod.runtime_class or "").lower()
    if shares(claim) and any(box in name for box in SANDBOXES):
        raise PodRefused(
            f"runtimeClassName: {pod.runtime_class}: a share is not fenced in a sandbox,"
            f" and {', '.join(shares(claim))} asks for one",
            hint="ask for whole cards, or leave runtimeClassName out",
            path=("spec", "runtimeClassName"),
        )


def _privileged(pod: Pod, claim: PodClaim) -> None:
    sharing = shares(claim)
    bare = [one for one in pod.containers if one.privileged and one.name in sharing]
    if bare:
        raise PodRefused(
            f"container {bare[0].name} is privileged and asks for a share: it would see every card of the node",
            hint="ask for whole cards, or leave privileged out",
            path=(*bare[0].path, "securityContext", "privileged"),
        )


def _scheduler(pod: Pod, facts: NodeFacts) -> tuple[str, ...]:
    name = pod.scheduler
    if name is None or name == KUBERNETES or name in facts.schedulers:
        return ()
    if name in SCHEDULERS:
        return (f"schedulerName: {name} is {SCHEDULERS[name]}'s own, whose place is taken: written as {KUBERNETES}",)
    raise PodRefused(
        f"schedulerName: {name} is no scheduler known here: it would bind the pod where its cards are not",
        hint=f"leave it out, or name it in a file of facts: `schedulers: [{name}]`",
        path=("spec", "schedulerName"),
    )


def _inits(claim: PodClaim) -> tuple[str, ...]:
    asking = [one.container for one in claim.containers if one.kind == "init"]
    return (f"{', '.join(asking)}: an init container that asks has a slot of its own while it runs",) if asking else ()
