"""Admission of a gang: whether its minimum could ever start together in an empty pool.

As for single claims, only what no waiting would change is rejected. Cards that are observed,
draining or not healthy count, because an operator can open them. Nothing here raises.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

import numpy as np

from gpupool.base.units import WHOLE
from gpupool.model.catalogue import CATALOGUE
from gpupool.model.claim import Rejection, TopologyConstraint
from gpupool.model.gang import Gang, GangGroup
from gpupool.model.quota import UNLIMITED, QuotaBranch, ResourceAmount
from gpupool.scheduling.admission.claim import judge_claim
from gpupool.scheduling.filtering.domains import list_levels
from gpupool.scheduling.quota.pool_size import measure_pool
from gpupool.scheduling.quota.quota_rejections import (
    find_rejection_for_ever,
)
from gpupool.scheduling.quota.tree import QuotaTree
from gpupool.scheduling.reasons import gang as refusal_gang
from gpupool.scheduling.snapshot.cards import CARD_STATUS, CardStatus, CardTable
from gpupool.scheduling.snapshot.claims import WaitingClass
from gpupool.scheduling.snapshot.snapshot import Snapshot, TenantView
from gpupool.scheduling.workspace.gang_placement import (
    GangPlacement,
)
from gpupool.scheduling.workspace.pending_members import (
    PendingMembers,
    count_room_by_role,
    find_pending_members,
    sum_least_amount,
)
from gpupool.scheduling.workspace.planning_state import PlanningState
from gpupool.scheduling.workspace.transaction import PlanningTransaction


def judge_gang(
    gang: Gang,
    tenant: TenantView,
    cards: CardTable,
    known_models: Iterable[str] = tuple(CATALOGUE),
    *,
    tenant_name: str,
    cohorts: Mapping[str, QuotaBranch] | None = None,
) -> Rejection | None:
    """Return the rejection of a gang that can never start, with the numbers, or None."""
    if (unknown := _reject_unknown_level(gang, cards)) is not None:
        return unknown
    known = tuple(known_models)
    for role in gang.root.iterate_roles():
        if (
            said := judge_claim(
                role.shape, tenant, cards, known, tenant_name=tenant_name, cohorts=cohorts
            )
        ) is not None:
            return replace(said, sentence=f"role {role.name}: {said.sentence}")
    work, asked = _plan_empty_pool(gang, cards)
    tree = QuotaTree({tenant_name: tenant}, cohorts or {}, measure_pool(cards))
    first = next(gang.root.iterate_roles()).shape
    return find_rejection_for_ever(
        tree, tenant_name, tree.compute_claim_use(first, sum_least_amount(work, asked))
    ) or _reject_too_large(work, asked)


def _reject_unknown_level(gang: Gang, cards: CardTable) -> Rejection | None:
    levels = [level.name for level in list_levels(cards)]
    for within in _iterate_withins(gang.root):
        if within.required is not None and within.required not in levels:
            return refusal_gang.reject_unknown_level(within.required, levels)
    return None


def _iterate_withins(group: GangGroup) -> Iterator[TopologyConstraint]:
    yield group.within
    for part in group.parts:
        if isinstance(part, GangGroup):
            yield from _iterate_withins(part)


def _plan_empty_pool(gang: Gang, cards: CardTable) -> tuple[PlanningTransaction, PendingMembers]:
    shape = next(gang.root.iterate_roles()).shape
    waiting = WaitingClass("", 0, shape, gang.members, len(gang.members), 0, gang=gang)
    nobody = TenantView(UNLIMITED, ResourceAmount())
    # Without quotas and other claims: only what no change of the queue mends is refused for ever.
    empty = Snapshot(0, empty_cards(cards), {"": nobody}, (waiting,))
    return PlanningTransaction(empty, PlanningState(empty)), find_pending_members(
        waiting, (), cards.node
    )


def empty_cards(cards: CardTable) -> CardTable:
    """Return the cards with every card open and nothing in use."""
    hosts = cards.hosts
    if hosts is not None:
        hosts = replace(
            hosts,
            free_cpu_milli=hosts.cpu_milli.copy(),
            free_memory_bytes=hosts.memory_bytes.copy(),
        )
        numa = hosts.numa
        if numa is not None:
            numa = replace(
                numa,
                free_cpu_milli=numa.cpu_milli.copy(),
                free_memory_bytes=numa.memory_bytes.copy(),
            )
            hosts = replace(hosts, numa=numa)
    return replace(
        cards,
        status=np.full(len(cards), CARD_STATUS.index(CardStatus.OPEN), dtype=np.int64),
        free_milli=np.full(len(cards), WHOLE, dtype=np.int64),
        free_bytes=cards.memory_bytes.copy(),
        unlent_bytes=None,
        layouts={row: replace(cut, slots=()) for row, cut in cards.layouts.items()},
        hosts=hosts,
    )


def _reject_too_large(work: PlanningTransaction, asked: PendingMembers) -> Rejection | None:
    if not asked.needed_count or GangPlacement(work, "", asked).try_place_minimum():
        return None
    within = asked.gang.root.within
    room = count_room_by_role(work, asked)
    for path, role in asked.roles.items():
        if room[path] < asked.least[path]:
            return refusal_gang.reject_larger_than_pool(within, role, room[path], asked.least[path])
    return refusal_gang.reject_never_together(asked.gang)
