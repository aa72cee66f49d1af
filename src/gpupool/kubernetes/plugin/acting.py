"""What adopt, release and uninstall share: asking first, opening gates, waiting with an end, an
Event on a node."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from gpupool.base.errors import (
    ApiServerRejection,
    BadOption,
    GpupoolError,
    ServiceUnavailable,
    WrittenByGpupoolAlone,
)
from gpupool.kubernetes.plugin.context import NODES, OURS, PODS, Context, Json
from gpupool.kubernetes.resources import direct_binding, names
from gpupool.terminal.confirm import confirm_plan
from gpupool.terminal.output import print_data
from gpupool.terminal.parser import OBJECT_FORMATS, CommandParser, add_output, add_yes

LOOK_SECONDS = 0.2
#: A policy that was taken away is enforced a moment longer: API servers learn of it by a watch.
SETTLE_SECONDS = 10.0


def add_plan(parser: CommandParser) -> None:
    """`--dry-run`, `--yes`, `-o`: commands that say what they will do before they do it."""
    parser.add_argument(
        "--dry-run", action="store_true", help="print the exact list of changes and make none"
    )
    add_yes(parser)
    add_output(parser, OBJECT_FORMATS)


def confirm_changes(options: Any, lines: Sequence[str]) -> bool:
    """Whether the changes are to be made; prints them. Raises BadOption, KeyboardInterrupt on
    no."""
    if options.output != "table":
        if not (options.dry_run or options.yes):
            raise BadOption(
                "nothing was done: -o json does not ask", hint="add --yes, or --dry-run"
            )
        return not options.dry_run
    if options.dry_run:
        sys.stdout.write("".join(f"would {line}\n" for line in lines))
        return False
    confirm_plan(lines, yes=options.yes)
    return True


def report(options: Any, told: dict[str, Any], text: str) -> None:
    """How it ended; `text` for people."""
    if options.output != "table":
        print_data(told, options.output)
    elif text:
        sys.stdout.write(text + "\n")


def end_unchanged(options: Any, told: dict[str, Any], refusal: GpupoolError | None) -> int:
    """End a command that changed nothing: report what it would change, then raise what would refuse
    it."""
    if options.output != "table":
        report(options, told, "")
    if refusal is not None:
        raise refusal
    return 0


def is_gated(pod: Json) -> bool:
    return any(gate.get("name") == names.GATE for gate in pod["spec"].get("schedulingGates") or ())


async def gated_pods(context: Context) -> list[Json]:
    """Every pod in the cluster that waits at our gate."""
    gated = []
    for pod in await context.items(PODS, labelSelector=OURS):
        if is_gated(pod):
            gated.append(pod)
    return gated


async def direct_pods(context: Context) -> list[Json]:
    """Every pod in the cluster that waits for our controller to bind it."""
    pods = await context.items(PODS, labelSelector=OURS)
    waiting = (
        pod for pod in pods if direct_binding.is_direct(pod) and not pod["spec"].get("nodeName")
    )
    pods = []
    for pod in waiting:
        if "deletionTimestamp" not in pod["metadata"]:
            pods.append(pod)
    return pods


async def open_gate(context: Context, pod: Json) -> None:
    """Remove our gate from a pod and keep the gates of others.

    Nothing happens to a pod that is gone or that has left our gate meanwhile. Idempotent.
    """
    path = f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{pod['metadata']['name']}"
    found: Json | None = pod
    while found is not None and is_gated(found) and _is_same_pod(found, pod):
        try:
            await context.api.patch(path, _build_gate_patch(found))
            return
        except ApiServerRejection as error:
            if not (error.is_not_found or error.is_conflict):
                raise
        # The controller writes the condition of a waiting pod within moments of its creation. A
        # conflict that is taken for an answer leaves the pod at a gate that nothing opens later.
        found = await context.find(path)


def _is_same_pod(found: Json, pod: Json) -> bool:
    return bool(found["metadata"]["uid"] == pod["metadata"]["uid"])


def _build_gate_patch(pod: Json) -> Json:
    gates = []
    for gate in pod["spec"]["schedulingGates"]:
        if gate.get("name") != names.GATE:
            gates.append(gate)
    return {
        "metadata": {"resourceVersion": pod["metadata"]["resourceVersion"]},
        "spec": {"schedulingGates": gates or None},
    }


async def open_all(context: Context) -> int:
    """Until no pod in the cluster waits at our gate; how many gates were opened."""
    opened = 0
    began = time.monotonic()
    while waiting := await gated_pods(context):
        try:
            for pod in waiting:
                await open_gate(context, pod)
                opened += 1
        except ApiServerRejection as error:
            if (
                WrittenByGpupoolAlone.code not in error.message
                or time.monotonic() - began > SETTLE_SECONDS
            ):
                raise
            await asyncio.sleep(LOOK_SECONDS)
    return opened


async def change_node(context: Context, name: str, patch_of: Callable[[Json], Json | None]) -> Json:
    """Write what `patch_of` makes of the Node as it is; again where a kubelet or a controller wrote
    first."""
    while True:
        found = await context.node(name)
        patch = patch_of(found)
        if patch is None:
            return found
        try:
            return await context.api.patch(f"{NODES}/{name}", patch)
        except ApiServerRejection as error:
            if not error.is_conflict:
                raise


async def until(condition: Callable[[], Awaitable[str]], seconds: float, hint: str) -> None:
    """Look until nothing is in the way any more. Raises ServiceUnavailable with what still is."""
    deadline = time.monotonic() + seconds
    while still := await condition():
        if time.monotonic() > deadline:
            raise ServiceUnavailable(f"after {seconds:g} s {still}", hint=hint)
        await asyncio.sleep(LOOK_SECONDS)
