"""Gangs of pods: members that wait, members that have their cards, and seats for members that do
not exist yet.

Ordered creation (StatefulSet, LeaderWorkerSet, an MPI launcher) makes the next pod when the one
before runs, so a gang that waited for all its pods would wait for ever. Instead cards are reserved
for the whole gang at once; a member that does not exist is a seat with a name of its own in the
ledger, which the first pod that fits it takes over. Pure.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import replace

from gpupool.kubernetes.resources.gpu_node import Entry, EntryState
from gpupool.kubernetes.resources.pod import Pod
from gpupool.model.claim import ANYWHERE, Shape, TopologyConstraint
from gpupool.model.gang import MEMBER, Gang, GangGroup, GangRole
from gpupool.model.isolation.claim_needs import IsolationKind
from gpupool.scheduling import NODE_LEVEL, ClassKey, WaitingClass

#: Prefix of the uid of a member that does not exist yet. It ends with a number, or with the uid of
#: the departed pod that had the seat before.
EXPECTED = "gang/"
ON_ONE_NODE = TopologyConstraint(required=NODE_LEVEL)
#: Whether a pod may go to the node of a seat.
Takes = Callable[[Pod, Entry], bool]


def job_name(uid: str, container: str) -> str:
    """Return the scheduler's name of one container's claim."""
    return f"{uid}/{container}"


def split_job_name(job: str) -> tuple[str, str]:
    """Return the pod's uid and the container of a claim's name."""
    uid, _, container = job.rpartition("/")
    return uid, container


def is_future_member(uid: str) -> bool:
    """Whether the uid stands for a member that does not exist yet."""
    return uid.startswith(EXPECTED)


def is_departed_member(uid: str) -> bool:
    """Whether the uid stands for the replacement of a departed member."""
    return is_future_member(uid) and not uid.rpartition("/")[2].isdigit()


def gang_of_pod(pod: Pod, shapes: Sequence[Shape]) -> Gang:
    """Return a pod with several claims as a gang: all of them on one node, or none."""
    claims = []
    for ask, shape in zip(pod.asks, shapes, strict=True):
        claims.append(GangRole(ask.container, shape, 1, 1))
    roles = tuple(claims)
    return Gang(
        pod.uid,
        GangGroup(pod.name, roles, ON_ONE_NODE),
        tuple(job_name(pod.uid, ask.container) for ask in pod.asks),
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
) -> WaitingClass | None:
    """Return the gang as a snapshot has it; None if every member has a seat or one is kept for it.

    Args:
        pods: its gated pods, oldest first.
        shapes: by uid, what each of them claims.
        entered: entries of the members that have their cards.
        over: the number of its pods that have ended.
        began_ns: when its first present member was created, in nanoseconds since the epoch; 0 if
            there is none.
        takes: whether a pod can take a kept seat.
    """
    first = pods[0]
    all_pods = pods
    pods = pods_without_seat(pods, entered, takes)
    container = first.asks[0].container
    shape = shapes[first.uid][0]
    by_shape: dict[tuple[Shape, ...], list[list[str]]] = {}
    for pod in pods:
        jobs = [job_name(pod.uid, ask.container) for ask in pod.asks]
        by_shape.setdefault(shapes[pod.uid], []).append(jobs)
    # Cards for members that were not created yet are reserved by the first pod's shape.
    lacking = max(0, first.gang_size - len(pods) - len(entered) - over)
    expected = by_shape.setdefault((shape,), [])
    for uid in _name_future_members(name, entered, lacking):
        expected.append([job_name(uid, container)])
    seated = set()
    for uid, entries in entered.items():
        jobs = [job_name(uid, entry.container) for entry in entries]
        seated.update(jobs)
        by_shape.setdefault(_find_shapes(by_shape, entries, (shape,)), []).append(jobs)
    root, members = _build_tree(name, by_shape, first.gang_minimum, first.within)
    heads = tuple(job for job in members if job not in seated)
    if not heads:
        return None
    age = min(pod.created_ns for pod in all_pods)
    # A gang that began and lacks members that it needs has waited since it began: it comes before
    # claims that arrived later than it did.
    if entered and began_ns and len(entered) + over < first.gang_minimum:
        age = min(age, began_ns)
    priority = max(pod.priority for pod in all_pods)
    preemptible = all(pod.preemptible for pod in all_pods)
    shape = next(root.iterate_roles()).shape
    reservation = first.reservation or None
    key = ClassKey(tenant, priority, shape, first.max_seconds, name, reservation, preemptible)
    return WaitingClass.build(
        key, heads, len(heads), (age,) * len(heads), Gang(name, root, members)
    )


def _name_future_members(name: str, taken: Container[str], count: int) -> list[str]:
    """Return so many uids of future members that are not taken."""
    uids: list[str] = []
    for number in itertools.count():
        if len(uids) >= count:
            break
        uid = f"{EXPECTED}{name}/{number}"
        if uid not in taken:
            uids.append(uid)
    return uids


def _find_shapes(
    known: Iterable[tuple[Shape, ...]], entries: Sequence[Entry], default: tuple[Shape, ...]
) -> tuple[Shape, ...]:
    """Return the shapes of which the entries could be; `default` if there are none."""
    for shapes in known:
        if len(shapes) == len(entries) and all(map(has_shape, entries, shapes)):
            return shapes
    return default


def has_shape(entry: Entry, shape: Shape) -> bool:
    """Whether the entry's seats are what the shape requests."""
    for seat in entry.seats:
        if seat.gpu_milli != shape.held_milli:
            return False
        if shape.memory_bytes not in (None, seat.memory_bytes):
            return False
        # Profiles of equal compute differ in memory, and a partition's memory is not in its shape.
        profile = None if seat.partition is None else seat.partition.profile
        if profile != shape.profile:
            return False
        if shape.partition_bytes is not None and seat.memory_bytes > shape.partition_bytes:
            return False
    return len(entry.seats) == shape.count


def _build_tree(
    name: str,
    by_shape: Mapping[tuple[Shape, ...], list[list[str]]],
    minimum: int,
    within: TopologyConstraint,
) -> tuple[GangGroup, tuple[str, ...]]:
    """Return the gang's tree and its members.

    Pods with one claim of equal shape are one role; each other pod is a group on one node.
    """
    parts: list[GangRole | GangGroup] = []
    members: list[str] = []
    spare = sum(len(jobs) for jobs in by_shape.values()) - minimum
    for number, (shapes, jobs) in enumerate(by_shape.items()):
        if not jobs:
            continue
        if len(shapes) == 1:
            fewer = min(max(0, spare), len(jobs))
            spare -= fewer
            parts.append(
                GangRole(
                    f"{MEMBER}-{number}",
                    replace(shapes[0], within=ANYWHERE),
                    len(jobs) - fewer,
                    len(jobs),
                )
            )
        else:
            for n in range(len(jobs)):
                parts.append(_build_pod_group(f"{MEMBER}-{number}-{n}", shapes))
        members += itertools.chain.from_iterable(jobs)
    return GangGroup(name, tuple(parts), within), tuple(members)


def _build_pod_group(name: str, shapes: Sequence[Shape]) -> GangGroup:
    roles = [GangRole(f"{name}-{n}", shape, 1, 1) for n, shape in enumerate(shapes)]
    return GangGroup(name, tuple(roles), ON_ONE_NODE)


def pods_without_seat(
    pods: Sequence[Pod], entered: Mapping[str, Sequence[Entry]], takes: Takes
) -> list[Pod]:
    """Return the pods that have no seat and will not take a kept one."""
    free = [pod for pod in pods if pod.uid not in entered]
    takers = {pod.uid for pod in assign_kept_seats(kept_seats(entered), free, takes).values()}
    return [pod for pod in free if pod.uid not in takers]


def surplus_seats(
    pods: Sequence[Pod], entered: Mapping[str, Sequence[Entry]], over: int, takes: Takes
) -> list[str]:
    """Return kept seats that no member takes and without which the gang is complete."""
    # The members that came request another shape, or may not go to the seat's node.
    free = [pod for pod in pods if pod.uid not in entered]
    taken = assign_kept_seats(kept_seats(entered), free, takes)
    left = sorted(seat.uid for seat in kept_seats(entered) if seat.uid not in taken)
    return left[: max(0, len(entered) + over + len(free) - len(taken) - pods[0].gang_size)]


def kept_seats(entered: Mapping[str, Sequence[Entry]]) -> list[Entry]:
    """Return the seats of members that do not exist yet."""
    seats: list[Entry] = []
    for uid, entries in entered.items():
        if is_future_member(uid):
            seats += entries
    return seats


def assign_kept_seats(ghosts: Iterable[Entry], pods: Sequence[Pod], takes: Takes) -> dict[str, Pod]:
    """By uid of a kept seat, the pod that takes it: the oldest of its shape that may go there."""
    takers: dict[str, Pod] = {}
    free = list(pods)
    # In a fixed order, so that two controllers assign the seats alike.
    for entry in sorted(ghosts, key=lambda one: one.uid):
        for pod in free:
            if _has_equal_claim(pod, entry) and takes(pod, entry):
                takers[entry.uid] = pod
                free.remove(pod)
                break
    return takers


def _has_equal_claim(pod: Pod, seat: Entry) -> bool:
    if len(pod.asks) != 1 or not has_shape(seat, pod.shape(0)):
        return False
    # The node's agent isolates and shares by the entry, which the first member's request made.
    # Not `pod.shape`: equal shapes share one object there, whether or not they name their sharing.
    shape = pod.asks[0].shape
    if (shape.needs.isolation or IsolationKind.NONE) is not seat.isolation:
        return False
    return not shape.names_sharing or shape.sharing is seat.sharing


def take_seat(entry: Entry, pod: Pod, version: int) -> Entry:
    """Return the seat as the pod's entry."""
    # The seat was made from another member, whose container may have had another name.
    containers = [ask.container for ask in pod.asks]
    container = entry.container if entry.container in containers else containers[0]
    who = replace(entry, uid=pod.uid, pod=pod.name, container=container, account=pod.account)
    return replace(who, state=EntryState.RESERVED, generation=version)


def keep_seat(entry: Entry, version: int) -> Entry:
    """Return the departed pod's entry as a seat for its replacement."""
    who = replace(entry, uid=f"{EXPECTED}{entry.gang}/{entry.uid}", pod="")
    return replace(who, state=EntryState.RESERVED, generation=version)
