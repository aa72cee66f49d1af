"""`kubectl gpupool adopt NODE`: gpupool hands out the cards of a node from now on."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from gpupool.base.errors import (
    ApiServerRejection,
    GpupoolError,
    LedgerIncomplete,
    NotFound,
    StillInUse,
    WriteConflict,
    WrongState,
)
from gpupool.kubernetes.client.api import JSON_PATCH
from gpupool.kubernetes.ledger import ledger
from gpupool.kubernetes.plugin.acting import (
    add_plan,
    change_node,
    confirm_changes,
    end_unchanged,
    report,
    until,
)
from gpupool.kubernetes.plugin.adoption import Adoption, adoption, set_mode
from gpupool.kubernetes.plugin.context import DAEMONSETS, PODS, Context, Json
from gpupool.kubernetes.plugin.others import offered_cards, plugins_of, stay_away, users
from gpupool.kubernetes.resources.gpu_node import GpuNode, Mode
from gpupool.terminal.parser import CommandParser, integer_within, one_of


def register(parser: CommandParser) -> None:
    parser.about = """
    Prints every change first. Refuses while pods of others use cards of the node, with their names, and where another
    plugin would go on handing out the same cards. May be ended and typed again at any time. The way back is
    `kubectl gpupool release NODE`; running pods that use no card are not touched.
    """
    parser.examples = [
        "kubectl gpupool adopt worker-1 --dry-run",
        "kubectl gpupool adopt worker-1 --mode whole --yes",
    ]
    parser.add_argument("node", metavar="NODE", help="which")
    parser.add_argument(
        "--mode",
        type=one_of("--mode", Mode.SLOT.value, Mode.WHOLE.value),
        default=Mode.SLOT.value,
        metavar="MODE",
        help="slot: shares and cards (default); whole: whole cards alone",
    )
    add_timeout(parser)
    add_plan(parser)


def add_timeout(parser: CommandParser) -> None:
    parser.add_argument(
        "--timeout",
        type=integer_within("--timeout", "the time to wait", 1, 86_400),
        default=60,
        metavar="SECONDS",
        help="how long to wait for others to be gone (default: 60)",
    )


async def run(options: argparse.Namespace, context: Context) -> int:
    plan = await _plan(options.node, Mode(options.mode), context)
    told: dict[str, Any] = {
        "node": options.node,
        "mode": options.mode,
        "changed": False,
        "changes": [],
    }
    if plan.node.mode is plan.mode and not plan.labels:
        report(options, told, f"{options.node} is adopted already, in mode {options.mode}")
        return 0
    told["changes"] = plan.lines()
    refusal = await _refusal(plan, context)
    if refusal is not None and not options.dry_run:
        raise refusal
    if confirm_changes(options, plan.lines()):
        await _apply(plan, options.timeout, context)
        report(
            options, {**told, "changed": True}, f"{options.node} is adopted, in mode {options.mode}"
        )
        return 0
    return end_unchanged(options, told, refusal)


async def _plan(name: str, mode: Mode, context: Context) -> Adoption:
    found = await context.node(name)
    node = await read_ledger(name, context)
    if not node.cards:
        raise WrongState(f"the agent of node {name} reports no card", hint="kubectl gpupool doctor")
    if not node.ready:
        raise WrongState(f"the agent of node {name} is not ready", hint="kubectl gpupool doctor")
    return adoption(node, found, plugins_of(await context.items(DAEMONSETS)), mode)


async def read_ledger(name: str, context: Context) -> GpuNode:
    """Raises NotFound for a node of which no agent has reported."""
    node = await ledger.read_ledger(context.api, name)
    if node is None:
        raise NotFound(
            f"no agent of gpupool has reported of node {name}",
            hint=f"kubectl get pods -n {context.namespace} -o wide",
        )
    return node


async def _refusal(plan: Adoption, context: Context) -> GpupoolError | None:
    """Why the node cannot be ours now."""
    name = plan.node.name
    if plan.node.unaccounted_uses:
        return list_unaccounted(
            plan.node, await context.items(PODS, fieldSelector=f"spec.nodeName={name}")
        )
    used = users(await context.items(PODS, fieldSelector=f"spec.nodeName={name}"))
    if used:
        hint = f"kubectl cordon {name}, and wait for them or delete them; kubectl gpupool adopt {name} then"
        return StillInUse(
            f"{len(used)} pods of others use cards of {name}: {', '.join(used)}", hint=hint
        )
    if plan.staying:
        who = ", ".join(f"{one.owner} ({one.namespace}/{one.name})" for one in plan.staying)
        hint = "\n".join(stay_away(one) for one in plan.staying)
        return StillInUse(f"{who} would go on handing out the cards of {name}", hint=hint)
    return None


def list_unaccounted(node: GpuNode, pods: Sequence[Json]) -> LedgerIncomplete:
    """Containers that hold cards of the node and stand in no ledger, by the names of their pods
    where those are."""
    named = {}
    for pod in pods:
        named[pod["metadata"]["uid"]] = f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
    holders = sorted({named.get(use.uid, f"pod {use.uid}") for use in node.unaccounted_uses})
    return LedgerIncomplete(
        f"{len(holders)} pods hold cards of {node.name} and are not in its ledger: {', '.join(holders)}",
        hint=f"wait for them or delete them; the agent then reports them gone: kubectl get gpunode {node.name} -o yaml",
    )


async def _apply(plan: Adoption, seconds: float, context: Context) -> None:
    name = plan.node.name
    await change_node(context, name, plan.node_patch)

    async def others() -> str:
        left = offered_cards(await context.node(name))
        return (
            f"{name} still offers {', '.join(f'{key}={left[key]}' for key in left)}" if left else ""
        )

    await until(
        others,
        seconds,
        f"kubectl gpupool adopt {name}  goes on; kubectl gpupool release {name}  goes back",
    )
    refusal = await _refusal(replace(plan, node=await read_ledger(name, context)), context)
    if refusal is not None:
        raise refusal
    await write_mode(plan.node, plan.mode, context)


async def write_mode(node: GpuNode, mode: Mode, context: Context) -> None:
    """Compare and swap. Raises WriteConflict when the ledger was written since it was read."""
    if node.mode is mode:
        return
    try:
        await context.api.patch(f"{ledger.NODES}/{node.name}", set_mode(node, mode), JSON_PATCH)
    except ApiServerRejection as error:
        if error.is_conflict:
            raise WriteConflict(
                f"the ledger of {node.name} was written meanwhile", hint="the same once more"
            ) from None
        raise
