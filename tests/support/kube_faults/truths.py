"""What must be true of pods and ledgers whenever things are calm. Sentences of what is not;
pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from gpupool.kubernetes.ledger import ledger
from gpupool.kubernetes.resources import gang as gangs
from gpupool.kubernetes.resources.gpu_node import Entry, EntryState, GpuNode
from gpupool.kubernetes.resources.pod import Pod


def broken(pods: Iterable[Pod], nodes: Iterable[GpuNode], whole: Mapping[str, int]) -> list[str]:
    """`whole`: by gang whose members all live, how many start together."""
    by_uid, nodes = {pod.uid: pod for pod in pods}, list(nodes)
    entered: dict[str, list[tuple[str, Entry]]] = {}
    for node in nodes:
        for entry in node.entries:
            entered.setdefault(entry.uid, []).append((node.name, entry))
    found = [
        f"{node.name} holds more than it has of {card}"
        for node in nodes
        for card in ledger.overcommitted_cards(node)
    ]
    for uid, entries in entered.items():
        found += _of_entries(uid, entries, by_uid.get(uid))
    for pod in by_uid.values():
        found += _of_pod(pod, entered.get(pod.uid, []), bool(pod.gang) and pod.gang not in whole)
    return [*found, *_of_gangs(list(by_uid.values()), entered, whole)]


def _of_entries(uid: str, entries: list[tuple[str, Entry]], pod: Pod | None) -> list[str]:
    entry = entries[0][1]
    name = f"{entry.namespace}/{entry.pod or uid}"
    found = [
        f"an entry of {name} drains for ever"
        for _, one in entries
        if one.state is EntryState.DRAINING
    ]
    if pod is None and not gangs.is_future_member(uid):
        found.append(f"an entry without a pod: {name}")
    if len({node for node, _ in entries}) > 1 or len({one.container for _, one in entries}) < len(
        entries
    ):
        found.append(
            f"{name} stands in ledgers twice: {[(node, one.container) for node, one in entries]}"
        )
    if pod is not None and pod.node and any(node != pod.node for node, _ in entries):
        found.append(f"{name} runs on {pod.node} and stands in the ledger of {entries[0][0]}")
    if any(any(one.order) for _, one in entries) and (pod is None or not pod.deleting):
        found.append(f"{name} leaves for {entry.leaving_for or 'its card'} and is not asked to")
    return found


def _of_pod(pod: Pod, entries: list[tuple[str, Entry]], half: bool) -> list[str]:
    """`half`: of a gang that lost a member, which comes together or gives its seats back, each in
    its time."""
    name = f"{pod.namespace}/{pod.name}"
    if pod.problem:
        return [f"{name} cannot be read: {pod.problem}"]
    if pod.deleting:
        return [f"{name} is deleted and still there"]
    if pod.ended:
        return [f"{name} has ended and holds cards"] if entries else []
    if not pod.gated and len(entries) != len(pod.asks):
        return [f"{name} was let go and has {len(entries)} of {len(pod.asks)} entries"]
    if not pod.gated and not pod.node:
        return [f"{name} was let go and is not bound: {pod.refusal}"]
    if pod.gated and entries and not half:
        return [f"{name} has its cards and still wears its gate"]
    return []


def _of_gangs(
    pods: list[Pod], entered: Mapping[str, list[tuple[str, Entry]]], whole: Mapping[str, int]
) -> list[str]:
    """A gang has seats for as many as start together, or for nobody."""
    seats: dict[str, set[str]] = {}
    for uid, entries in entered.items():
        for _, entry in entries:
            if entry.gang:
                seats.setdefault(entry.gang, set()).add(uid)
    return [
        f"gang {name} has {len(found)} seats of {whole[name]}; its pods: {_members(name, pods, found)}"
        for name, found in seats.items()
        if name in whole and len(found) < whole[name]
    ]


def _members(gang: str, pods: list[Pod], seated: set[str]) -> str:
    members = (pod for pod in pods if pod.gang == gang)
    told = (f"{one.name} {one.node or ('gated' if one.gated else 'unbound')}" for one in members)
    return f"{', '.join(told) or 'none'}; seats of {', '.join(sorted(seated))}"
