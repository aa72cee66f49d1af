"""Cycles for a host that must go on placing whatever the policy, or the cycle itself, raises.

An exception of the placement policy replaces the policy (`guarded`). Any other exception of a cycle has the same
snapshot planned once more, without what is not needed to place: on a new board, with binpack, without evictions and
without reasons. Either is a `fault` that the host reports. Simulations use `cycle` itself: there it is a bug to see.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from gpupool.scheduling.board import Board
from gpupool.scheduling.cycle import cycle
from gpupool.scheduling.guarded import PolicyFault, fault_of
from gpupool.scheduling.score_binpack import NAME as BINPACK
from gpupool.scheduling.snapshot import Expected, Plan, Snapshot
from gpupool.scheduling.victims import PreemptionRules

CYCLE = "cycle"
"""The name under which an exception outside the policies is reported."""

Told = Callable[[PolicyFault], None]


class CarefulCycles:
    """The board of one host, and what went wrong on it. Not thread-safe."""

    def __init__(self, told: Told = lambda _fault: None) -> None:
        """`told` hears of every exception as it is met; it must not raise."""
        self.fault: PolicyFault | None = None
        """What is wrong as of the last plan; None: it was made by the policy of its snapshot."""
        self._told = told
        self._board: Board | None = None
        self._heard: PolicyFault | None = None

    def board(self, snapshot: Snapshot) -> Board:
        """The board that lives on from plan to plan."""
        if self._board is None:
            self._board = Board(snapshot, guard=True)
        return self._board

    def plan(self, snapshot: Snapshot, now_ns: int, limit: int, rules: PreemptionRules) -> Plan:
        """As `cycle` plans it. Raises what the second try raises."""
        try:
            plan = cycle(snapshot, now_ns, limit=limit, board=self.board(snapshot), rules=rules)
        except Exception as error:  # noqa: BLE001 - placing must go on, and the host is told
            self._board = None  # it may be half way through a step
            self._hear(fault_of(CYCLE, "planning failed; binpack places without evictions in its stead", error))
            return cautious(snapshot, now_ns, limit)
        self._hear(self.board(snapshot).fault)
        return plan

    def _hear(self, fault: PolicyFault | None) -> None:
        self.fault = fault
        if fault is not None and fault is not self._heard:  # the same object is the same exception, seen again
            self._told(fault)
        self._heard = fault


def cautious(snapshot: Snapshot, now_ns: int, limit: int) -> Plan:
    """Places what fits; holds what is reserved, promised and owed; evicts nobody and gives no reasons."""
    plain = replace(snapshot, policy=BINPACK, expected=Expected())
    return cycle(plain, now_ns, limit=limit, board=Board(plain), rules=PreemptionRules(enabled=False), said=False)
