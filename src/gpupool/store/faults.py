"""Where a server can be killed on purpose, for tests: just before and just after a commit.

`GPUPOOL_STORE_FAULT=STEP:SUBJECT` kills the process with SIGKILL at the first write about that
subject (the kind of one of its events, or a topic that it announces), but only where
`GPUPOOL_FAULTS_ALLOWED=1` says that this is a test.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Mapping

from gpupool.base.errors import BadOption

#: Called with the step and a function that says what the write is about.
Fault = Callable[[str, Callable[[], frozenset[str]]], None]

#: How commits reach the disk: many by one flush, each by its own, or when the kernel likes (only to
#: compare with).
SYNCS = ("group", "each", "none")

STEPS = ("before-commit", "after-commit")


def no_fault(_step: str, _subjects: Callable[[], frozenset[str]]) -> None:
    """What every server outside a test is given."""


def read_fault(environ: Mapping[str, str]) -> Fault:
    """Return the fault that an environment asks for. Raises BadOption for an unknown step."""
    wanted = environ.get("GPUPOOL_STORE_FAULT")
    if not wanted or environ.get("GPUPOOL_FAULTS_ALLOWED") != "1":
        return no_fault
    at, _, subject = wanted.partition(":")
    if at not in STEPS or not subject:
        raise BadOption(
            f"GPUPOOL_STORE_FAULT={wanted!r} is no step of a write", hint="before-commit:job.placed"
        )

    def die(step: str, subjects: Callable[[], frozenset[str]]) -> None:
        if step == at and subject in subjects():
            os.kill(os.getpid(), signal.SIGKILL)

    return die


def read_sync(environ: Mapping[str, str]) -> str:
    """Return `GPUPOOL_STORE_SYNC`, for the bench that compares; `group` outside of it.

    Raises:
        BadOption: It is none of SYNCS.
    """
    wanted = environ.get("GPUPOOL_STORE_SYNC")
    if not wanted or environ.get("GPUPOOL_FAULTS_ALLOWED") != "1":
        return "group"
    if wanted not in SYNCS:
        raise BadOption(f"GPUPOOL_STORE_SYNC={wanted!r} is not known", hint=", ".join(SYNCS))
    return wanted
