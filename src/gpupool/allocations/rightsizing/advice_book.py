"""Keeps the use of all families in memory, so that a submission is advised without reading runs.

The thread of `policy_watch` fills it. It is derived: after a restart it is empty until the first
look, and what is not in it is not changed. Thread-safe.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import sqlalchemy as sa

from gpupool.allocations.rightsizing.policy_rows import read_standing
from gpupool.allocations.rightsizing.reading import Families, read_families
from gpupool.allocations.store.advice_rows import APPLIED, PROPOSED, AdvisedShare
from gpupool.allocations.submission.submission import Submission
from gpupool.base.units import MIB, NANOS_PER_SECOND, WHOLE
from gpupool.fleet.tables import devices
from gpupool.model.claim import Shape
from gpupool.model.tenant import Principal
from gpupool.rightsizing.advice import DAY_S, Advice, FamilyUse, advise
from gpupool.rightsizing.families import FamilyKey, find_pattern, strip_made_end
from gpupool.rightsizing.policy import POLICY_RULES, AdviceMode, AdviceTarget, limit_advice
from gpupool.rightsizing.runs import RequestedShare
from gpupool.store.database import Store

#: How far back runs advise: as `gpupool advise` without options.
WINDOW_NS: Final = 30 * DAY_S * NANOS_PER_SECOND


class AdviceBook:
    """What is known of families that a policy may be about."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._families: Mapping[FamilyKey, FamilyUse] = {}
        self._card_bytes: Mapping[str, frozenset[int]] = {}

    def clear(self) -> None:
        """Forget everything: no policy acts."""
        self._families = {}

    def refresh(self) -> None:
        """Read the runs of all families."""
        since_ns = self._store.clock.now_ns() - WINDOW_NS
        with self._store.read() as connection:
            found = read_families(connection, sa.true(), since_ns)
            self._card_bytes = _read_card_bytes(connection)
        self._families = _sum_families(found)

    def advise(self, key: FamilyKey, share: RequestedShare) -> Advice | None:
        """Advise a request of a family; None: the family is not known."""
        family = self._families.get(key)
        if family is None:
            return None
        # Of the request that is made now, whatever the run before asked for. The family is shared
        # with other threads, so its copy is changed.
        mine = FamilyUse(**{**vars(family), "share": share})
        return advise(mine)

    def choose_share(self, submission: Submission, principal: Principal) -> AdvisedShare | None:
        """Choose a share for a submission by the policies of its family; None: what it asks for."""
        if not self._families:
            return None
        key = _find_key(submission, principal)
        share = self._read_request(submission.shape)
        advice = None if share is None else self.advise(key, share)
        if share is None or advice is None:
            return None
        with self._store.read() as connection:
            rule = read_standing(connection, self._store.clock.now_ns()).find_rule(key)
        if rule is None or not rule.bounds.covers(AdviceTarget.NEW):
            return None
        given = limit_advice(rule.bounds, share, advice)
        if given is None:
            return None
        state = APPLIED if rule.bounds.mode is AdviceMode.APPLY else PROPOSED
        return AdvisedShare(
            rule.policy,
            state,
            share.gpu_milli,
            share.memory_bytes,
            given.gpu_milli,
            given.memory_bytes,
        )

    def _read_request(self, shape: Shape) -> RequestedShare | None:
        """Return the amounts that a shape asks for; None: its memory depends on the card."""
        memory = shape.memory_bytes
        if memory is None:
            sizes = _match_models(self._card_bytes, shape.model)
            if len(sizes) != 1:
                return None
            (card_bytes,) = sizes
            memory = card_bytes * shape.gpu_milli // WHOLE // MIB * MIB
        return RequestedShare(shape.gpu_milli, memory, shape.count, shape.model or "")


def _find_key(submission: Submission, principal: Principal) -> FamilyKey:
    name = submission.array or submission.names[0]
    name = strip_made_end(name, submission.public_ids[0])
    return FamilyKey(submission.tenant, submission.project, principal.user, find_pattern(name))


def _sum_families(found: Families) -> dict[FamilyKey, FamilyUse]:
    families: dict[FamilyKey, FamilyUse] = {}
    for key, runs in found.items():
        if not runs.runs:
            continue
        family = FamilyUse(POLICY_RULES)
        for run in runs.runs:
            family.add_run(run)
        families[key] = family
    return families


def _read_card_bytes(connection: sa.Connection) -> dict[str, frozenset[int]]:
    """Read the sizes of memory that the cards of each model have."""
    query = sa.select(devices.c.model, devices.c.memory_bytes).distinct()
    found = dict[str, set[int]]()
    for row in connection.execute(query):
        found.setdefault(row.model.lower(), set()).add(row.memory_bytes)
    return {model: frozenset(sizes) for model, sizes in found.items()}


def _match_models(sizes: Mapping[str, frozenset[int]], wanted: str | None) -> frozenset[int]:
    """Return the sizes of the cards that a model of a claim may mean; of all cards without one."""
    found = frozenset[int]()
    names = [] if wanted is None else wanted.lower().split("|")
    for model, ones in sizes.items():
        is_meant = any(model == name or model.startswith(f"{name}-") for name in names)
        if wanted is None or is_meant:
            found |= ones
    return found
