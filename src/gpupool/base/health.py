"""Whether something is well: named checks, asked by `/healthz`, `gpupool doctor` and `/metrics` (docs/decisions/0014).

A part adds a check for each way in which it can fail silently:

    checks.add("placing", lambda: fail("no plan since 40 s", "see server.log") if stuck else well("..."))

A check answers from memory or with one short look; it must not wait. Must not know what is checked.
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
class Finding:
    """What a check found. `text` names no tenant's things; `following` is what to type or do next."""

    state: State
    text: str
    following: str = ""


Check = Callable[[], Finding]


def well(text: str) -> Finding:
    return Finding("ok", text)


def warn(text: str, following: str = "") -> Finding:
    return Finding("warn", text, following)


def fail(text: str, following: str) -> Finding:
    return Finding("fail", text, following)


class Checks:
    """The checks of one pool, in the order in which they were added. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._checks: dict[str, Check] = {}

    def add(self, name: str, check: Check) -> None:
        """A second check of the same name takes the place of the first."""
        with self._lock:
            self._checks[name] = check

    def run(self) -> dict[str, Finding]:
        """Ask all of them. One that raises has found something: that it could not look."""
        with self._lock:
            checks = dict(self._checks)
        return {name: _asked(name, check) for name, check in checks.items()}

    def unwell(self) -> dict[State, list[str]]:
        """Names of the checks that fail now, and of those that warn."""
        found = self.run()
        return {state: [name for name, one in found.items() if one.state == state] for state in ("fail", "warn")}


def _asked(name: str, check: Check) -> Finding:
    try:
        return check()
    except Exception as error:
        log.exception("the check of %s failed", name)
        return fail(f"could not look: {error}", "see server.log in the state directory")
