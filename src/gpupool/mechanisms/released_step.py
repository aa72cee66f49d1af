"""Runs slow steps for which this process closes NVML, which has every NVIDIA card open.

NVML is closed before the step starts and may be opened when no process of the step lives, whatever
ended it. A mark on disk names the step, so that an agent that starts while it runs waits for its
end. Steps that need no release are run by `mechanisms.slow_step`. See ADR 0058.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

from gpupool.mechanisms.contract import AllocationView, NotYet
from gpupool.mechanisms.slow_step import (
    StepResult,
    has_step_result,
    is_step_running,
    list_released,
    mark_released,
    run_slow_step,
)
from gpupool.probes.nvml.gate import GATE, DriverGate

#: Seconds that an agent waits at its start for steps of an earlier one. Longer than any step takes
#: that does not hang in the kernel: a card has 60 s to become idle, and a reset takes 10 s.
START_SECONDS = 120.0

log = logging.getLogger(__name__)


def run_released_step(
    folder: Path,
    name: str,
    arguments: Sequence[str],
    reason: str,
    gate: DriverGate = GATE,
) -> StepResult | NotYet:
    """Run a step as `run_slow_step` does, with NVML closed in this process meanwhile. Idempotent.

    Blocks for calls of NVML that are under way.

    Raises:
        ServiceUnavailable: NVML could not be closed; then the step was not started.
    """
    if has_step_result(folder, name) or is_step_running(folder, name):
        # NVML is closed for it already, or no longer because it hangs.
        return run_slow_step(folder, name, arguments, reason)
    mark_released(folder, name)
    with gate.suspend(str(folder / name), reason, partial(_is_over, folder, name)):
        return run_slow_step(folder, name, arguments, reason)


def await_released_steps(
    state_dir: Path, gate: DriverGate = GATE, seconds: float = START_SECONDS
) -> None:
    """Block until no step of an earlier agent needs NVML closed; for the start of an agent.

    After some seconds it returns all the same: a step that hangs in the kernel must not keep the
    jobs of other cards without an agent.
    """
    for folder, name in _iterate_running(state_dir):
        log.warning("waiting for the end of step %s in %s", name, folder)
        reason = "a step of an earlier agent needs it closed"
        gate.resume_suspension(str(folder / name), reason, partial(_is_over, folder, name))
    if not gate.await_end(seconds):
        log.error("NVML is opened although a step still needs it closed, after %.0f s", seconds)
        gate.end_suspensions()


def has_released_step(state_dir: Path) -> bool:
    """Whether a step of this pool's agent needs NVML closed now, also after the agent was killed.

    For programs that look at the cards beside the agent.
    """
    return any(True for _ in _iterate_running(state_dir))


def _iterate_running(state_dir: Path) -> Iterator[tuple[Path, str]]:
    """Yield folder and name of each step that runs and needs NVML closed."""
    for folder in _list_folders(state_dir):
        for name in list_released(folder):
            if is_step_running(folder, name):
                yield folder, name


def _is_over(folder: Path, name: str) -> bool:
    return not is_step_running(folder, name)


def _list_folders(state_dir: Path) -> list[Path]:
    """List the folders in which steps of switches and of allocations run."""
    patterns = ("modes", "modes/*.work", "prepared/*")
    found: list[Path] = []
    for pattern in patterns:
        found += sorted(state_dir.glob(pattern))
    return found


def explain_wait(view: AllocationView, gate: DriverGate = GATE) -> str:
    """Return why an allocation cannot be prepared now; empty when it can, or has no NVIDIA card."""
    real = [one for one in view.granted if not one.device.simulated]
    if any(one.device.vendor == "nvidia" for one in real):
        return gate.explain_suspension()
    return ""


def is_driver_suspended(gate: DriverGate = GATE) -> bool:
    """Whether NVIDIA's cards cannot be read now."""
    return bool(gate.explain_suspension())
