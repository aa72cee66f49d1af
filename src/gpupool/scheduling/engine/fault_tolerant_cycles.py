"""Cycles of a host that must go on placing when the policy or the cycle itself raises.

An exception of the placement policy replaces the policy (`guarded_policy`). After any other
exception the same snapshot is planned once more without what placing does not need: on a new state,
with binpack, without evictions and without rejections. Both are faults that the host reports.
Simulations use `cycle` itself, where an exception must be visible.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from gpupool.scheduling.engine.cycle import cycle
from gpupool.scheduling.preemption.victims import PreemptionRules
from gpupool.scheduling.scoring.binpack import NAME as BINPACK
from gpupool.scheduling.scoring.guarded_policy import PolicyFault, make_policy_fault
from gpupool.scheduling.snapshot.claims import ExpectedDemand
from gpupool.scheduling.snapshot.plan import Plan
from gpupool.scheduling.snapshot.snapshot import Snapshot
from gpupool.scheduling.workspace.planning_state import PlanningState

#: The name under which an exception outside the policies is reported.
CYCLE = "cycle"

Told = Callable[[PolicyFault], None]


class FaultTolerantCycles:
    """The planning state of one host, and its faults. Not thread-safe."""

    def __init__(self, told: Told = lambda _fault: None) -> None:
        """`told` is called with every fault once; it must not raise."""
        #: The fault as of the last plan; None: its snapshot's policy made it.
        self.fault: PolicyFault | None = None
        self._on_fault = told
        self._state: PlanningState | None = None
        self._last_fault: PolicyFault | None = None

    def get_state(self, snapshot: Snapshot) -> PlanningState:
        """Return the planning state that lives from plan to plan."""
        if self._state is None:
            self._state = PlanningState(snapshot, guard=True)
        return self._state

    def make_plan(
        self, snapshot: Snapshot, now_ns: int, limit: int, rules: PreemptionRules
    ) -> Plan:
        """Plan as `cycle` does.

        Raises:
            Exception: what the second try raises.
        """
        try:
            plan = cycle(snapshot, now_ns, limit=limit, board=self.get_state(snapshot), rules=rules)
        except Exception as error:  # noqa: BLE001 - placing must go on, and the host is told
            # The exception may have left a step half done, and no mark can undo half a step.
            self._state = None
            self._report_fault(
                make_policy_fault(
                    CYCLE, "planning failed; binpack places without evictions in its stead", error
                )
            )
            # If this raises too, the supervisor of the host's thread reports it and tries again
            # later.
            return plan_cautiously(snapshot, now_ns, limit)
        self._report_fault(self.get_state(snapshot).fault)
        return plan

    def _report_fault(self, fault: PolicyFault | None) -> None:
        self.fault = fault
        # The same object is the same exception, seen again in the next plan: it is told once.
        if fault is not None and fault is not self._last_fault:
            self._on_fault(fault)
        self._last_fault = fault


def plan_cautiously(snapshot: Snapshot, now_ns: int, limit: int) -> Plan:
    """Place what fits and keep all holds; evict no job and find no rejections."""
    plain = replace(snapshot, policy=BINPACK, expected=ExpectedDemand())
    return cycle(
        plain,
        now_ns,
        limit=limit,
        board=PlanningState(plain),
        rules=PreemptionRules(enabled=False),
        said=False,
    )
