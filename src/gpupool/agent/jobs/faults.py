"""The named steps at which a test can kill an agent, to prove that nothing is lost at any of them.

`GPUPOOL_FAULT=STEP` kills the process with SIGKILL when it first comes to that step, but only where
`GPUPOOL_FAULTS_ALLOWED=1` says that this is a test. Every other agent gets `ignore_step`, which
costs one call.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Mapping

from gpupool.base.errors import BadOption

#: Called with the name of each step that an agent reaches.
StepHook = Callable[[str], None]

#: In the order in which one job passes them.
STEPS = (
    "work-received",
    "begun-anew",
    "checkpoint-written",
    "prepared",
    "spec-written",
    "shim-started",
    "start-reported",
    "exit-seen",
    "unprepared",
    "end-acknowledged",
    "directory-finished",
)
#: The further steps of a job that is resized while it runs.
RESIZE_STEPS = ("resize-noted", "resized")
#: The further steps of the start of a virtual machine, after `prepared`.
VM_STEPS = ("vm-directory-made", "vm-disk-made", "vm-seed-written", "vm-recorded", "vm-disk-taken")
#: The further steps of a job that is suspended and resumed.
SUSPEND_STEPS = (
    "suspend-noted",
    "suspend-recorded",
    "share-closed",
    "suspend-moved",
    "suspend-reported",
    "wake-reported",
    "resume-noted",
    "resume-moved",
    "share-opened",
    "resume-recorded",
    "resume-reported",
)
_ALL_STEPS = (*STEPS, *RESIZE_STEPS, *VM_STEPS, *SUSPEND_STEPS)


def ignore_step(_step: str) -> None:
    """Do nothing: the hook of every agent outside a test."""


def make_step_hook(environ: Mapping[str, str]) -> StepHook:
    """Make the hook that an environment asks for. Raises BadOption for an unknown step."""
    wanted = environ.get("GPUPOOL_FAULT")
    if not wanted or environ.get("GPUPOOL_FAULTS_ALLOWED") != "1":
        return ignore_step
    if wanted not in _ALL_STEPS:
        raise BadOption(
            f"GPUPOOL_FAULT={wanted!r} is no step",
            hint=f"steps: {', '.join(_ALL_STEPS)}",
        )

    def kill_at_step(step: str) -> None:
        if step == wanted:
            os.kill(os.getpid(), signal.SIGKILL)

    return kill_at_step
