"""What adopt, release and uninstall share: asking first, opening gates, waiting with an end, an Event on a node."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from gpupool.base.errors import ApiRefused, BadOption, GpupoolError, Unavailable, WrittenByGpupoolAlone
from gpupool.cli.confirm import confirm
from gpupool.cli.output import print_data
from gpupool.cli.parser import OBJECT_FORMATS, Parser, add_output, add_yes
from gpupool.kubernetes import direct, names
from gpupool.kubernetes.plugin.context import NODES, OURS, PODS, Context, Json

LOOK_SECONDS = 0.2
SETTLE_SECONDS = 10.0
"""A policy that was taken away is enforced a moment longer: API servers learn of it by a watch."""


def add_plan(parser: Parser) -> None:
    """`--dry-run`, `--yes`, `-o`: commands that say what they will do before they do it."""
    parser.add_argument("--dry-run", action="store_true", help="print the exact list of changes and make none")
    add_yes(parser)
    add_output(parser, OBJECT_FORMATS)


def agreed(options: Any, lines: Sequence[str]) -> bool:
    """Whether the changes are to be made; prints them. Raises BadOption, KeyboardInterrupt on no."""
    if options.output != "table":
        if not (options.dry_run or options.yes):
            raise BadOption("nothing was done: -o json does not ask", hint="add --yes, or --dry-run")
        return not options.dry_run
    if options.dry_run:
        sys.stdout.write("".join(f"would {line}\n" for line in lines))
        return False
    confirm(lines, yes=options.yes)
    return True


def report(options: Any, told: dict[str, Any], text: str) -> None:
    """How it ended; `text` for people."""
    if options.output != "table":
        print_data(told, options.output)
    elif text:
        sys.stdout.write(text + "\n")


def unchanged(options: Any, told: dict[str, Any], refusal: GpupoolError | None) -> int:
    """End a command that changed nothing: report what it would change, then raise what would refuse it."""
    if options.output != "table":
        report(options, told, "")
    if refusal is not None:
        raise refusal
    return 0


def gated(pod: Json) -> bool:
    return any(gate.get("name") == names.GATE for gate in pod["spec"].get("schedulingGates") or ())


async def gated_pods(context: Context) -> list[Json]:
    """Every pod in the cluster that waits at our gate."""
    return [pod for pod in await context.items(PODS, labelSelector=OURS) if gated(pod)]


async def direct_pods(context: Context) -> list[Json]:
    """Every pod in the cluster that waits for our controller to bind it."""
    pods = await context.items(PODS, labelSelector=OURS)
    waiting = (pod for pod in pods if direct.is_direct(pod) and not pod["spec"].get("nodeName"))
    return [pod for pod in waiting if "deletionTimestamp" not in pod["metadata"]]


async def open_gate(context: Context, pod: Json) -> None:
    """Take our gate from a pod and leave others'. Nothing happens to one that is gone or has changed: look again."""
    meta = pod["metadata"]
    left = [gate for gate in pod["spec"]["schedulingGates"] if gate.get("name") != names.GATE]
    patch = {
        "metadata": {"resourceVersion": meta["resourceVersion"]},
        "spec": {"schedulingGates": left or None},
    }
    try:
        await context.api.patch(f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}", patch)
    except ApiRefused as error:
        if not (error.gone or error.conflict):
            raise


async def open_all(context: Context) -> int:
    """Until no pod in the cluster waits at our gate; how many gates were opened."""
    opened, began = 0, time.monotonic()
    while waiting := await gated_pods(context):
        try:
            for pod in waiting:
                await open_gate(context, pod)
                opened += 1
        except ApiRefused as error:
            if WrittenByGpupoolAlone.code not in error.message or time.monotonic() - began > SETTLE_SECONDS:
                raise
            await asyncio.sleep(LOOK_SECONDS)
    return opened


async def change_node(context: Context, name: str, patch_of: Callable[[Json], Json | None]) -> Json:
    """Write what `patch_of` makes of the Node as it is; again where a kubelet or a controller wrote first."""
    while True:
        found = await context.node(name)
        patch = patch_of(found)
        if patch is None:
            return found
        try:
            return await context.api.patch(f"{NODES}/{name}", patch)
        except ApiRefused as error:
            if not error.conflict:
                raise


async def until(condition: Callable[[], Awaitable[str]], seconds: float, hint: str) -> None:
    """Look until nothing is in the way any more. Raises Unavailable with what still is."""
    deadline = time.monotonic() + seconds
    while still := await condition():
        if time.monotonic() > deadline:
            raise Unavailable(f"after {seconds:g} s {still}", hint=hint)
        await asyncio.sleep(LOOK_SECONDS)
