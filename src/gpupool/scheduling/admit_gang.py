"""Judged once, when a gang is submitted: could its minimum ever start together, were the whole pool its own?

As for single claims, only what no waiting would change is refused; cards that are observed, draining or not healthy
count, because an operator can open them. Nothing here raises.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

import numpy as np

from gpupool.base.units import WHOLE
from gpupool.model.catalogue import CATALOGUE
from gpupool.model.claim import Rejection, Within
from gpupool.model.gang import Gang, Group
from gpupool.model.quota import UNLIMITED, Amount, Branch
from gpupool.scheduling import refusal_gang
from gpupool.scheduling.admit import judge
from gpupool.scheduling.board import Board
from gpupool.scheduling.domains import ladder
from gpupool.scheduling.gang import Missing, Muster, least_amount, missing, room_by_role
from gpupool.scheduling.pool_size import pool_size
from gpupool.scheduling.quota_tree import Tree
from gpupool.scheduling.quotas import beyond
from gpupool.scheduling.snapshot import CARD_STATUS, Cards, CardStatus, Snapshot, TenantView, Waiting
from gpupool.scheduling.work import Work


def judge_gang(
    gang: Gang,
    tenant: TenantView,
    cards: Cards,
    known_models: Iterable[str] = tuple(CATALOGUE),
    *,
    tenant_name: str,
    cohorts: Mapping[str, Branch] | None = None,
) -> Rejection | None:
    """The refusal of a gang that can never start, with the numbers, or None."""
    if (unknown := _unknown_level(gang, cards)) is not None:
        return unknown
    known = tuple(known_models)
    for role in gang.root.roles():
        if (said := judge(role.shape, tenant, cards, known, tenant_name=tenant_name, cohorts=cohorts)) is not None:
            return replace(said, sentence=f"role {role.name}: {said.sentence}")
    work, asked = _in_the_empty_pool(gang, cards)
    tree = Tree({tenant_name: tenant}, cohorts or {}, pool_size(cards))
    first = next(gang.root.roles()).shape
    return beyond(tree, tenant_name, tree.ask(first, least_amount(work, asked))) or _too_large(work, asked)


def _unknown_level(gang: Gang, cards: Cards) -> Rejection | None:
    levels = [level.name for level in ladder(cards)]
    asked = [within.required for within in _withins(gang.root) if within.required is not None]
    return next((refusal_gang.unknown_level(name, levels) for name in asked if name not in levels), None)


def _withins(group: Group) -> Iterator[Within]:
    yield group.within
    for part in group.parts:
        if isinstance(part, Group):
            yield from _withins(part)


def _in_the_empty_pool(gang: Gang, cards: Cards) -> tuple[Work, Missing]:
    shape = next(gang.root.roles()).shape
    waiting = Waiting("", 0, shape, gang.members, len(gang.members), 0, gang=gang)
    nobody = TenantView(UNLIMITED, Amount())
    empty = Snapshot(0, emptied(cards), {"": nobody}, (waiting,))
    return Work(empty, Board(empty)), missing(waiting, (), cards.node)


def emptied(cards: Cards) -> Cards:
    """The pool with every card open and nothing in use."""
    hosts = cards.hosts
    if hosts is not None:
        hosts = replace(hosts, free_cpu_milli=hosts.cpu_milli.copy(), free_memory_bytes=hosts.memory_bytes.copy())
        numa = hosts.numa
        if numa is not None:
            numa = replace(numa, free_cpu_milli=numa.cpu_milli.copy(), free_memory_bytes=numa.memory_bytes.copy())
            hosts = replace(hosts, numa=numa)
    return replace(
        cards,
        status=np.full(len(cards), CARD_STATUS.index(CardStatus.OPEN), dtype=np.int64),
        free_milli=np.full(len(cards), WHOLE, dtype=np.int64),
        free_bytes=cards.memory_bytes.copy(),
        cuts={row: replace(cut, taken=()) for row, cut in cards.cuts.items()},
        hosts=hosts,
    )


def _too_large(work: Work, asked: Missing) -> Rejection | None:
    if not asked.needed or Muster(work, "", asked).gather_least():
        return None
    within, room = asked.gang.root.within, room_by_role(work, asked)
    for path, role in asked.roles.items():
        if room[path] < asked.least[path]:
            return refusal_gang.larger_than_pool(within, role, room[path], asked.least[path])
    return refusal_gang.never_together(asked.gang)
