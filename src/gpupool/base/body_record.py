"""Records the failures of one supervised body and judges whether it can recover.

Must not know what the body does.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from gpupool.base.errors import ServiceUnavailable

#: Seconds of failing without a break after which a body cannot go on: 20 tries with the pauses of
#: `Backoff`.
PATIENCE_SECONDS: Final = 60.0
#: Seconds that a body has to run for its earlier failures to be over.
STEADY_SECONDS: Final = 10.0
#: Errors that a fresh process would meet as well.
_OUTSIDE: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO})


@dataclass(frozen=True)
class BodyTrouble:
    """A body that does not work now, and why. A `dead` body is not called again."""

    name: str
    text: str
    dead: bool


class BodyRecord:
    """The failures of one body. Written by the body, read by any thread."""

    def __init__(self, name: str, clock: Callable[[], float]) -> None:
        self.name = name
        self._clock = clock
        self.failures = 0
        self._since: float | None = None
        self._begun: float | None = None
        self._error = ""
        self._dead = False

    def begin(self) -> None:
        """Note that the body is called."""
        self._begun = self._clock()

    def mark_well(self) -> None:
        """Note that the body works: its earlier failures are over."""
        self._since = None

    def record_failure(self, error: BaseException) -> bool:
        """Count a failure; return whether the body may be called again."""
        now = self._clock()
        if self._since is None or (self._begun is not None and now - self._begun >= STEADY_SECONDS):
            self._since = now
        self._begun = None
        self.failures += 1
        self._error = str(error).splitlines()[0] if str(error) else type(error).__name__
        # A fresh process would meet an outage too: restarting for it would only lose what is in
        # memory.
        self._dead = not is_outage(error) and now - self._since >= PATIENCE_SECONDS
        return not self._dead

    def record_end(self, error: BaseException) -> None:
        """Note that the body ended by an error that is not caught."""
        self.failures += 1
        self._error = type(error).__name__
        self._dead = True

    def find_trouble(self) -> BodyTrouble | None:
        """Return what is wrong with the body now, or None."""
        now = self._clock()
        if self._dead:
            return BodyTrouble(
                self.name, f"ended after {self.failures} failures: {self._error}", dead=True
            )
        if self._since is None or (self._begun is not None and now - self._begun >= STEADY_SECONDS):
            return None
        return BodyTrouble(
            self.name, f"fails since {now - self._since:.0f} s: {self._error}", dead=False
        )


def is_outage(error: BaseException) -> bool:
    """Whether an error is an outage of others, which a fresh process would meet as well."""
    return isinstance(error, ServiceUnavailable) or (
        isinstance(error, OSError) and error.errno in _OUTSIDE
    )
