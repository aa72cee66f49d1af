"""The pool of a case as the engine sees it: columns, quotas, jobs that run and jobs that wait."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from gpupool.base.units import GIB, WHOLE
from gpupool.model.allocation import Seat
from gpupool.model.claim import ANYWHERE, Shape, TopologyConstraint
from gpupool.model.gang import MEMBER, Gang, GangGroup, GangRole
from gpupool.model.partition import PartitionProfile, PartitionSlot
from gpupool.model.quota import (
    CELLS,
    GPU,
    WEIGHT,
    Quota,
    QuotaBranch,
    QuotaLimit,
    ResourceAmount,
    split_resource,
)
from gpupool.scheduling.scoring.registry import DEFAULT_POLICY
from gpupool.scheduling.snapshot.cards import CardTable, TopologyLevel
from gpupool.scheduling.snapshot.claims import ClassKey
from gpupool.scheduling.snapshot.plan import JobPlacement
from gpupool.scheduling.snapshot.snapshot import Snapshot, TenantView
from gpupool.simulation.replay.world import SimulatedJob, SimulatedPool, build_card_table
from gpupool.simulation.traces.trace import TraceNode
from tests.conformance.case import (
    CARD_MEMORY,
    BadCase,
    Case,
    ClaimOf,
    GroupOf,
    Member,
    NodeOf,
    Part,
    RoleOf,
)

UNIT = GIB
"""Of card memory: a card has `CARD_MEMORY` of these."""
AGE_NS = 60 * 10**9
"""Between two claims."""
START_NS = 10**6 * 10**9
SLICE_MILLI = WHOLE // 7


class Pool:
    """A case's world, and which claim each of its jobs is of."""

    def __init__(
        self, world: SimulatedPool, claim_of: Mapping[str, str], leaving: Iterable[str]
    ) -> None:
        self.world = world
        self.claim_of = claim_of
        self.leaving = list(leaving)

    def nodes(self) -> dict[str, tuple[str, ...]]:
        """By claim, where its members run, sorted."""
        found = defaultdict[str, list[str]](list)
        for name, job in self.world.running.items():
            found[self.claim_of[name]].append(self.world.cards.nodes[job.node])
        return {
            claim: tuple(sorted(found[claim])) for claim in dict.fromkeys(self.claim_of.values())
        }

    def end_those_who_leave(self, now_ns: int) -> bool:
        """What was about to end when the case began has ended now; whether anything had not
        before."""
        some = bool(self.leaving)
        for name in self.leaving:
            self.world.release_job(name, now_ns)
        self.leaving.clear()
        return some


def pool_of(case: Case) -> Pool:
    """The pool as it is when the case begins."""
    slice_ = SLICE_MILLI if case.counts == "slices" else WHOLE
    cards = _cards(case)
    whole = int(sum(_size_milli(node, slice_) for node in case.nodes.values()))
    tenants = {name: _view(part, slice_, whole) for name, part in case.tenants.items()}
    cohorts = {
        name: QuotaBranch(part.cohort, _quota(part, slice_, whole), _weight(part))
        for name, part in case.cohorts.items()
    }
    world = SimulatedPool(
        Snapshot(0, cards, tenants, (), case.placement or DEFAULT_POLICY, cohorts=cohorts),
        now_ns=START_NS,
    )
    jobs, seats = _jobs(case), _Seats(case, cards)
    claim_of = {
        job.id: claim.name for claim, each in zip(case.claims, jobs, strict=True) for job in each
    }
    world.enqueue_jobs(job for each in jobs for job in each)
    for placement, since_ns in seats.placements(jobs):
        world.place_job(placement, since_ns)
    leaving = [
        job.id
        for claim, each in zip(case.claims, jobs, strict=True)
        for job, member in zip(each, claim.members, strict=True)
        if member.leaving
    ]
    return Pool(world, claim_of, leaving)


# --- cards ---------------------------------------------------------------------------------


def _cards(case: Case) -> CardTable:
    cards = build_card_table([_node(name, node) for name, node in case.nodes.items()])
    return replace(cards, levels=tuple(_levels(case)))


def _node(name: str, node: NodeOf) -> TraceNode:
    plain = [(node.model, node.memory * UNIT)] * node.cards
    cuts = dict[int, tuple[PartitionProfile, ...]]()
    if node.partition_mode:
        cuts = dict.fromkeys(range(node.cards), ())
    first = node.cards
    pieces = [_profile(profile) for profile, count in node.partitions.items() for _ in range(count)]
    cuts |= {first + n: (piece,) for n, piece in enumerate(pieces)}
    cards = (*plain, *((node.model, piece.memory_bytes) for piece in pieces))
    labels = {"type": name, **node.labels}
    return TraceNode(name, cards, node.cpu, node.host, labels, cuts)


def _profile(name: str) -> PartitionProfile:
    slices, memory = int(name.split("g.")[0]), int(name.split("g.")[1].removesuffix("gb"))
    return PartitionProfile(name, 1, memory * GIB, (0,), 1, slices * SLICE_MILLI)


def _size_milli(node: NodeOf, slice_: int) -> int:
    return node.cards * WHOLE + sum(
        int(name.split("g.")[0]) * slice_ * n for name, n in node.partitions.items()
    )


def _levels(case: Case) -> Iterator[TopologyLevel]:
    """Domains are told apart by their labels of all wider levels too."""
    for depth, name in enumerate(case.levels):
        above = case.levels[: depth + 1]
        paths = [
            "/".join(node.labels[level] for level in above)
            if set(above) <= node.labels.keys()
            else None
            for node in case.nodes.values()
        ]
        domains = tuple(dict.fromkeys(path for path in paths if path is not None))
        numbers = [-1 if path is None else domains.index(path) for path in paths]
        yield TopologyLevel(name, domains, np.array(numbers, dtype=np.int64))


# --- quotas --------------------------------------------------------------------------------


def _view(part: Part, slice_: int, whole: int) -> TenantView:
    return TenantView(_quota(part, slice_, whole), ResourceAmount(), part.cohort, _weight(part))


def _weight(part: Part) -> int:
    return round(part.weight * WEIGHT)


def _quota(part: Part, slice_: int, whole: int) -> Quota:
    guarantee = {GPU: whole / slice_} if part.all_guaranteed else part.guarantee
    limits = dict[str, QuotaLimit]()
    for resource in {**guarantee, **part.limit}:
        unit = 1 if split_resource(resource)[0] in CELLS else slice_
        nominal = round((guarantee.get(resource) or 0) * unit)
        most, lent = part.limit.get(resource), part.lending.get(resource)
        limits[resource] = QuotaLimit(
            nominal,
            None if most is None else max(0, round(most * unit) - nominal),
            None if lent is None else round(lent * unit),
        )
    return Quota.from_limits(limits)


# --- claims --------------------------------------------------------------------------------


def _jobs(case: Case) -> list[list[SimulatedJob]]:
    """The members of each claim, in its order."""
    found = list[list[SimulatedJob]]()
    for number, claim in enumerate(case.claims):
        submitted = START_NS - (len(case.claims) - number) * AGE_NS
        shapes = [_shape(claim, member) for member in claim.members]
        names = [
            claim.name if len(shapes) == 1 else f"{claim.name}-{n}" for n in range(len(shapes))
        ]
        gang = None if len(shapes) == 1 and claim.group is None else _gang(claim, names, shapes)
        first = gang.root.iterate_roles() if gang else iter(())
        shape = next((role.shape for role in first), shapes[0])
        key = ClassKey(
            claim.tenant,
            claim.priority,
            shape,
            None,
            gang.id if gang else "",
            None,
            claim.preemptible,
        )
        found.append(
            [
                SimulatedJob(
                    name,
                    key,
                    shape,
                    submitted,
                    None,
                    gang,
                    claim.preemptible and not member.leaving,
                )
                for name, shape, member in zip(names, shapes, claim.members, strict=True)
            ]
        )
    return found


def _shape(claim: ClaimOf, member: Member) -> Shape:
    labels = (("type", member.only),) if member.only else ()
    shape = _size(claim, member)
    return replace(
        shape, labels=labels, cpu_milli=claim.cpu, host_bytes=claim.host, model=claim.model
    )


def _size(claim: ClaimOf, member: Member) -> Shape:
    gpu = claim.gpu if member.gpu is None else member.gpu
    if member.partitions:
        ((profile, count),) = member.partitions.items()
        return Shape(_profile(profile).gpu_milli, None, count, profile=profile)
    if claim.memory is not None:
        return Shape(
            round(WHOLE * claim.memory / CARD_MEMORY), round(claim.memory * UNIT), claim.devices
        )
    if gpu >= 1:
        return Shape(WHOLE, None, int(gpu))
    return Shape(round(gpu * WHOLE), None, claim.devices if gpu else 0)


def _gang(claim: ClaimOf, names: Sequence[str], shapes: Sequence[Shape]) -> Gang:
    group = claim.group or GroupOf(
        (RoleOf("", len(names) if claim.minimum is None else claim.minimum),)
    )
    sorted_: dict[str, list[int]] = defaultdict(list)
    for number, member in enumerate(claim.members):
        sorted_[member.role].append(number)
    if len(sorted_) == 1 and not _named(group):
        sorted_ = {"": [number for numbers in sorted_.values() for number in numbers]}
    order = list[int]()
    root = _group(claim.name, group, sorted_, shapes, order)
    if sorted(order) != list(range(len(names))):
        raise BadCase(f"{claim.name}: some members have no role")
    return Gang(claim.name, root, tuple(names[number] for number in order))


def _named(group: GroupOf) -> bool:
    return any(role.name for role in group.roles) or any(_named(inner) for inner in group.groups)


def _group(
    name: str,
    group: GroupOf,
    by_role: Mapping[str, Sequence[int]],
    shapes: Sequence[Shape],
    order: list[int],
) -> GangGroup:
    """`order` gets the members as they are numbered."""
    found = list[GangRole | GangGroup]()
    for role in group.roles or () if group.groups else group.roles or (RoleOf("", len(shapes)),):
        members = by_role.get(role.name, ())
        roles = list(_roles(role, members, shapes, order))
        found += (
            [GangGroup(role.name, tuple(roles), _within(role.within))]
            if role.within and roles
            else roles
        )
    found += [
        _group(f"{name}-{n}", inner, by_role, shapes, order) for n, inner in enumerate(group.groups)
    ]
    return GangGroup(name, tuple(found), _within(group.within))


def _roles(
    role: RoleOf, members: Sequence[int], shapes: Sequence[Shape], order: list[int]
) -> Iterator[GangRole]:
    """One, or where members differ in size and all start together one per size."""
    by_shape: dict[Shape, list[int]] = defaultdict(list)
    for number in members:
        by_shape[shapes[number]].append(number)
    if len(by_shape) > 1 and role.minimum != len(members):
        raise BadCase("members of one role that differ in size")
    for shape, numbers in by_shape.items():
        order += numbers
        least = min(len(numbers), role.minimum) if len(by_shape) == 1 else len(numbers)
        yield GangRole(role.name or MEMBER, shape, least, len(numbers))


def _within(given: Mapping[str, str]) -> TopologyConstraint:
    return TopologyConstraint(**given) if given else ANYWHERE


# --- what runs already ---------------------------------------------------------------------


class _Seats:
    """Cards for those who run when the case begins: shared ones by their names, then whole ones in
    order."""

    def __init__(self, case: Case, cards: CardTable) -> None:
        self._case, self._cards = case, cards
        self._free = cards.free_milli.copy()
        self._named = dict[tuple[str, str], int]()
        self._cuts = dict(cards.layouts)

    def placements(
        self, jobs: Sequence[Sequence[SimulatedJob]]
    ) -> Iterator[tuple[JobPlacement, int]]:
        """With when each started: as late as it was asked for."""
        running = [
            (job, member)
            for claim, each in zip(self._case.claims, jobs, strict=True)
            for job, member in zip(each, claim.members, strict=True)
            if member.node
        ]
        for job, member in sorted(running, key=lambda pair: not pair[1].card):
            rows = self._rows(job, member)
            seats = tuple(self._seat(job.shape, row) for row in rows)
            yield (
                JobPlacement(
                    job.id,
                    member.node,
                    seats,
                    (1,) * len(rows),
                    "it runs",
                    job.gang.id if job.gang else "",
                ),
                job.submitted_ns,
            )

    def _rows(self, job: SimulatedJob, member: Member) -> list[int]:
        shape = job.shape
        if member.card:
            key = member.node, member.card
            if key not in self._named:
                self._named[key] = self._first(member.node, shape, WHOLE)
            row = self._named[key]
            self._free[row] -= shape.gpu_milli
            return [row]
        found = list[int]()
        for _ in range(shape.count):
            row = self._first(member.node, shape, WHOLE)
            self._free[row] -= shape.gpu_milli or 1
            found.append(row)
        return found

    def _first(self, node: str, shape: Shape, least: int) -> int:
        """The node's first empty card; for a share that has no card to itself, the first with room
        for it."""
        number = self._cards.nodes.index(node)
        for row in np.flatnonzero(self._cards.node == number).tolist():
            cut = self._cuts.get(row)
            fits = (
                cut is None
                if shape.profile is None
                else cut is not None and cut.profiles[0].name == shape.profile
            )
            if fits and self._free[row] >= least:
                return int(row)
        if least > shape.gpu_milli:
            return self._first(node, shape, shape.gpu_milli)
        raise BadCase(f"no card of {node} is free for what runs there")

    def _seat(self, shape: Shape, row: int) -> Seat:
        uuid = self._cards.uuids[row]
        if shape.profile is not None:
            profile = self._cuts[row].profiles[0]
            return Seat(
                uuid, profile.gpu_milli, profile.memory_bytes, PartitionSlot(0, 1, profile.name)
            )
        return Seat(uuid, shape.held_milli, shape.memory_on(int(self._cards.memory_bytes[row])))
