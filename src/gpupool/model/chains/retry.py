"""Retries of a job: how often, after which pauses, and which ends count."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Final

from gpupool.base.units import NANOS_PER_SECOND
from gpupool.model.job import JobState

#: Retries of a job at most.
MAX_RETRIES: Final = 100
#: Seconds before the first retry, and between two at most, where the submission names none.
FIRST_PAUSE_SECONDS: Final = 30
LONGEST_PAUSE_SECONDS: Final = 600
#: The part of a pause by which it is shortened at most, so that jobs that fail together do not
#: start together.
_JITTER: Final = 0.25
_HASH_BITS: Final = 32


@dataclass(frozen=True)
class RetryRule:
    """How often a job starts again after a failure, and after which pauses."""

    retries: int = 0
    first_seconds: int = FIRST_PAUSE_SECONDS
    most_seconds: int = LONGEST_PAUSE_SECONDS

    @property
    def attempts(self) -> int:
        """The number of attempts at most."""
        return self.retries + 1

    def compute_pause_ns(self, job: str, attempt: int) -> int:
        """Compute the pause after an attempt: doubled each time, bounded, with a jitter.

        The jitter depends on the job and the attempt alone, so that a repeated report of an end
        computes the same pause.
        """
        # Cut, because 2 ** 100 seconds is more than any bound.
        doubled = self.first_seconds * 2 ** min(attempt - 1, 40)
        pause_ns = min(doubled, self.most_seconds) * NANOS_PER_SECOND
        digest = hashlib.sha256(f"{job}/{attempt}".encode()).digest()[: _HASH_BITS // 8]
        part = int.from_bytes(digest) / 2**_HASH_BITS
        return int(pause_ns * (1 - _JITTER * part))


NO_RETRIES: Final = RetryRule()


def is_retried_end(state: JobState, reason: str) -> bool:
    """Return whether an end without a request counts as a failure that is tried again.

    Args:
        state: The last state of the attempt.
        reason: Why it ended, as the node's supervisor has it. A limit of time, a command that is
            not there and a refusal of the node would come again with the next attempt.
    """
    if state is JobState.LOST:
        return True
    return state is JobState.FAILED and reason in ("", "exited", "signalled")
