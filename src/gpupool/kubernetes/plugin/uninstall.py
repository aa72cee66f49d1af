"""`kubectl gpupool uninstall`: out of the cluster, with nothing left waiting at our gate.

The order is what makes it safe to kill and begin again: gates first, then what gates, then gates once more. Each step
looks for what is there and takes that away, so the second run does what the first one did not come to.
"""

from __future__ import annotations

import argparse
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import Any

from gpupool.base.errors import ApiRefused, StillInUse, Unavailable
from gpupool.cli.output import many
from gpupool.cli.parser import Parser
from gpupool.kubernetes import capacities, direct, install, ledger, names
from gpupool.kubernetes.objects import EntryState
from gpupool.kubernetes.plugin.acting import add_plan, agreed, gated_pods, open_all, report, unchanged, until
from gpupool.kubernetes.plugin.adoption import restoring
from gpupool.kubernetes.plugin.context import NODES, OURS, PODS, Context, Json
from gpupool.kubernetes.plugin.doctor import WEBHOOK
from gpupool.kubernetes.settings import NAME, SETTINGS
from gpupool.kubernetes.settings_status import empty

GONE_SECONDS = 180.0
"""A busy API server takes a minute to end a definition."""
STOP_SECONDS = 15.0
"""A controller hears of it by its watch; one that does not lead yet begins with what stands there."""
GATE_POLICY = f"gate.{names.GROUP}"
POLICIES = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolic"
RESUME = f'kubectl patch poolsettings {NAME} --type merge -p \'{{"spec":{{"placing":true}}}}\''
BACKGROUND = {"propagationPolicy": "Background"}


def register(parser: Parser) -> None:
    parser.about = """
    Opens every gate first, then takes away the webhook, the programs, the definitions with every ledger, what nodes
    offer by our names, and the rights. Pods that never ran and name our resources are deleted where somebody makes
    them anew; a bare one stays, Pending, and is named where nobody is left to bind it. May be killed and typed again
    at any time. With --yes placing is stopped first (`placing: false` of the PoolSettings). Then it refuses while pods
    run on cards of the pool, since nobody would know of them afterwards.
    """
    parser.examples = ["kubectl gpupool uninstall --dry-run", "kubectl gpupool uninstall --yes"]
    parser.add_argument("--leave-running", action="store_true", help="also while pods run on cards; they go on")
    parser.add_argument(
        "--keep-objects", action="store_true", help="leave accounts, rights and programs to helm, which made them"
    )
    add_plan(parser)


async def run(options: argparse.Namespace, context: Context) -> int:
    stops = not options.dry_run and options.yes and not options.leave_running and await _stop_placing(context)
    running = await _running(context)
    refusal = None
    if running and not options.leave_running:
        hint = "delete them, or --leave-running: they go on, and nobody knows who has their cards"
        hint += f"; placing is stopped meanwhile. To go on as before:  {RESUME}" if stops else ""
        refusal = StillInUse(f"{len(running)} pods run on cards of the pool: {', '.join(running)}", hint=hint)
    if refusal is not None and not options.dry_run:
        raise refusal
    lines = await _lines(options, context)
    told: dict[str, Any] = {"changed": False, "changes": lines}
    if agreed(options, lines):
        for step in STEPS if options.keep_objects else (*STEPS, _objects):
            await step(context)
        left = [f"{ns}/{name}" for ns, name in await _stranded(context)]
        report(options, {**told, "changed": True, "stranded": left}, _ended(left))
        return 0
    return unchanged(options, told, refusal)


async def _stop_placing(context: Context) -> bool:
    """Have no pod get cards from now on, so that those that run are the last; whether there was somebody to tell."""
    if not await _told_to_stop(context):
        return False

    async def placing() -> str:
        found = await context.find(f"{SETTINGS}/{NAME}") or {}
        in_use = (found.get("status") or {}).get("inUse") or {}
        return "the controller has not stopped placing" if in_use.get("placing", True) else ""

    with suppress(Unavailable):  # nobody leads: then nobody places either
        await until(placing, STOP_SECONDS, "")
    return True


async def _told_to_stop(context: Context) -> bool:
    """Whether `placing: false` is written now; not where the definition itself is gone."""
    told = {"spec": {"placing": False}}
    for write in (
        partial(context.api.patch, f"{SETTINGS}/{NAME}", told),
        partial(context.api.create, SETTINGS, empty() | told),  # before the controller has made it
        partial(context.api.patch, f"{SETTINGS}/{NAME}", told),  # and where it made it just then
    ):
        try:
            await write()
            return True
        except ApiRefused as error:
            if not (error.gone or error.conflict):
                raise
    return False


async def _running(context: Context) -> list[str]:
    nodes = await context.ledgers()
    held = {entry.uid for node in nodes for entry in node.entries if entry.state is not EntryState.DRAINING}
    return [f"{p.namespace}/{p.name}" for p in await context.pods() if p.uid in held and p.node and not p.ended]


async def _stranded(context: Context) -> list[tuple[str, str]]:
    """(namespace, name) of bare pods that only our controller would have bound."""
    pods = await context.items(PODS, labelSelector=OURS)
    found = [pod["metadata"] for pod in pods if direct.is_direct(pod) and _never_ran(pod) and not _owned(pod)]
    return sorted((meta["namespace"], meta["name"]) for meta in found)


def _ended(stranded: list[str]) -> str:
    said = "gpupool is gone from this cluster"
    if not stranded:
        return said
    return f"{said}; nobody binds {', '.join(stranded)} any more: kubectl delete pod -n NAMESPACE NAME"


async def _lines(options: argparse.Namespace, context: Context) -> list[str]:
    ledgers, spoken = await context.items(ledger.NODES), await _speaking(context)
    gates = len(await gated_pods(context))
    left = [f"{ns}/{name}" for ns, name in await _stranded(context)]
    return [
        f"open the gate of {many(gates, 'pod')}",
        f"delete the webhook {install.WEBHOOK}",
        "delete pods that never ran, name our resources and are made anew by their owner",
        *([f"leave {', '.join(left)}, which nobody would bind any more and no owner makes anew"] if left else []),
        f"delete the definitions, with {many(len(ledgers), 'ledger')}",
        f"remove {', '.join(names.TOTALS)} and our labels from {many(len(spoken), 'node')}",
        *([] if options.keep_objects else [f"delete our programs, policies, rights and namespace {context.namespace}"]),
    ]


# --- steps, each idempotent -------------------------------------------------------------------


async def _gates(context: Context) -> None:
    """Only the controller may open gates, as long as that policy is there."""
    await _delete(context, f"{POLICIES}ybindings/{GATE_POLICY}")
    await _delete(context, f"{POLICIES}ies/{GATE_POLICY}")
    await open_all(context)


async def _programs(context: Context) -> None:
    """What would gate pods, place them, or write again what is taken away below."""
    for made in reversed(install.native(context.namespace)):
        await _delete(context, install.path_of(made))
    await _delete(context, WEBHOOK)
    apps = f"/apis/apps/v1/namespaces/{context.namespace}"
    for kind, name in (("deployments", install.WEBHOOK), ("deployments", install.CONTROLLER)):
        await _delete(context, f"{apps}/{kind}/{name}")
    await _delete(context, f"{apps}/daemonsets/{install.AGENT}")


async def _hand_back(context: Context) -> None:
    """Pods that were gated between the first look and the webhook's end; and whom no scheduler can place any more."""
    await open_all(context)
    for pod in await context.items(PODS, labelSelector=OURS):
        if _never_ran(pod) and _owned(pod):
            meta = pod["metadata"]
            path = f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}"
            await _delete(context, path, {"preconditions": {"uid": meta["uid"]}})


def _owned(pod: Json) -> bool:
    return any(one.get("controller") for one in pod["metadata"].get("ownerReferences") or ())


def _never_ran(pod: Json) -> bool:
    return not pod["spec"].get("nodeName") and pod["status"].get("phase") not in names.ENDED


async def _definitions(context: Context) -> None:
    paths = [install.path_of(one) for one in install.objects() if one["kind"] == "CustomResourceDefinition"]
    for path in paths:
        await _delete(context, path)

    async def left() -> str:
        found = [path.rpartition("/")[2] for path in paths if await context.find(path) is not None]
        return f"{', '.join(found)} are not gone yet" if found else ""

    await until(left, GONE_SECONDS, "kubectl gpupool uninstall  goes on")


async def _nodes(context: Context) -> None:
    async def left() -> str:
        found = await _speaking(context)
        for node in found:
            await _forget(context, node)
        return f"{len(found)} nodes say our names again" if found else ""

    await until(left, GONE_SECONDS, f"is a controller still there? kubectl get pods -A | grep {install.CONTROLLER}")


async def _speaking(context: Context) -> list[Json]:
    """Nodes on which something of ours is written."""
    return [one for one in await context.items(NODES) if restoring(one) or _offers(one)]


def _offers(node: Json) -> bool:
    status = node.get("status") or {}
    return any(name in (status.get(part) or {}) for part in ("capacity", "allocatable") for name in names.TOTALS)


async def _forget(context: Context, node: Json) -> None:
    path = f"{NODES}/{node['metadata']['name']}"
    patch = restoring(node)
    try:
        if patch is not None:
            await context.api.patch(path, patch)
        if _offers(node):
            amounts = capacities.patch(())["status"]["capacity"] | {names.SLOT: None}
            await context.api.patch(f"{path}/status", {"status": {"capacity": amounts, "allocatable": amounts}})
    except ApiRefused as error:
        if not (error.gone or error.conflict):  # it is looked at again
            raise


async def _objects(context: Context) -> None:
    """Accounts, rights, policies, and at last the namespace with all that is in it."""
    space = f"/api/v1/namespaces/{context.namespace}"
    await _delete(context, f"{space}/services/{install.WEBHOOK}")
    await _delete(context, f"{space}/secrets/{install.SECRET}")
    for made in reversed(install.objects(context.namespace)):
        await _delete(context, install.path_of(made))


async def _last_look(context: Context) -> None:
    """An API server knows of a webhook for a moment after it was deleted."""
    await _hand_back(context)


STEPS: tuple[Callable[[Context], Awaitable[None]], ...] = (
    _gates,
    _programs,
    _hand_back,
    _definitions,
    _nodes,
    _last_look,
)


async def _delete(context: Context, path: str, options: Json | None = None) -> None:
    try:
        await context.api.delete(path, {"kind": "DeleteOptions", "apiVersion": "v1", **BACKGROUND, **(options or {})})
    except ApiRefused as error:
        if not (error.gone or error.conflict):
            raise
