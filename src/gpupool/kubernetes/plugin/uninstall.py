"""`kubectl gpupool uninstall`: removes gpupool from the cluster and leaves no pod at our gate.

The order makes it safe to kill it and begin again: first gates, then the programs that gate pods,
then gates once more. Each step is idempotent, so a second run does what the first one did not reach.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import Any

from gpupool.base.errors import ApiServerRejection, ServiceUnavailable, StillInUse
from gpupool.kubernetes.ledger import ledger
from gpupool.kubernetes.manifests import install
from gpupool.kubernetes.plugin.acting import (
    add_plan,
    confirm_changes,
    end_unchanged,
    gated_pods,
    open_all,
    report,
    until,
)
from gpupool.kubernetes.plugin.adoption import restoring
from gpupool.kubernetes.plugin.context import NODES, OURS, PODS, Context, Json
from gpupool.kubernetes.plugin.doctor import WEBHOOK
from gpupool.kubernetes.resources import direct_binding, names, node_capacity
from gpupool.kubernetes.resources.gpu_node import EntryState
from gpupool.kubernetes.resources.pool_settings import NAME, SETTINGS
from gpupool.kubernetes.status.settings import empty
from gpupool.terminal.output import count_noun
from gpupool.terminal.parser import CommandParser

#: Seconds to wait for definitions to go: a busy API server takes a minute for one.
GONE_SECONDS = 180.0
#: Seconds between changes of a definition that is still there, so that the API server processes its
#: deletion again.
TOUCH_SECONDS = 20.0
TOUCHED_AT = f"{names.GROUP}/touched-at"
#: Seconds to wait for the controller to stop placing. It learns of the setting by its watch; a new
#: leader reads it before it places anything.
STOP_SECONDS = 15.0
GATE_POLICY = f"gate.{names.GROUP}"
POLICIES = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolic"
RESUME = f'kubectl patch poolsettings {NAME} --type merge -p \'{{"spec":{{"placing":true}}}}\''
BACKGROUND = {"propagationPolicy": "Background"}


def register(parser: CommandParser) -> None:
    parser.about = """
    Opens every gate first, then takes away the webhook, the programs, the definitions with every ledger, what nodes
    offer by our names, and the rights. Pods that never ran and name our resources are deleted where somebody makes
    them anew; a bare one stays, Pending, and is named where nobody is left to bind it. May be killed and typed again
    at any time. With --yes placing is stopped first (`placing: false` of the PoolSettings). Then it refuses while pods
    run on cards of the pool, since nobody would know of them afterwards.
    """
    parser.examples = ["kubectl gpupool uninstall --dry-run", "kubectl gpupool uninstall --yes"]
    parser.add_argument(
        "--leave-running", action="store_true", help="also while pods run on cards; they go on"
    )
    parser.add_argument(
        "--keep-objects",
        action="store_true",
        help="leave accounts, rights and programs to helm, which made them",
    )
    add_plan(parser)


async def run(options: argparse.Namespace, context: Context) -> int:
    stops = (
        not options.dry_run
        and options.yes
        and not options.leave_running
        and await _stop_placing(context)
    )
    running = await _running(context)
    refusal = None
    if running and not options.leave_running:
        hint = "delete them, or --leave-running: they go on, and nobody knows who has their cards"
        hint += f"; placing is stopped meanwhile. To go on as before:  {RESUME}" if stops else ""
        refusal = StillInUse(
            f"{len(running)} pods run on cards of the pool: {', '.join(running)}", hint=hint
        )
    if refusal is not None and not options.dry_run:
        raise refusal
    lines = await _lines(options, context)
    told: dict[str, Any] = {"changed": False, "changes": lines}
    if confirm_changes(options, lines):
        for step in STEPS if options.keep_objects else (*STEPS, _objects):
            await step(context)
        left = [f"{ns}/{name}" for ns, name in await _stranded_pods(context)]
        report(options, {**told, "changed": True, "stranded": left}, _are_stranded_gone(left))
        return 0
    return end_unchanged(options, told, refusal)


async def _stop_placing(context: Context) -> bool:
    """Stop placing, so that no more pods start; return False if the setting cannot be written."""
    if not await _is_placing_stopped(context):
        return False

    async def find_placing() -> str:
        found = await context.find(f"{SETTINGS}/{NAME}") or {}
        in_use = (found.get("status") or {}).get("inUse") or {}
        return "the controller has not stopped placing" if in_use.get("placing", True) else ""

    # Without a leader no controller confirms, and none places either.
    with suppress(ServiceUnavailable):
        await until(find_placing, STOP_SECONDS, "")
    return True


async def _is_placing_stopped(context: Context) -> bool:
    """Whether `placing: false` is written now; not where the definition itself is gone."""
    told = {"spec": {"placing": False}}
    for write in (
        # The object may not exist before a controller has created it, or be created just then.
        partial(context.api.patch, f"{SETTINGS}/{NAME}", told),
        partial(context.api.create, SETTINGS, empty() | told),
        partial(context.api.patch, f"{SETTINGS}/{NAME}", told),
    ):
        try:
            await write()
            return True
        except ApiServerRejection as error:
            if not (error.is_not_found or error.is_conflict):
                raise
    return False


async def _running(context: Context) -> list[str]:
    nodes = await context.ledgers()
    held = set()
    for node in nodes:
        for entry in node.entries:
            if entry.state is not EntryState.DRAINING:
                held.add(entry.uid)
    running = []
    for pod in await context.pods():
        if pod.uid in held and pod.node and not pod.ended:
            running.append(f"{pod.namespace}/{pod.name}")
    return running


async def _stranded_pods(context: Context) -> list[tuple[str, str]]:
    """(namespace, name) of bare pods that only our controller would have bound."""
    pods = await context.items(PODS, labelSelector=OURS)
    found = []
    for pod in pods:
        if direct_binding.is_direct(pod) and _never_ran(pod) and not _has_owner(pod):
            found.append(pod["metadata"])
    return sorted((meta["namespace"], meta["name"]) for meta in found)


def _are_stranded_gone(stranded: list[str]) -> str:
    said = "gpupool is gone from this cluster"
    if not stranded:
        return said
    return (
        f"{said}; nobody binds {', '.join(stranded)} any more: kubectl delete pod -n NAMESPACE NAME"
    )


async def _lines(options: argparse.Namespace, context: Context) -> list[str]:
    ledgers = await context.items(ledger.NODES)
    spoken = await _list_marked_nodes(context)
    gates = len(await gated_pods(context))
    left = [f"{ns}/{name}" for ns, name in await _stranded_pods(context)]
    return [
        f"open the gate of {count_noun(gates, 'pod')}",
        f"delete the webhook {install.WEBHOOK}",
        "delete pods that never ran, name our resources and are made anew by their owner",
        *(
            [f"leave {', '.join(left)}, which nobody would bind any more and no owner makes anew"]
            if left
            else []
        ),
        f"delete the definitions, with {count_noun(len(ledgers), 'ledger')}",
        f"remove {', '.join(names.TOTALS)} and our labels from {count_noun(len(spoken), 'node')}",
        *(
            []
            if options.keep_objects
            else [f"delete our programs, policies, rights and namespace {context.namespace}"]
        ),
    ]


# --- steps, each idempotent -------------------------------------------------------------------


async def _gates(context: Context) -> None:
    """Open every gate; before that, delete the policy by which only the controller may."""
    await _delete(context, f"{POLICIES}ybindings/{GATE_POLICY}")
    await _delete(context, f"{POLICIES}ies/{GATE_POLICY}")
    await open_all(context)


async def _programs(context: Context) -> None:
    """Delete what would gate pods, place them, or write again what later steps delete."""
    for made in reversed(install.native(context.namespace)):
        await _delete(context, install.path_of(made))
    await _delete(context, WEBHOOK)
    apps = f"/apis/apps/v1/namespaces/{context.namespace}"
    for kind, name in (("deployments", install.WEBHOOK), ("deployments", install.CONTROLLER)):
        await _delete(context, f"{apps}/{kind}/{name}")
    await _delete(context, f"{apps}/daemonsets/{install.AGENT}")


async def _hand_back(context: Context) -> None:
    """Open gates that were set until the webhook ended, and delete pods that can never be bound."""
    # A pod that names our resources fits no node any more. Its owner creates a plain one.
    await open_all(context)
    for pod in await context.items(PODS, labelSelector=OURS):
        if _never_ran(pod) and _has_owner(pod):
            meta = pod["metadata"]
            path = f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}"
            await _delete(context, path, {"preconditions": {"uid": meta["uid"]}})


def _has_owner(pod: Json) -> bool:
    return any(one.get("controller") for one in pod["metadata"].get("ownerReferences") or ())


def _never_ran(pod: Json) -> bool:
    return not pod["spec"].get("nodeName") and pod["status"].get("phase") not in names.ENDED


async def _definitions(context: Context) -> None:
    paths = []
    for one in install.objects():
        if one["kind"] == "CustomResourceDefinition":
            paths.append(install.path_of(one))
    for path in paths:
        await _delete(context, path)

    touched = time.monotonic()

    async def find_remaining() -> str:
        nonlocal touched
        found = [path for path in paths if await context.find(path) is not None]
        if found and time.monotonic() - touched > TOUCH_SECONDS:
            for path in found:
                await _touch(context, path)
            touched = time.monotonic()
        left = ", ".join(path.rpartition("/")[2] for path in found)
        return f"{left} are not gone yet" if found else ""

    await until(find_remaining, GONE_SECONDS, "kubectl gpupool uninstall  goes on")


async def _touch(context: Context, path: str) -> None:
    """Change a definition that is being deleted.

    An API server stops a deletion when its own last write causes a conflict. It continues when
    something other than the condition `Terminating` changes, or else after its resync of five
    minutes (crd_finalizer.go of Kubernetes 1.36).
    """
    patch = {"metadata": {"annotations": {TOUCHED_AT: str(time.time_ns())}}}
    # It may be gone, and the caller may have no right to change it: the wait goes on without.
    with suppress(ApiServerRejection):
        await context.api.patch(path, patch)


async def _nodes(context: Context) -> None:
    async def clean_nodes() -> str:
        # Looked at until none is found: an agent that has not ended yet writes its names again.
        found = await _list_marked_nodes(context)
        for node in found:
            await _clean_node(context, node)
        return f"{len(found)} nodes say our names again" if found else ""

    await until(
        clean_nodes,
        GONE_SECONDS,
        f"is a controller still there? kubectl get pods -A | grep {install.CONTROLLER}",
    )


async def _list_marked_nodes(context: Context) -> list[Json]:
    """Return the nodes that have labels, annotations or resources of ours."""
    marked = []
    for one in await context.items(NODES):
        if restoring(one) or _offers(one):
            marked.append(one)
    return marked


def _offers(node: Json) -> bool:
    status = node.get("status") or {}
    for part in ("capacity", "allocatable"):
        for name in names.TOTALS:
            if name in (status.get(part) or {}):
                return True
    return False


async def _clean_node(context: Context, node: Json) -> None:
    path = f"{NODES}/{node['metadata']['name']}"
    patch = restoring(node)
    try:
        if patch is not None:
            await context.api.patch(path, patch)
        if _offers(node):
            amounts = node_capacity.capacity_patch(())["status"]["capacity"] | {names.SLOT: None}
            await context.api.patch(
                f"{path}/status", {"status": {"capacity": amounts, "allocatable": amounts}}
            )
    except ApiServerRejection as error:
        # The caller looks at all nodes again.
        if not (error.is_not_found or error.is_conflict):
            raise


async def _objects(context: Context) -> None:
    """Delete accounts, rights, policies, and at last the namespace with everything in it."""
    space = f"/api/v1/namespaces/{context.namespace}"
    await _delete(context, f"{space}/services/{install.WEBHOOK}")
    await _delete(context, f"{space}/secrets/{install.SECRET}")
    for made in reversed(install.objects(context.namespace)):
        await _delete(context, install.path_of(made))


async def _last_look(context: Context) -> None:
    """Look once more: an API server calls a webhook for a moment after it was deleted."""
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
        await context.api.delete(
            path, {"kind": "DeleteOptions", "apiVersion": "v1", **BACKGROUND, **(options or {})}
        )
    except ApiServerRejection as error:
        if not (error.is_not_found or error.is_conflict):
            raise
