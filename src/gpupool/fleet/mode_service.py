"""Switches cards to other modes: takes the wishes of admins, serves agents, takes their reports.

Every change is one transaction; `modes` decides and writes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import sqlalchemy as sa

from gpupool.base.errors import WrongState
from gpupool.fleet import modes
from gpupool.fleet.changing import refuse_clusters
from gpupool.fleet.lookup import find_device
from gpupool.model.device import CardMode
from gpupool.store.database import Store
from gpupool.wire.modes import ModeReport, ModeSwitchOut, ModeWork


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
