"""`kubectl gpupool why POD`: what a pod asks as it was understood, what it has, and why it
waits."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator
from typing import Any

from gpupool.base.errors import NotFound
from gpupool.base.units import format_gpu, format_mib, format_share
from gpupool.kubernetes.plugin.context import Context, Json
from gpupool.kubernetes.resources import names
from gpupool.kubernetes.resources.gpu_node import GpuNode
from gpupool.kubernetes.resources.pod import ContainerShape, Pod, read_pod
from gpupool.model.claim import SharingKind
from gpupool.terminal.output import format_pairs, print_data
from gpupool.terminal.parser import OBJECT_FORMATS, CommandParser, add_output

REFUSAL = re.compile(r"GP-\d{4}: [^\n]+")
#: The kubelet's word for an end that came before the program.
STARTLESS = "StartError"
#: Foreign pieces that are listed for a pod that waits.
MOST_FOREIGN = 8


def register(parser: CommandParser) -> None:
    parser.about = """
    The sentence of the pod's condition, the entry of it in a node's ledger, and its claim as it was understood. Says
    also which container its node does not start, and when the pod never came to gpupool.
    """
    parser.examples = [
        "kubectl gpupool why train-0",
        "kubectl gpupool why -n team-nlp train-0 -o json",
    ]
    parser.add_argument("pod", metavar="POD", help="name, or NAMESPACE/NAME")
    parser.add_argument("-n", "--namespace", metavar="NAME", help="default: the kubeconfig's")
    add_output(parser, OBJECT_FORMATS)


async def run(options: argparse.Namespace, context: Context) -> int:
    before, slash, name = options.pod.rpartition("/")
    namespace = before if slash else options.namespace or context.api.connection.namespace
    found = await context.find(f"/api/v1/namespaces/{namespace}/pods/{name}")
    if found is None:
        raise NotFound(
            f"there is no pod {name!r} in namespace {namespace!r}",
            hint=f"kubectl get pods -n {namespace}",
        )
    answer = facts(found, await context.ledgers())
    if options.output == "table":
        sys.stdout.write(format_pairs(_lines(answer)) + "\n")
    else:
        print_data(answer, options.output)
    return 0


def facts(found: Json, nodes: list[GpuNode]) -> dict[str, Any]:
    """What there is to say of the pod, for people and programs."""
    pod = read_pod(found)
    condition = _condition(found)
    has = _held_seats(pod.uid, nodes)
    managed = (found["metadata"].get("labels") or {}).get(names.MANAGED) == "true"
    return {
        "pod": f"{pod.namespace}/{pod.name}",
        "managed": managed,
        "asks": [_format_request(ask) for ask in pod.asks],
        "problem": (pod.problem or None) if managed else None,
        "gated": pod.gated,
        "node": pod.node or None,
        "reason": condition.get("reason"),
        "message": condition.get("message"),
        "gang": pod.gang or None,
        "refused": dict(_refusals(found)),
        "has": has,
        "foreign": [] if has else _list_foreign_pieces(pod, nodes),
    }


def _condition(found: Json) -> Json:
    conditions = (found.get("status") or {}).get("conditions") or ()
    return next(
        (one for one in conditions if one["type"] == names.CONDITION and one["status"] != "True"),
        {},
    )


def _refusals(found: Json) -> Iterator[tuple[str, str]]:
    """By container that does not run, our sentence in what the kubelet says of its start; what its
    program left as its last words is none.
    """
    status = found.get("status") or {}
    for one in (
        *(status.get("initContainerStatuses") or ()),
        *(status.get("containerStatuses") or ()),
    ):
        now = one.get("state") or {}
        last = one.get("lastState") or {}
        ended = [state for state in (now.get("terminated"), last.get("terminated")) if state]
        said = [
            now.get("waiting") or {},
            *(state for state in ended if state.get("reason") == STARTLESS),
        ]
        texts = [state.get("message") or "" for state in said if "running" not in now]
        if match := next(filter(None, map(REFUSAL.search, texts)), None):
            yield one["name"], match[0]


def _format_request(ask: ContainerShape) -> dict[str, Any]:
    shape = ask.shape
    return {
        "container": ask.container,
        "cards": shape.count,
        "gpu_milli": shape.gpu_milli,
        "memory_bytes": shape.memory_bytes,
        "sharing": shape.sharing.value,
        "text": format_share(
            shape.gpu_milli,
            shape.memory_bytes,
            shape.count,
            unpromised=shape.sharing.unpromised_text,
        ),
    }


def _list_foreign_pieces(pod: Pod, nodes: list[GpuNode]) -> list[str]:
    """List what other tools have cut of cards that have a profile the pod waits for."""
    wanted = {ask.shape.profile for ask in pod.asks}
    found = []
    for node in nodes:
        for card in node.cards:
            if wanted.isdisjoint(profile.name for profile in card.profiles or ()):
                continue
            for piece in card.foreign:
                found.append(f"{node.name}/{card.index}: {piece.describe()}")
    return found[:MOST_FOREIGN]


def _held_seats(uid: str, nodes: list[GpuNode]) -> list[dict[str, Any]]:
    lines = []
    for node in nodes:
        for entry in node.entries:
            if entry.uid == uid:
                for seat in entry.seats:
                    lines.append(
                        {
                            "container": entry.container,
                            "node": node.name,
                            "card": seat.device,
                            "gpu_milli": seat.gpu_milli,
                            "memory_bytes": seat.memory_bytes,
                            "sharing": entry.sharing.value,
                            "state": entry.state.value,
                            "generation": entry.generation,
                            "leaving_for": entry.leaving_for or None,
                        }
                    )
    return lines


def _lines(answer: dict[str, Any]) -> list[tuple[str, object]]:
    return [
        ("pod", answer["pod"]),
        *((f"{one['container']} asks", one["text"]) for one in answer["asks"]),
        *((f"{one['container']} has", _seat_text(one)) for one in answer["has"]),
        *([("gang", answer["gang"])] if answer["gang"] else []),
        *((f"{name} does not start", text) for name, text in answer["refused"].items()),
        ("stands", _stands(answer)),
        *(("foreign", text) for text in answer["foreign"]),
    ]


def _seat_text(one: dict[str, Any]) -> str:
    leaves = f", leaves for {one['leaving_for']}" if one["leaving_for"] else ""
    size = f"{format_gpu(one['gpu_milli'])} GPU + {format_mib(one['memory_bytes'])}"
    # The kind that it got: a node's default can be another one than the pod asks for.
    kind = "" if one["sharing"] == SharingKind.FIXED else f", {one['sharing']}"
    return f"{size} of {one['card']} on {one['node']} ({one['state']}{kind}{leaves})"


def _stands(answer: dict[str, Any]) -> str:
    """One sentence: where the pod is on its way."""
    if not answer["managed"]:
        return "it asks no cards of gpupool, and gpupool does nothing with it"
    if answer["problem"]:
        return str(answer["problem"])
    if answer["node"]:
        return f"it is on {answer['node']}" + (
            "" if answer["has"] else ", and no ledger knows of it"
        )
    if not answer["gated"]:
        return answer["message"] or "it has its cards; kube-scheduler is to bind it"
    if answer["has"]:
        return answer["message"] or "its cards are reserved; it is released next"
    return (
        answer["message"] or "it waits; the controller has not said why yet: kubectl gpupool doctor"
    )
