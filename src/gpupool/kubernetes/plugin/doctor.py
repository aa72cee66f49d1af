"""`kubectl gpupool doctor`: is everything here that the pool needs, and who else hands out cards."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

from gpupool import __version__
from gpupool.base import quantities
from gpupool.base.errors import PastAdmission
from gpupool.cli.check_rows import FAIL, OK, WARN, Check, check, checks_table
from gpupool.cli.output import many, print_data
from gpupool.cli.parser import OBJECT_FORMATS, Parser, add_output
from gpupool.kubernetes import install, members, names, restoring
from gpupool.kubernetes.objects import GpuNode, Mode
from gpupool.kubernetes.plugin import certificate
from gpupool.kubernetes.plugin.context import DAEMONSETS, NODES, Context, Json
from gpupool.kubernetes.plugin.others import GROUPS, offered, plugins_of
from gpupool.kubernetes.pods import Pod
from gpupool.kubernetes.stretches import untold

OLDEST = (1, 31)
NEEDED = {
    "ValidatingAdmissionPolicy (v1)": "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies",
    "CustomResourceDefinition (v1)": "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
    "Lease (v1)": "/apis/coordination.k8s.io/v1/leases",
}
MUTATING = "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicies"
WEBHOOK = install.path_of(install.webhook())
INSTALL = "helm upgrade --install gpupool deploy/helm/gpupool -n gpupool"


def register(parser: Parser) -> None:
    parser.about = """
    Looks at the server, gpupool's definitions, policies, webhook and certificates, its controller and agents, the slots
    of each node, and whoever else hands out cards. Changes nothing. Exit code 0 when nothing is wrong.
    """
    parser.examples = ["kubectl gpupool doctor", "kubectl gpupool doctor -o json"]
    add_output(parser, OBJECT_FORMATS)


async def run(options: argparse.Namespace, context: Context) -> int:
    checks = [found async for found in _checks(context)]
    if options.output == "table":
        sys.stdout.write(checks_table(checks, color=context.color) + "\n")
    else:
        print_data({"version": __version__, "checks": checks}, options.output)
    return 1 if any(one["state"] == FAIL for one in checks) else 0


async def _checks(context: Context) -> Any:
    yield server(await context.api.get("/version"))
    yield served([name for name, path in NEEDED.items() if await context.find(f"{path}?limit=1") is None])
    wanted = install.objects(context.namespace)
    yield installed([(made, await context.find(install.path_of(made))) for made in wanted])
    yield webhook(await context.find(WEBHOOK))
    kinds = [(made, await context.find(install.path_of(made))) for made in install.native(context.namespace)]
    yield native(await context.find(f"{MUTATING}?limit=1") is not None, kinds)
    secret = await context.find(f"/api/v1/namespaces/{context.namespace}/secrets/{install.SECRET}")
    if secret is not None:
        yield certificate.aged(secret, context.now)
    leases = f"/apis/coordination.k8s.io/v1/namespaces/{context.namespace}/leases"
    yield leads(await context.find(f"{leases}/{install.CONTROLLER}"), context.now)
    nodes = {one["metadata"]["name"]: one for one in await context.items(NODES)}
    ledgers = await context.ledgers()
    here = [node for node in ledgers if node.name in nodes]
    for found in (agents(here), slots(here, nodes), *twice(here, nodes), *unaccounted(here), *orphans(ledgers, nodes)):
        yield found
    groups = [one["name"] for one in (await context.api.get("/apis"))["groups"]]
    yield others([plugin.owner for plugin in plugins_of(await context.items(DAEMONSETS))], groups, nodes)
    pods = await context.pods()
    for found in (waits(pods), *lost(pods, ledgers)):
        yield found


# --- one check each; pure ---------------------------------------------------------------------


def server(version: Json) -> Check:
    """Gates whose pods are released by a patch of affinity, and policies as we write them, are in 1.31."""
    numbers = tuple(int(re.sub(r"\D.*", "", version.get(part, "")) or 0) for part in ("major", "minor"))
    said = f"Kubernetes {version.get('gitVersion', '?')}"
    if numbers < OLDEST:
        return check("server", FAIL, f"{said} is too old", "gpupool needs Kubernetes 1.31 or newer")
    return check("server", OK, said)


def served(missing: Sequence[str]) -> Check:
    if missing:
        return check("api", FAIL, f"does not serve {', '.join(missing)}", "the server's --runtime-config turns it off")
    return check("api", OK, f"serves {', '.join(NEEDED)}")


def installed(objects: Sequence[tuple[Json, Json | None]]) -> Check:
    """Of what `install` writes, everything is there and says the same."""
    missing = [_said(made) for made, found in objects if found is None]
    changed = [_said(made) for made, found in objects if found is not None and not _holds(made, found)]
    if missing:
        return check("objects", FAIL, f"missing: {', '.join(missing)}", INSTALL)
    if changed:
        return check("objects", WARN, f"of another version, or changed: {', '.join(changed)}", INSTALL)
    return check("objects", OK, f"all {len(objects)} as gpupool {__version__} makes them")


def _said(made: Json) -> str:
    return f"{made['kind']} {made['metadata']['name']}"


def _holds(wanted: Any, found: Any) -> bool:
    """Whether everything that is wanted is found; servers add defaults, and leave out what is empty."""
    if isinstance(wanted, dict):
        return isinstance(found, dict) and all(
            _holds(value, found.get(key)) for key, value in wanted.items() if value or key in found
        )
    if isinstance(wanted, list):
        same = isinstance(found, list) and len(wanted) == len(found)
        return same and all(_holds(a, b) for a, b in zip(wanted, found, strict=True))
    return bool(wanted == found)


def webhook(found: Json | None) -> Check:
    if found is None:
        said = f"not configured: pods that ask for cards are refused with {PastAdmission.code}"
        return check("webhook", FAIL, said, INSTALL)
    untrusted = [one["name"] for one in found.get("webhooks") or () if not one["clientConfig"].get("caBundle")]
    if untrusted:
        said = f"{', '.join(untrusted)}: the server is not told whom to trust"
        return check("webhook", FAIL, said, f"kubectl -n gpupool logs deployment/{install.WEBHOOK}")
    return check("webhook", OK, f"configured, {many(len(found.get('webhooks') or ()), 'hook')}")


def native(serves: bool, objects: Sequence[tuple[Json, Json | None]]) -> Check:
    """Who admits plain native pods; an older server leaves them to the webhook, as all others."""
    if not serves:
        return check("native pods", OK, "by the webhook; from Kubernetes 1.36 the server can admit them itself")
    if any(found is None for _, found in objects):
        following = "python -m gpupool.kubernetes install --native-policy | kubectl apply --server-side -f -"
        return check("native pods", OK, "by the webhook; this server can admit them itself", following)
    if not all(found is not None and _holds(made, found) for made, found in objects):
        return check("native pods", WARN, "the server's policy is of another version, or changed", INSTALL)
    return check("native pods", OK, "admitted by the server itself")


def leads(lease: Json | None, now: datetime) -> Check:
    """By the holder's clock and ours."""
    following = f"kubectl -n gpupool get pods; kubectl -n gpupool logs deployment/{install.CONTROLLER}"
    spec = (lease or {}).get("spec") or {}
    if not spec.get("holderIdentity"):
        return check("controller", FAIL, "nobody leads: no pod gets cards", following)
    ago = (now - datetime.fromisoformat(spec["renewTime"])).total_seconds()
    if ago > spec.get("leaseDurationSeconds", 15):
        return check("controller", FAIL, f"{spec['holderIdentity']} is silent for {ago:.0f} s", following)
    return check("controller", OK, f"{spec['holderIdentity']} leads, seen {max(0, ago):.0f} s ago")


def agents(ledgers: Sequence[GpuNode]) -> Check:
    if not ledgers:
        following = f"kubectl -n gpupool get pods -o wide; kubectl -n gpupool logs daemonset/{install.AGENT}"
        return check("agents", WARN, "no agent has reported of a node", following)
    silent = [node.name for node in ledgers if not node.ready]
    behind = [node.name for node in ledgers if node.ready and node.observed < node.version]
    if silent:
        return check("agents", FAIL, f"not ready: {', '.join(silent)}", "kubectl -n gpupool get pods -o wide")
    if behind:
        return check("agents", WARN, f"behind their ledger: {', '.join(behind)}", "kubectl gpupool doctor  once more")
    adopted = sum(node.mode is not Mode.OBSERVE for node in ledgers)
    return check("agents", OK, f"{many(len(ledgers), 'node')} reported of, {adopted} adopted")


def slots(ledgers: Sequence[GpuNode], nodes: dict[str, Json]) -> Check:
    """An adopted node without slots takes no pod of ours."""
    adopted = [node.name for node in ledgers if node.mode is not Mode.OBSERVE and node.name in nodes]
    bare = [name for name in adopted if not _slots(nodes[name])]
    if bare:
        following = f"kubectl -n gpupool logs daemonset/{install.AGENT} -c slots"
        return check("slots", FAIL, f"not registered with the kubelet of {', '.join(bare)}", following)
    return check("slots", OK, f"registered on {many(len(adopted), 'adopted node')}")


def _slots(node: Json) -> int:
    return quantities.whole((node["status"].get("allocatable") or {}).get(names.SLOT, 0))


def twice(ledgers: Sequence[GpuNode], nodes: dict[str, Json]) -> Iterator[Check]:
    """Adopted nodes whose cards somebody else offers too."""
    for node in ledgers:
        also = offered(nodes[node.name]) if node.mode is not Mode.OBSERVE and node.name in nodes else {}
        if also:
            said = f"is adopted and offers {', '.join(f'{key}={also[key]}' for key in also)} as well"
            following = f"kubectl gpupool adopt {node.name}  says how the other one leaves it"
            yield check(f"node {node.name}", FAIL, said, following)


def unaccounted(ledgers: Sequence[GpuNode]) -> Iterator[Check]:
    """Nodes on which containers hold cards that no ledger knows of: nothing is placed there meanwhile."""
    for node in ledgers:
        if node.unaccounted:
            many_ = many(len(node.unaccounted), "container")
            said = f"{many_} hold cards and are not in its ledger, which was deleted or restored; it takes no pods"
            following = "wait for them or delete their pods; the node opens when its agent reports them gone"
            yield check(f"node {node.name}", FAIL, said, following)


def orphans(ledgers: Sequence[GpuNode], nodes: dict[str, Json]) -> Iterator[Check]:
    """Ledgers whose Node is gone and that wait for the meter."""
    for node in ledgers:
        if node.name not in nodes and untold(node):
            said = f"is gone, and not all that ended there is in the books yet ({len(untold(node))} left)"
            following = f"kubectl -n gpupool logs deployment/{install.METER}; kubectl delete gpunode {node.name}"
            yield check(f"node {node.name}", WARN, said, f"{following}  gives them up")


def others(owners: Sequence[str], groups: Sequence[str], nodes: dict[str, Json]) -> Check:
    """Whoever else is here; that is no fault, as long as no card has two owners."""
    found = sorted({*owners, *(GROUPS[name] for name in groups if name in GROUPS)})
    offering = sum(bool(offered(node)) for node in nodes.values())
    said = ", ".join(found) or "nobody else hands out cards"
    return check("others", OK, said + (f"; {many(offering, 'node')} offer cards by other names" if offering else ""))


def waits(pods: Sequence[Pod]) -> Check:
    broken = [f"{pod.namespace}/{pod.name}" for pod in pods if pod.problem and pod.gated]
    waiting = sum(pod.waits for pod in pods)
    if broken:
        return check("pods", WARN, f"cannot be read: {', '.join(broken)}", f"kubectl gpupool why {broken[0]}")
    return check("pods", OK, f"{waiting} wait for cards", "kubectl gpupool why POD" if waiting else "")


def lost(pods: Sequence[Pod], ledgers: Sequence[GpuNode]) -> Iterator[Check]:
    """Pods that were let go and stand in no ledger: their containers do not start."""
    entered = {uid for node in ledgers for uid in members.uids(node) | members.unaccounted(node)}
    found = [f"{one.namespace}/{one.name}" for one in pods if restoring.is_let_go(one) and one.uid not in entered]
    if found:
        said = f"{many(len(found), 'pod')} let go without cards in a ledger: {', '.join(found[:5])}"
        following = "the controller gives them cards of their node as these are free; kubectl describe pod  says more"
        yield check("pods without cards", WARN, said, following)
