"""`kubectl gpupool doctor`: checks that everything the pool needs is there and works."""

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
from gpupool.kubernetes.cache import gang_members, ledger_restore
from gpupool.kubernetes.ledger.billing_intervals import unreported_intervals
from gpupool.kubernetes.manifests import install
from gpupool.kubernetes.plugin import certificate
from gpupool.kubernetes.plugin.context import DAEMONSETS, NODES, Context, Json
from gpupool.kubernetes.plugin.others import GROUPS, offered_cards, plugins_of
from gpupool.kubernetes.resources import names
from gpupool.kubernetes.resources.gpu_node import GpuNode, Mode
from gpupool.kubernetes.resources.pod import Pod
from gpupool.model.sharing_default import DEFAULTS, SHARING_LABEL, explain_ignored_label
from gpupool.terminal.check_rows import FAIL, OK, WARN, Check, format_checks, make_check
from gpupool.terminal.output import count_noun, print_data
from gpupool.terminal.parser import OBJECT_FORMATS, CommandParser, add_output

OLDEST = (1, 31)
NEEDED = {
    "ValidatingAdmissionPolicy (v1)": "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies",
    "CustomResourceDefinition (v1)": "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
    "Lease (v1)": "/apis/coordination.k8s.io/v1/leases",
}
MUTATING = "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicies"
WEBHOOK = install.path_of(install.webhook())
INSTALL = "helm upgrade --install gpupool deploy/helm/gpupool -n gpupool"


def register(parser: CommandParser) -> None:
    parser.about = """
    Looks at the server, gpupool's definitions, policies, webhook and certificates, its controller and agents, the slots
    of each node, and whoever else hands out cards. Changes nothing. Exit code 0 when nothing is wrong.
    """
    parser.examples = ["kubectl gpupool doctor", "kubectl gpupool doctor -o json"]
    add_output(parser, OBJECT_FORMATS)


async def run(options: argparse.Namespace, context: Context) -> int:
    checks = [found async for found in _checks(context)]
    if options.output == "table":
        sys.stdout.write(format_checks(checks, color=context.color) + "\n")
    else:
        print_data({"version": __version__, "checks": checks}, options.output)
    return 1 if any(one["state"] == FAIL for one in checks) else 0


async def _checks(context: Context) -> Any:
    yield check_server(await context.api.get("/version"))
    yield check_served(
        [name for name, path in NEEDED.items() if await context.find(f"{path}?limit=1") is None]
    )
    wanted = install.objects(context.namespace)
    yield check_installed([(made, await context.find(install.path_of(made))) for made in wanted])
    yield check_webhook(await context.find(WEBHOOK))
    kinds = []
    for made in install.native(context.namespace):
        kinds.append((made, await context.find(install.path_of(made))))
    serves_mutating = await context.find(f"{MUTATING}?limit=1") is not None
    yield check_native(serves_mutating, kinds)
    secret = await context.find(f"/api/v1/namespaces/{context.namespace}/secrets/{install.SECRET}")
    if secret is not None:
        yield certificate.check_certificate(secret, context.now)
    leases = f"/apis/coordination.k8s.io/v1/namespaces/{context.namespace}/leases"
    yield check_leader(await context.find(f"{leases}/{install.CONTROLLER}"), context.now)
    nodes = {one["metadata"]["name"]: one for one in await context.items(NODES)}
    ledgers = await context.ledgers()
    here = [node for node in ledgers if node.name in nodes]
    for found in (
        check_agents(here),
        check_slots(here, nodes),
        *check_double_offers(here, nodes),
        *check_sharing_labels(nodes),
        *check_unaccounted(here),
        *check_orphans(ledgers, nodes),
    ):
        yield found
    groups = [one["name"] for one in (await context.api.get("/apis"))["groups"]]
    owners = [plugin.owner for plugin in plugins_of(await context.items(DAEMONSETS))]
    yield check_others(owners, groups, nodes)
    pods = await context.pods()
    for found in (check_waiting(pods), *check_lost(pods, ledgers)):
        yield found


# --- one check each; pure ---------------------------------------------------------------------


def check_server(version: Json) -> Check:
    """Check the version of the API server."""
    # 1.31 is the first with releases by a patch of the affinity and with policies as we write them.
    # Vendors append to the minor version: `31+`.
    parts = (version.get("major", ""), version.get("minor", ""))
    numbers = tuple(int(re.sub(r"\D.*", "", part) or 0) for part in parts)
    said = f"Kubernetes {version.get('gitVersion', '?')}"
    if numbers < OLDEST:
        return make_check(
            "server", FAIL, f"{said} is too old", "gpupool needs Kubernetes 1.31 or newer"
        )
    return make_check("server", OK, said)


def check_served(missing: Sequence[str]) -> Check:
    """Check that the server serves every API that is needed."""
    if missing:
        return make_check(
            "api",
            FAIL,
            f"does not serve {', '.join(missing)}",
            "the server's --runtime-config turns it off",
        )
    return make_check("api", OK, f"serves {', '.join(NEEDED)}")


def check_installed(objects: Sequence[tuple[Json, Json | None]]) -> Check:
    """Check that everything that `install` writes is there and unchanged."""
    missing = []
    changed = []
    for made, found in objects:
        if found is None:
            missing.append(_format_made(made))
        elif not _is_contained(made, found):
            changed.append(_format_made(made))
    if missing:
        return make_check("objects", FAIL, f"missing: {', '.join(missing)}", INSTALL)
    if changed:
        return make_check(
            "objects", WARN, f"of another version, or changed: {', '.join(changed)}", INSTALL
        )
    return make_check("objects", OK, f"all {len(objects)} as gpupool {__version__} makes them")


def _format_made(made: Json) -> str:
    return f"{made['kind']} {made['metadata']['name']}"


def _is_contained(wanted: Any, found: Any) -> bool:
    """Whether everything that is wanted is in the object that was found."""
    # Not equality: API servers add defaults, and leave out what is empty.
    if isinstance(wanted, dict):
        if not isinstance(found, dict):
            return False
        for key, value in wanted.items():
            if (value or key in found) and not _is_contained(value, found.get(key)):
                return False
        return True
    if isinstance(wanted, list):
        has_same_length = isinstance(found, list) and len(wanted) == len(found)
        return has_same_length and all(map(_is_contained, wanted, found))
    return bool(wanted == found)


def check_webhook(found: Json | None) -> Check:
    """Check that the webhook is configured and trusted."""
    if found is None:
        said = f"not configured: pods that ask for cards are refused with {PastAdmission.code}"
        return make_check("webhook", FAIL, said, INSTALL)
    hooks = found.get("webhooks") or ()
    untrusted = [one["name"] for one in hooks if not one["clientConfig"].get("caBundle")]
    if untrusted:
        said = f"{', '.join(untrusted)}: the server is not told whom to trust"
        return make_check(
            "webhook", FAIL, said, f"kubectl -n gpupool logs deployment/{install.WEBHOOK}"
        )
    return make_check("webhook", OK, f"configured, {count_noun(len(hooks), 'hook')}")


def check_native(serves: bool, objects: Sequence[tuple[Json, Json | None]]) -> Check:
    """Check what admits plain native pods: the webhook, or a policy in a newer API server."""
    if not serves:
        return make_check(
            "native pods",
            OK,
            "by the webhook; from Kubernetes 1.36 the server can admit them itself",
        )
    if any(found is None for _, found in objects):
        following = "python -m gpupool.kubernetes install --native-policy | kubectl apply --server-side -f -"
        return make_check(
            "native pods", OK, "by the webhook; this server can admit them itself", following
        )
    if not all(_is_contained(made, found) for made, found in objects):
        return make_check(
            "native pods", WARN, "the server's policy is of another version, or changed", INSTALL
        )
    return make_check("native pods", OK, "admitted by the server itself")


def check_leader(lease: Json | None, now: datetime) -> Check:
    """Check that a controller leads, by the holder's clock and ours."""
    following = (
        f"kubectl -n gpupool get pods; kubectl -n gpupool logs deployment/{install.CONTROLLER}"
    )
    spec = (lease or {}).get("spec") or {}
    if not spec.get("holderIdentity"):
        return make_check("controller", FAIL, "nobody leads: no pod gets cards", following)
    ago = (now - datetime.fromisoformat(spec["renewTime"])).total_seconds()
    if ago > spec.get("leaseDurationSeconds", 15):
        return make_check(
            "controller", FAIL, f"{spec['holderIdentity']} is silent for {ago:.0f} s", following
        )
    return make_check(
        "controller", OK, f"{spec['holderIdentity']} leads, seen {max(0, ago):.0f} s ago"
    )


def check_agents(ledgers: Sequence[GpuNode]) -> Check:
    """Check that the agents are ready and have read their ledgers."""
    if not ledgers:
        following = f"kubectl -n gpupool get pods -o wide; kubectl -n gpupool logs daemonset/{install.AGENT}"
        return make_check("agents", WARN, "no agent has reported of a node", following)
    silent = [node.name for node in ledgers if not node.ready]
    behind = [node.name for node in ledgers if node.ready and node.observed < node.version]
    if silent:
        return make_check(
            "agents", FAIL, f"not ready: {', '.join(silent)}", "kubectl -n gpupool get pods -o wide"
        )
    if behind:
        return make_check(
            "agents",
            WARN,
            f"behind their ledger: {', '.join(behind)}",
            "kubectl gpupool doctor  once more",
        )
    adopted = sum(node.mode is not Mode.OBSERVE for node in ledgers)
    return make_check(
        "agents", OK, f"{count_noun(len(ledgers), 'node')} reported of, {adopted} adopted"
    )


def check_slots(ledgers: Sequence[GpuNode], nodes: dict[str, Json]) -> Check:
    """Check that adopted nodes have slots: without them no managed pod can start there."""
    adopted = []
    for node in ledgers:
        if node.mode is not Mode.OBSERVE and node.name in nodes:
            adopted.append(node.name)
    bare = [name for name in adopted if not _count_slots(nodes[name])]
    if bare:
        following = f"kubectl -n gpupool logs daemonset/{install.AGENT} -c slots"
        return make_check(
            "slots", FAIL, f"not registered with the kubelet of {', '.join(bare)}", following
        )
    return make_check("slots", OK, f"registered on {count_noun(len(adopted), 'adopted node')}")


def _count_slots(node: Json) -> int:
    return quantities.parse_whole((node["status"].get("allocatable") or {}).get(names.SLOT, 0))


def check_double_offers(ledgers: Sequence[GpuNode], nodes: dict[str, Json]) -> Iterator[Check]:
    """Yield adopted nodes whose cards another device plugin offers too."""
    for node in ledgers:
        also = (
            offered_cards(nodes[node.name])
            if node.mode is not Mode.OBSERVE and node.name in nodes
            else {}
        )
        if also:
            said = (
                f"is adopted and offers {', '.join(f'{key}={also[key]}' for key in also)} as well"
            )
            following = f"kubectl gpupool adopt {node.name}  says how the other one leaves it"
            yield make_check(f"node {node.name}", FAIL, said, following)


def check_sharing_labels(nodes: dict[str, Json]) -> Iterator[Check]:
    """Yield nodes whose label for the default of sharing is ignored."""
    for name, node in sorted(nodes.items()):
        labels = node["metadata"].get("labels") or {}
        if problem := explain_ignored_label(labels):
            following = f"kubectl label node {name} --overwrite {SHARING_LABEL}={DEFAULTS[-1]}"
            yield make_check(f"node {name}", WARN, problem, following)


def check_unaccounted(ledgers: Sequence[GpuNode]) -> Iterator[Check]:
    """Yield nodes with containers that hold cards without an entry: no pod is placed there."""
    for node in ledgers:
        if node.unaccounted_uses:
            many_ = count_noun(len(node.unaccounted_uses), "container")
            said = f"{many_} hold cards and are not in its ledger, which was deleted or restored; it takes no pods"
            following = "wait for them or delete their pods; the node opens when its agent reports them gone"
            yield make_check(f"node {node.name}", FAIL, said, following)


def check_orphans(ledgers: Sequence[GpuNode], nodes: dict[str, Json]) -> Iterator[Check]:
    """Yield ledgers whose Node is gone and that wait for the meter."""
    for node in ledgers:
        if node.name not in nodes and unreported_intervals(node):
            said = f"is gone, and not all that ended there is in the books yet ({len(unreported_intervals(node))} left)"
            following = f"kubectl -n gpupool logs deployment/{install.METER}; kubectl delete gpunode {node.name}"
            yield make_check(f"node {node.name}", WARN, said, f"{following}  gives them up")


def check_others(owners: Sequence[str], groups: Sequence[str], nodes: dict[str, Json]) -> Check:
    """Name the other systems that hand out cards; no fault as long as no card has two owners."""
    found = sorted({*owners, *(GROUPS[name] for name in groups if name in GROUPS)})
    offering = sum(bool(offered_cards(node)) for node in nodes.values())
    said = ", ".join(found) or "nobody else hands out cards"
    return make_check(
        "others",
        OK,
        said + (f"; {count_noun(offering, 'node')} offer cards by other names" if offering else ""),
    )


def check_waiting(pods: Sequence[Pod]) -> Check:
    """Check that the claims of waiting pods can be read."""
    broken = []
    for pod in pods:
        if pod.problem and pod.gated:
            broken.append(f"{pod.namespace}/{pod.name}")
    waiting = sum(pod.is_waiting for pod in pods)
    if broken:
        return make_check(
            "pods", WARN, f"cannot be read: {', '.join(broken)}", f"kubectl gpupool why {broken[0]}"
        )
    return make_check(
        "pods", OK, f"{waiting} wait for cards", "kubectl gpupool why POD" if waiting else ""
    )


def check_lost(pods: Sequence[Pod], ledgers: Sequence[GpuNode]) -> Iterator[Check]:
    """Yield released pods without an entry: their containers do not start."""
    entered: set[str] = set()
    for node in ledgers:
        entered |= gang_members.ledger_uids(node) | gang_members.unaccounted_uids(node)
    found = []
    for one in pods:
        if ledger_restore.is_released(one) and one.uid not in entered:
            found.append(f"{one.namespace}/{one.name}")
    if found:
        said = f"{count_noun(len(found), 'pod')} let go without cards in a ledger: {', '.join(found[:5])}"
        following = "the controller gives them cards of their node as these are free; kubectl describe pod  says more"
        yield make_check("pods without cards", WARN, said, following)
