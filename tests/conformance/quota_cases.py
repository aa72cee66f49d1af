"""Cases about quotas, shares and victims, as data: read one as a snapshot, plan it, say who leaves
and who starts.

    cards, memory      cards by model, all in one node; memory units of each card
    cohorts, tenants   limits `[nominal, borrowing, lending]` of `gpu`, `gpu:MODEL` and `memory`; `weight`, `past`
    claims             with `started` (seconds): runs; else waits since `submitted`. `gpu` cards (by model, where it
                       runs on several), `memory`, `parts` of a gang, `members` and `minimum` of an elastic one
    expected           names of those `evicted` and `placed`, of the latter the model where there are several

    rules              of eviction; the fair share is taken back only where a case says `fair`

Everything may be preempted unless a claim says otherwise. Only quotas decide: the one node has
every card.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gpupool.base.units import WHOLE
from gpupool.model.claim import Shape, SharingKind
from gpupool.model.gang import Gang, GangGroup, GangRole
from gpupool.model.quota import (
    GPU,
    MEMORY,
    WEIGHT,
    Quota,
    QuotaBranch,
    QuotaLimit,
    ResourceAmount,
    split_resource,
)
from gpupool.scheduling.engine.cycle import cycle
from gpupool.scheduling.filtering.free_capacity import FreeCapacity
from gpupool.scheduling.preemption.victims import PreemptionRules
from gpupool.scheduling.quota.working_quotas import WorkingQuotas
from gpupool.scheduling.scoring.registry import DEFAULT_POLICY
from gpupool.scheduling.snapshot.cards import CARD_STATUS, CardStatus, CardTable
from gpupool.scheduling.snapshot.claims import RunningJob, WaitingClass
from gpupool.scheduling.snapshot.plan import Eviction, JobPlacement
from gpupool.scheduling.snapshot.snapshot import Snapshot, TenantView

SECOND = 10**9
NOW_NS = 10**6 * SECOND
MINUTE = 60
MEMORY_UNIT = 720720
"""Bytes of one unit of memory: it divides evenly over up to sixteen cards."""
UNIT = {GPU: WHOLE, MEMORY: MEMORY_UNIT}

MOST_PLANS = 20
"""A case that still changes after so many never ends: each has fewer claims than that."""

Case = Mapping[str, Any]


@dataclass(frozen=True)
class Outcome:
    """What one plan does: the names of those told to leave, and of those that start, with the model
    of their cards."""

    evicted: tuple[str, ...]
    placed: Mapping[str, str]
    seats: Mapping[str, Mapping[str, int]]
    """Cards that were given to each claim, by model."""
    beneficiaries: tuple[str, ...]
    """For whom somebody was told to leave."""

    def written(self, case: Case) -> dict[str, Any]:
        """As a case says it: models only where there are several."""
        several = len(case["cards"]) > 1
        return {
            "evicted": list(self.evicted),
            "placed": dict(self.placed) if several else list(self.placed),
        }


def plan(case: Case) -> Outcome:
    """One cycle over the case."""
    before = snapshot(case)
    found = cycle(before, _now_ns(case), rules=rules_of(case))
    return outcome(before.cards, found.placements, found.evictions)


def rules_of(case: Case) -> PreemptionRules:
    """Who may be evicted in the case."""
    return replace(
        PreemptionRules(protected_s=0, per_hour=None, fair=False), **case.get("rules", {})
    )


def outcome(
    cards: CardTable, placements: Iterable[JobPlacement], evictions: Sequence[Eviction]
) -> Outcome:
    """What a plan with these does."""
    models = {uuid: cards.models[at] for uuid, at in zip(cards.uuids, cards.model, strict=True)}
    seats: dict[str, Counter[str]] = {}
    for one in placements:
        seats.setdefault(one.gang or one.job, Counter()).update(
            models[seat.device] for seat in one.seats
        )
    placed = {name: "|".join(sorted(on)) for name, on in sorted(seats.items())}
    beneficiaries = tuple(dict.fromkeys(one.beneficiary for one in evictions))
    return Outcome(tuple(sorted({one.job for one in evictions})), placed, seats, beneficiaries)


def plans_until_quiet(case: Case) -> int:
    """Plans that change something, each applied before the next is made; `MOST_PLANS` where it
    never ends."""
    for plans in range(MOST_PLANS):
        found = plan(case)
        if not found.evicted and not found.placed:
            return plans
        case = _after(case, found)
    return MOST_PLANS


def _after(case: Case, found: Outcome) -> Case:
    """Who was told to leave has left and waits again; who was placed runs."""
    claims = [dict(one) for one in case["claims"] if not one.get("leaving_for")]
    for one in claims:
        if one["name"] in found.evicted:
            asked = one["gpu"] if isinstance(one["gpu"], Mapping) else {}
            one.pop("started")
            one |= {"gpu": sum(asked.values()), "model": "|".join(asked)} if asked else {}
        elif one["name"] in found.seats:
            one |= {"started": case.get("now", 0), "gpu": found.seats[one["name"]]}
            one.pop("parts", None)
    left = [name for name in case.get("owed", ()) if name not in found.seats]
    return {
        **case,
        "claims": claims,
        "owed": [*left, *found.beneficiaries],
        "now": case.get("now", 0) + MINUTE,
    }


def _now_ns(case: Case) -> int:
    return NOW_NS + int(case.get("now", 0)) * SECOND


def snapshot(case: Case) -> Snapshot:
    """The case as the scheduler would see it."""
    pool = _cards(case)
    running = _running(case, pool)
    for job in running:
        np.subtract.at(pool.free_milli, list(job.rows), job.milli)
        np.subtract.at(pool.free_bytes, list(job.rows), job.sizes)
    waiting = tuple(_waiting(one, pool) for one in case["claims"] if "started" not in one)
    tenants = {name: _tenant(name, view, running) for name, view in case["tenants"].items()}
    cohorts = {
        name: QuotaBranch(one.get("parent"), _quota(one), _weight(one))
        for name, one in case.get("cohorts", {}).items()
    }
    leaving = (job.beneficiary for job in running if job.beneficiary)
    owed = tuple(dict.fromkeys((*case.get("owed", ()), *leaving)))
    return Snapshot(
        1, pool, tenants, waiting, DEFAULT_POLICY, running, cohorts=cohorts, beneficiaries=owed
    )


def _cards(case: Case) -> CardTable:
    models = tuple(case["cards"])
    model = np.repeat(np.arange(len(models), dtype=np.int64), list(case["cards"].values()))
    count = len(model)
    size = case.get("memory", 1) * MEMORY_UNIT
    memory = np.full(count, size, dtype=np.int64)
    return CardTable(
        uuids=tuple(f"card-{n}" for n in range(count)),
        models=models,
        nodes=("node",),
        node_labels=({},),
        model=model,
        node=np.zeros(count, dtype=np.int64),
        status=np.full(count, CARD_STATUS.index(CardStatus.OPEN), dtype=np.int64),
        memory_bytes=memory,
        free_milli=np.full(count, WHOLE, dtype=np.int64),
        free_bytes=memory.copy(),
        generation=np.ones(count, dtype=np.int64),
    )


def _quota(one: Mapping[str, Any]) -> Quota:
    limits = {}
    for resource, sizes in one.items():
        kind = split_resource(resource)[0]
        if kind in UNIT:
            limits[resource] = QuotaLimit(
                *(None if size is None else size * UNIT[kind] for size in sizes)
            )
    return Quota.from_limits(limits)


def _weight(one: Mapping[str, Any]) -> int:
    return round(float(one.get("weight", 1)) * WEIGHT)


def _tenant(name: str, view: Mapping[str, Any], running: Iterable[RunningJob]) -> TenantView:
    mine = [job for job in running if job.tenant == name]
    held = ResourceAmount(sum(sum(job.milli) for job in mine), sum(sum(job.sizes) for job in mine))
    return TenantView(_quota(view), held, view.get("cohort"), _weight(view), view.get("past", 0))


def _running(case: Case, pool: CardTable) -> tuple[RunningJob, ...]:
    left = {name: np.flatnonzero(pool.model == at).tolist() for at, name in enumerate(pool.models)}
    found = list[RunningJob]()
    for one in case["claims"]:
        if "started" in one:
            found.append(_seated(one, pool, left))
    return tuple(found)


def _seated(one: Mapping[str, Any], pool: CardTable, left: Mapping[str, list[int]]) -> RunningJob:
    asked = one["gpu"] if isinstance(one["gpu"], Mapping) else {pool.models[0]: one["gpu"]}
    rows = tuple(int(left[model].pop(0)) for model, count in asked.items() for _ in range(count))
    shape = _shape(one, len(rows))
    if not rows:
        rows = (0,)
    size = shape.memory_bytes or 0
    waits = one.get("leaving_for", "")
    return RunningJob(
        one["name"],
        one["tenant"],
        one.get("priority", 0),
        rows,
        (shape.held_milli,) * len(rows),
        (size,) * len(rows),
        shape,
        NOW_NS + round(one["started"] * SECOND),
        ends_ns=NOW_NS + one["ends"] * SECOND if "ends" in one else None,
        preemptible=one.get("preemptible", not waits),
        beneficiary=waits,
    )


def _shape(one: Mapping[str, Any], count: int) -> Shape:
    if not count:
        return Shape(
            0,
            one.get("memory", 0) * MEMORY_UNIT,
            sharing=SharingKind.BEST_EFFORT,
            model=one.get("model"),
        )
    return Shape(WHOLE, one.get("memory", 0) * MEMORY_UNIT // count, count, one.get("model"))


def _waiting(one: Mapping[str, Any], pool: CardTable) -> WaitingClass:
    del pool
    submitted = NOW_NS + round(one.get("submitted", 0) * SECOND)
    gang = _gang(one)
    heads = gang.members if gang else (one["name"],)
    shape = next(gang.root.iterate_roles()).shape if gang else _shape(one, one["gpu"])
    times = (submitted,) * len(heads)
    return WaitingClass(
        one["tenant"],
        one.get("priority", 0),
        shape,
        heads,
        len(heads),
        submitted,
        times,
        seconds=one.get("seconds"),
        gang=gang,
        preemptible=one.get("preemptible", True),
    )


def _gang(one: Mapping[str, Any]) -> Gang | None:
    asked: Sequence[Mapping[str, Any]] = one.get("parts", [one] if "members" in one else [])
    if not asked:
        return None
    roles = []
    for n, part in enumerate(asked):
        members = part.get("members", 1)
        roles.append(
            GangRole(f"part-{n}", _shape(part, part["gpu"]), part.get("minimum", members), members)
        )
    names = tuple(f"{one['name']}-{n}" for n in range(sum(role.desired for role in roles)))
    return Gang(one["name"], GangGroup("all", tuple(roles)), names)


def rooms(case: Case, *, empty: bool = False) -> dict[str, dict[str, int]]:
    """By tenant and resource, how much more it may hold, in units; `empty`: if nobody held
    anything."""
    before = snapshot({**case, "claims": []} if empty else case)
    quotas = WorkingQuotas(before, FreeCapacity(before.cards))
    found: dict[str, dict[str, int]] = {}
    for tenant, wanted in case["expected"]["room"].items():
        each = {resource: quotas.tree.get_room(tenant, resource) for resource in wanted}
        found[tenant] = {
            resource: (room or 0) // UNIT[split_resource(resource)[0]]
            for resource, room in each.items()
        }
    return found
