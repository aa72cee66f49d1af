"""Where an agent can be killed on purpose: named steps, for the tests that prove nothing is lost at any of them.

`GPUPOOL_FAULT=STEP` kills the process with SIGKILL when it first comes to that step, but only where
`GPUPOOL_FAULTS_ALLOWED=1` says that this is a test. Everything else gets `no_fault`, which costs a call.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Mapping

from gpupool.base.errors import BadOption

Fault = Callable[[str], None]

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
"""In the order in which one job passes them."""
RESIZE_STEPS = ("resize-noted", "resized")
"""What a job that is resized passes besides, while it runs."""


def no_fault(_step: str) -> None:
    """What every agent outside a test is given."""


def fault_from(environ: Mapping[str, str]) -> Fault:
    """The fault that an environment asks for. Raises BadOption for a step that does not exist."""
    wanted = environ.get("GPUPOOL_FAULT")
    if not wanted or environ.get("GPUPOOL_FAULTS_ALLOWED") != "1":
        return no_fault
    if wanted not in (*STEPS, *RESIZE_STEPS):
        raise BadOption(f"GPUPOOL_FAULT={wanted!r} is no step", hint=f"steps: {', '.join((*STEPS, *RESIZE_STEPS))}")

    def die(step: str) -> None:
        if step == wanted:
            os.kill(os.getpid(), signal.SIGKILL)

    return die
