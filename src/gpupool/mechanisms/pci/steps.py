"""Starts the process that runs a plan of operations, and says how it ended."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path

from gpupool.base.durable import write_durably
from gpupool.mechanisms.contract import NotYet
from gpupool.mechanisms.pci.operations import Operation
from gpupool.mechanisms.released_step import run_released_step
from gpupool.mechanisms.slow_step import (
    StepResult,
    forget_slow_step,
    is_step_running,
    run_slow_step,
)

#: Verbs of the plans in which a card leaves NVIDIA's driver or returns to it. NVML has every card open,
#: and sees a card that came back only when it is opened again.
RELEASING_VERBS = frozenset(
    {"disable-functions", "disable-persistence", "enable-functions", "restore-persistence"}
)


class PlanRunner:
    """Runs plans in processes of their own, one by one for each name in a folder."""

    def run_plan(
        self, root: Path, folder: Path, name: str, operations: Sequence[Operation], reason: str
    ) -> StepResult | NotYet:
        """Start a plan unless it runs already, or return how it ended. Does not block.

        The result is returned once: the next call starts the plan again.
        """
        plan = self.locate_plan(folder, name)
        if not plan.exists():
            write_durably(plan, json.dumps(list(operations)).encode(), mode=0o600)
        module = ["gpupool.mechanisms.pci.operations", str(root), str(plan)]
        needs_release = any(one["verb"] in RELEASING_VERBS for one in operations)
        result = self._start(folder, name, module, reason, needs_release)
        if isinstance(result, StepResult):
            plan.unlink()
            forget_slow_step(folder, name)
        return result

    def withdraw_plan(self, folder: Path, name: str) -> bool:
        """Take a plan back; false while its process still runs, which cannot be stopped."""
        # The plan goes before the look: a process that starts later finds none and does nothing.
        self.locate_plan(folder, name).unlink(missing_ok=True)
        if is_step_running(folder, name):
            return False
        forget_slow_step(folder, name)
        return True

    @staticmethod
    def locate_plan(folder: Path, name: str) -> Path:
        return folder / f"plan-{name}.json"

    def _start(
        self, folder: Path, name: str, module: Sequence[str], reason: str, needs_release: bool
    ) -> StepResult | NotYet:
        run = run_released_step if needs_release else run_slow_step
        return run(folder, name, [sys.executable, "-m", *module], reason)
