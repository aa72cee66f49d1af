"""Gangs of pods: members that wait, members that have their cards, and seats for members that do not exist yet.

Ordered creation (StatefulSet, LeaderWorkerSet, an MPI launcher) makes the next pod when the one before runs, so a gang
that waited for all its pods would wait for ever. Instead cards are reserved for the whole gang at once; a member that
does not exist is a seat with a name of its own in the ledger, which the first pod that fits it takes over. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from gpupool.kubernetes.objects import Entry, EntryState
from gpupool.kubernetes.pods import Pod
from gpupool.model.claim import ANYWHERE, Shape, Within
from gpupool.model.gang import MEMBER, Gang, Group, Role
from gpupool.scheduling.domains import NODE
from gpupool.scheduling.snapshot import ClassKey, Waiting

EXPECTED = "gang/"
"""How the uid of a member begins that does not exist yet; a number ends it, or the uid of who had its seat before."""
ON_ONE_NODE = Within(required=NODE)
Takes = Callable[[Pod, Entry], bool]
"""Whether the pod may go to the node of that seat."""


def job_name(uid: str, container: str) -> str:
    """How the scheduler calls one container's claim."""
    return f"{uid}/{container}"


def parts_of(job: str) -> tuple[str, str]:
    """(uid, container)."""
    uid, _, container = job.rpartition("/")
    return uid, container


def expected(uid: str) -> bool:
    """Whether it is a member that does not exist yet."""
    return uid.startswith(EXPECTED)


def away(uid: str) -> bool:
    """Whether it is a member that went, and whose controller makes another in its place."""
    return expected(uid) and not uid.rpartition("/")[2].isdigit()


def of_one_pod(pod: Pod, shapes: Sequence[Shape]) -> Gang:
    """A pod whose containers each have cards: all of them on one node, or none."""
    roles = tuple(Role(ask.container, shape, 1, 1) for ask, shape in zip(pod.asks, shapes, strict=True))
    return Gang(
        pod.uid, Group(pod.name, roles, ON_ONE_NODE), tuple(job_name(pod.uid, ask.container) for ask in pod.asks)
    )


def waiting_gang(
    name: str,
    tenant: str,
    pods: Sequence[Pod],
    shapes: Mapping[str, tuple[Shape, ...]],
    entered: Mapping[str, Sequence[Entry]],
    over: int,
    began_ns: int = 0,
    takes: Takes = lambda *_: True,
) -> Waiting | None:
    """The gang as a snapshot has it; None where everybody has a seat, or one is kept for him.

    `pods` are its gated ones, oldest first, `shapes` what each of them claims by uid, `entered` the entries of those
    that have their cards, `over` how many of its pods have ended. One that began (`began_ns`; 0: it did not) and lacks
    somebody whom it needs has waited since then: it comes before those who came later than it did.
    """
    first, everybody = pods[0], pods
    pods = seatless(pods, entered, takes)
    container, shape = first.asks[0].container, shapes[first.uid][0]
    lacking = max(0, first.gang_size - len(pods) - len(entered) - over)
    taken = set(entered)
    numbers = (f"{EXPECTED}{name}/{n}" for n in range(first.gang_size + len(taken)))
    ghosts = [uid for uid in numbers if uid not in taken][:lacking]
    by_shape: dict[tuple[Shape, ...], list[list[str]]] = {}
    for pod in pods:
        by_shape.setdefault(shapes[pod.uid], []).append([job_name(pod.uid, ask.container) for ask in pod.asks])
    by_shape.setdefault((shape,), []).extend([job_name(uid, container)] for uid in ghosts)
    for uid, entries in entered.items():
        alike = next((known for known in by_shape if _alike(known, entries)), (shape,))
        by_shape.setdefault(alike, []).append([job_name(uid, entry.container) for entry in entries])
    root, members = _tree(name, by_shape, first.gang_minimum, first.within)
    seated = {job_name(uid, entry.container) for uid, entries in entered.items() for entry in entries}
    heads = tuple(job for job in members if job not in seated)
    if not heads:
        return None
    age = min(pod.created_ns for pod in everybody)
    if entered and began_ns and len(entered) + over < first.gang_minimum:
        age = min(age, began_ns)
    priority, preemptible = max(pod.priority for pod in everybody), all(pod.preemptible for pod in everybody)
    shape, reservation = next(root.roles()).shape, first.reservation or None
    key = ClassKey(tenant, priority, shape, first.max_seconds, name, reservation, preemptible)
    return Waiting.of(key, heads, len(heads), (age,) * len(heads), Gang(name, root, members))


def _alike(shapes: Sequence[Shape], entries: Sequence[Entry]) -> bool:
    """Whether these entries could be those of such a pod."""
    return len(shapes) == len(entries) and all(fits(shape, one) for shape, one in zip(shapes, entries, strict=True))


def fits(shape: Shape, entry: Entry) -> bool:
    """Whether an entry's seats are what the shape asks."""
    right_size = all(
        seat.gpu_milli == shape.held_milli and shape.memory_bytes in (None, seat.memory_bytes) for seat in entry.seats
    )
    return len(entry.seats) == shape.count and right_size


def _tree(
    name: str, by_shape: Mapping[tuple[Shape, ...], list[list[str]]], minimum: int, within: Within
) -> tuple[Group, tuple[str, ...]]:
    """One role for all pods of one container and one shape, a group on one node for each other pod; and the members."""
    parts: list[Role | Group] = []
    members: list[str] = []
    spare = sum(len(jobs) for jobs in by_shape.values()) - minimum
    for number, (shapes, jobs) in enumerate(by_shape.items()):
        if not jobs:
            continue
        if len(shapes) == 1:
            fewer = min(max(0, spare), len(jobs))
            spare -= fewer
            parts.append(Role(f"{MEMBER}-{number}", replace(shapes[0], within=ANYWHERE), len(jobs) - fewer, len(jobs)))
        else:
            parts += [_one(f"{MEMBER}-{number}-{n}", shapes) for n in range(len(jobs))]
        members += [job for each in jobs for job in each]
    return Group(name, tuple(parts), within), tuple(members)


def _one(name: str, shapes: Sequence[Shape]) -> Group:
    return Group(name, tuple(Role(f"{name}-{n}", shape, 1, 1) for n, shape in enumerate(shapes)), ON_ONE_NODE)


def seatless(pods: Sequence[Pod], entered: Mapping[str, Sequence[Entry]], takes: Takes) -> list[Pod]:
    """Of these pods, those that have no seat and will not take one that is kept."""
    free = [pod for pod in pods if pod.uid not in entered]
    takers = {pod.uid for pod in taken_over(kept_seats(entered), free, takes).values()}
    return [pod for pod in free if pod.uid not in takers]


def useless(pods: Sequence[Pod], entered: Mapping[str, Sequence[Entry]], over: int, takes: Takes) -> list[str]:
    """Seats that no member takes and without which the gang is whole: who came wants another, or goes elsewhere."""
    free = [pod for pod in pods if pod.uid not in entered]
    taken = taken_over(kept_seats(entered), free, takes)
    left = sorted(seat.uid for seat in kept_seats(entered) if seat.uid not in taken)
    return left[: max(0, len(entered) + over + len(free) - len(taken) - pods[0].gang_size)]


def kept_seats(entered: Mapping[str, Sequence[Entry]]) -> list[Entry]:
    """Seats of members that do not exist yet."""
    return [entry for uid, entries in entered.items() if expected(uid) for entry in entries]


def taken_over(ghosts: Iterable[Entry], pods: Sequence[Pod], takes: Takes) -> dict[str, Pod]:
    """By uid of a seat that was kept for a member, the pod that takes it: the oldest that wants just that there."""
    found: dict[str, Pod] = {}
    free = list(pods)
    for entry in sorted(ghosts, key=lambda one: one.uid):
        pod = next((one for one in free if _wants(one, entry) and takes(one, entry)), None)
        if pod is not None:
            found[entry.uid] = pod
            free.remove(pod)
    return found


def _wants(pod: Pod, seat: Entry) -> bool:
    return len(pod.asks) == 1 and fits(pod.shape(0), seat)


def as_taken(entry: Entry, pod: Pod, version: int) -> Entry:
    """The entry, now the pod's: the container's of that name where it has one, else the first's."""
    containers = [ask.container for ask in pod.asks]
    container = entry.container if entry.container in containers else containers[0]
    who = replace(entry, uid=pod.uid, pod=pod.name, container=container, account=pod.account)
    return replace(who, state=EntryState.RESERVED, generation=version)


def as_kept(entry: Entry, version: int) -> Entry:
    """The entry, now a seat for the member that comes in its pod's place."""
    who = replace(entry, uid=f"{EXPECTED}{entry.gang}/{entry.uid}", pod="")
    return replace(who, state=EntryState.RESERVED, generation=version)
