"""Named health checks, run by `/healthz`, `gpupool doctor` and `/metrics` (docs/decisions/0014).

A part adds a check for each way in which it can fail silently:

    checks.add("placing", lambda: fail("no plan since 40 s", "see server.log") if stuck else well("..."))

A check answers from memory or with one short look; it must not block. This module must not know
what is checked.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

State = Literal["ok", "warn", "fail"]

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class CheckFinding:
    """What a check found.

    Attributes:
        text: What was found; it names no object of a tenant.
        following: What to type or do next.
    """

    state: State
    text: str
    following: str = ""


Check = Callable[[], CheckFinding]


def well(text: str) -> CheckFinding:
    """Make the finding that all is well."""
    return CheckFinding("ok", text)


def warn(text: str, following: str = "") -> CheckFinding:
    """Make a finding that needs attention soon."""
    return CheckFinding("warn", text, following)


def fail(text: str, following: str) -> CheckFinding:
    """Make the finding that something does not work."""
    return CheckFinding("fail", text, following)


class HealthChecks:
    """The checks of one pool, in the order in which they were added. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._checks: dict[str, Check] = {}

    def add(self, name: str, check: Check) -> None:
        """Add a check; it replaces an earlier check of the same name."""
        with self._lock:
            self._checks[name] = check

    def run_all(self) -> dict[str, CheckFinding]:
        """Run every check. A check that raises is a finding of its own. Never raises."""
        with self._lock:
            checks = dict(self._checks)
        return {name: _run_check(name, check) for name, check in checks.items()}

    def list_unwell(self) -> dict[State, list[str]]:
        """Return the names of the checks that fail now, and of those that warn."""
        names: dict[State, list[str]] = {"fail": [], "warn": []}
        for name, finding in self.run_all().items():
            if finding.state != "ok":
                names[finding.state].append(name)
        return names


def _run_check(name: str, check: Check) -> CheckFinding:
    try:
        return check()
    except Exception as error:
        # One broken check must not hide what the others found.
        log.exception("the check of %s failed", name)
        return fail(f"could not look: {error}", "see server.log in the state directory")
