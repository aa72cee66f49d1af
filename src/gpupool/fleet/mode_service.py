"""Switches cards to other modes: takes the wishes of admins, serves agents, takes their reports.

Every change is one transaction; `modes` decides and writes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import sqlalchemy as sa

from gpupool.base.errors import WriteConflict, WrongState
from gpupool.fleet import modes
from gpupool.fleet.changing import refuse_clusters
from gpupool.fleet.lookup import find_all, find_device, name_of
from gpupool.model.device import CardMode
from gpupool.store.database import Store
from gpupool.wire.modes import CardWish, ModeReport, ModeSwitchOut, ModeWork

#: Cards that a refusal names; it counts the others.
NAMED_CARDS = 5


class CardModeService:
    """Switches of cards. Thread-safe."""

    def __init__(self, store: Store, find_agent: Callable[[str], str]) -> None:
        self._store = store
        self._find_agent = find_agent

    def switch_mode(self, name: str, wanted: CardMode, *, dry_run: bool = False) -> ModeSwitchOut:
        """Switch a card to another mode: drain it, let its agent set it up, hand it out again.

        Idempotent. Returns at once; the switch goes on by itself.

        Raises:
            NotFound: No card has that name.
            WrongState: The card cannot be switched to it; the message says why.
        """
        with self._store.read() as connection:
            row = find_device(connection, name)
        refuse_clusters([row])
        plan = modes.plan_switch(row, wanted)
        if dry_run:
            return plan
        if plan.blocked_by:
            raise WrongState(
                f"{plan.device} cannot be switched to mode {wanted}: {plan.blocked_by[0]}",
                hint=f"gpupool mode {plan.device} {wanted} --dry-run shows every step",
            )
        with self._store.write() as write:
            row = find_device(write.connection, name)
            if modes.get_mode(row.facts) != wanted or modes.is_switching(write, row.id):
                modes.begin_switch(write, row, wanted)
        with self._store.read() as connection:
            row = find_device(connection, name)
            switch = modes.read_switches(connection).get(row.id)
        return modes.describe_switch(row, switch) or plan

    def switch_modes(
        self, wishes: Sequence[CardWish], wanted: CardMode, *, dry_run: bool = False
    ) -> list[ModeSwitchOut]:
        """Switch cards to one mode: all of them or none. Idempotent; returns at once.

        A card that is in the mode, or on its way to it, is left alone.

        Raises:
            NotFound: No card has one of the names.
            WriteConflict: A card is in another mode than a plan found it in.
            WrongState: A card cannot be switched; the message says which and why.
        """
        with self._store.read() as connection:
            rows = find_all(connection, [wish.device for wish in wishes])
            refuse_clusters(rows)
            _refuse_changed(connection, wishes, wanted)
        plans = [modes.plan_switch(row, wanted) for row in rows]
        if dry_run:
            return plans
        _refuse_blocked(plans, wanted)
        with self._store.write() as write:
            # Read again: between plan and lock another admin may have been faster.
            _refuse_changed(write.connection, wishes, wanted)
            for row in find_all(write.connection, [wish.device for wish in wishes]):
                if modes.get_mode(row.facts) != wanted or modes.is_switching(write, row.id):
                    modes.begin_switch(write, row, wanted)
        with self._store.read() as connection:
            rows = find_all(connection, [plan.device for plan in plans])
            switches = modes.read_switches(connection)
        return [
            modes.describe_switch(row, switches.get(row.id)) or modes.plan_switch(row, wanted)
            for row in rows
        ]

    def read_ready(
        self, connection: sa.Connection, agent: str, after: int
    ) -> list[tuple[int, ModeWork]]:
        """Read the switches that an agent may begin, behind the cursor, each with its own."""
        return modes.read_ready(connection, agent, after)

    def apply_reports(self, name: str, reports: Sequence[ModeReport]) -> None:
        """Apply what an agent says of its switches. Idempotent."""
        agent = self._find_agent(name)
        with self._store.write() as write:
            for report in reports:
                modes.apply_report(write, agent, report)


def _refuse_changed(
    connection: sa.Connection, wishes: Sequence[CardWish], wanted: CardMode
) -> None:
    """Raise WriteConflict where a card is in another mode than expected, or goes to another one.

    A card that is in the wanted mode, or on its way to it, is as a plan wants it.
    """
    switches = modes.read_switches(connection)
    changed = []
    for wish in wishes:
        row = find_device(connection, wish.device)
        mode = modes.get_mode(row.facts)
        switch = switches.get(row.id)
        if wish.expected is None:
            continue
        if switch is not None and switch.mode != wanted:
            changed.append(f"{name_of(row)} is being switched to mode {switch.mode}")
        elif mode not in (wish.expected, wanted):
            changed.append(f"{name_of(row)} is in mode {mode}, expected {wish.expected}")
    if changed:
        raise WriteConflict(
            f"{_count_cards(changed, wishes)} changed since the plan; nothing was switched: "
            f"{_join_some(changed)}",
            hint="plan again: gpupool mig plan",
        )


def _refuse_blocked(plans: Sequence[ModeSwitchOut], wanted: CardMode) -> None:
    blocked = [f"{plan.device}: {plan.blocked_by[0]}" for plan in plans if plan.blocked_by]
    if blocked:
        raise WrongState(
            f"{_count_cards(blocked, plans)} cannot be switched to mode {wanted}; nothing was "
            f"switched: {_join_some(blocked)}",
            hint=f"gpupool mode CARD {wanted} --dry-run shows every step",
        )


def _count_cards(some: Sequence[object], every: Sequence[object]) -> str:
    return f"{len(some)} of {len(every)} cards"


def _join_some(texts: Sequence[str]) -> str:
    more = len(texts) - NAMED_CARDS
    return "; ".join(texts[:NAMED_CARDS]) + (f"; and {more} more" if more > 0 else "")
