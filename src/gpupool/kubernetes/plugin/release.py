"""`kubectl gpupool release NODE`: the way back; gpupool looks at the node and hands out nothing
there."""

from __future__ import annotations

import argparse
from typing import Any

from gpupool.base.errors import StillInUse
from gpupool.kubernetes.eviction import eviction_api
from gpupool.kubernetes.plugin.acting import (
    add_plan,
    change_node,
    confirm_changes,
    direct_pods,
    end_unchanged,
    gated_pods,
    open_gate,
    report,
    until,
)
from gpupool.kubernetes.plugin.adopt import add_timeout, read_ledger, write_mode
from gpupool.kubernetes.plugin.adoption import back_lines, restoring, waits_only_for
from gpupool.kubernetes.plugin.context import NODES, Context, Json
from gpupool.kubernetes.resources.gpu_node import GpuNode, Mode
from gpupool.terminal.parser import CommandParser


def register(parser: CommandParser) -> None:
    parser.about = """
    Prints every change first. Refuses while pods have cards there, with their names; with --drain they are evicted, as
    their disruption budgets allow, and waited for. The node's labels become what they were before it was adopted, so
    that the plugin that left comes back. A pod that waits for this node alone leaves our gate; one that gpupool binds
    itself (direct) has none, and is named: it waits for the node to be adopted again.
    """
    parser.examples = [
        "kubectl gpupool release worker-1 --dry-run",
        "kubectl gpupool release worker-1 --drain --yes",
    ]
    parser.add_argument("node", metavar="NODE", help="which")
    parser.add_argument("--drain", action="store_true", help="evict the pods that have cards there")
    add_timeout(parser)
    add_plan(parser)


async def run(options: argparse.Namespace, context: Context) -> int:
    name = options.node
    found = await context.node(name)
    node = await read_ledger(name, context)
    nodes = await context.items(NODES)
    stuck = []
    for pod in await gated_pods(context):
        if waits_only_for(name, pod, nodes):
            stuck.append(pod)
    left = []
    for pod in await direct_pods(context):
        if waits_only_for(name, pod, nodes):
            left.append(_pod_name(pod))
    lines = _lines(node, found, stuck)
    told: dict[str, Any] = {
        "node": name,
        "mode": Mode.OBSERVE.value,
        "changed": False,
        "changes": lines,
        "left": left,
    }
    if not lines:
        report(options, told, f"{name} is only looked at already{_still_wait(left)}")
        return 0
    leaves = []
    for waiting in left:
        leaves.append(
            f"leave {waiting}, which waits for {name} alone and which nobody but gpupool binds"
        )
    refusal = None if options.drain else _refusal(node)
    if refusal is not None and not options.dry_run:
        raise refusal
    if confirm_changes(options, [*lines, *leaves]):
        await _apply(node, options.timeout, context)
        report(
            options, {**told, "changed": True}, f"{name} is only looked at now{_still_wait(left)}"
        )
        return 0
    return end_unchanged(options, told, refusal)


def _pod_name(pod: Json) -> str:
    return f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"


def _still_wait(left: list[str]) -> str:
    """Of direct pods. A pod's scheduler cannot be changed, and their owners' next ones would be
    direct as well."""
    if not left:
        return ""
    then = "kubectl delete pod -n NAMESPACE NAME, after direct was turned off where others are made in their place"
    return f"; {', '.join(left)} cannot go elsewhere and nobody else binds them: {then}"


def held_pods(node: GpuNode) -> list[str]:
    """Pods in the ledger, each once; a member of a gang that does not exist yet by its gang."""
    return list(dict.fromkeys(f"{one.namespace}/{one.pod or one.gang}" for one in node.entries))


def _refusal(node: GpuNode) -> StillInUse | None:
    if not node.entries:
        return None
    pods = held_pods(node)
    said = f"{len(pods)} pods have cards of {node.name}: {', '.join(pods)}"
    return StillInUse(said, hint=f"kubectl gpupool release {node.name} --drain  evicts them")


def _lines(node: GpuNode, found: Json, stuck: list[Json]) -> list[str]:
    """Every change, in the order in which they are made; empty where it is released already."""
    mode = [f"set spec.mode of GpuNode {node.name} to {Mode.OBSERVE} (now {node.mode})"]
    return [
        *(mode if node.mode is not Mode.OBSERVE else []),
        *(f"evict {pod}" for pod in held_pods(node)),
        *(f"open the gate of {_pod_name(pod)}, which waits for {node.name} alone" for pod in stuck),
        *back_lines(node.name, found),
    ]


async def _apply(node: GpuNode, seconds: float, context: Context) -> None:
    name = node.name
    await write_mode(node, Mode.OBSERVE, context)

    async def evict_holders() -> str:
        entered = await read_ledger(name, context)
        await _evict(entered, context)
        if not entered.entries:
            return ""
        return f"{', '.join(held_pods(entered))} still have cards of {name}"

    await until(evict_holders, seconds, f"kubectl gpupool release {name} --drain  goes on")
    # The gates before the labels: afterwards nothing says any more which node the pods waited for.
    nodes = await context.items(NODES)
    for pod in await gated_pods(context):
        if waits_only_for(name, pod, nodes):
            await open_gate(context, pod)
    await change_node(context, name, restoring)


async def _evict(node: GpuNode, context: Context) -> None:
    """Those that are still there; one that its disruption budget keeps is asked again at the next
    look."""
    uids = {entry.uid for entry in node.entries}
    for pod in await context.pods() if uids else ():
        if pod.uid in uids and not pod.deleting:
            await eviction_api.evict_pod(context.api, pod)
