"""How far a suspended job is, and what a pool allows that suspends idle jobs by itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class SuspensionState(StrEnum):
    """Where the memory of a running job is that was suspended once."""

    #: Its node is asked to move the memory to the host. The seats are held.
    SUSPENDING = "suspending"
    #: The memory is on the host and the processes are stopped. The seats are empty.
    SUSPENDED = "suspended"
    #: The seats are held again, and its node is asked to move the memory back.
    RESUMING = "resuming"
    #: The last suspend failed: the job runs on its cards.
    FAILED = "failed"


#: The states that may follow each state; None is a job that runs and has no record. Each move ends
#: where it wanted to or where it came from.
TRANSITIONS: Mapping[SuspensionState | None, frozenset[SuspensionState | None]] = {
    None: frozenset({SuspensionState.SUSPENDING}),
    SuspensionState.SUSPENDING: frozenset({SuspensionState.SUSPENDED, SuspensionState.FAILED}),
    SuspensionState.SUSPENDED: frozenset({SuspensionState.RESUMING}),
    SuspensionState.RESUMING: frozenset({None, SuspensionState.SUSPENDED}),
    SuspensionState.FAILED: frozenset({SuspensionState.SUSPENDING}),
}

#: States of a job that is not, or not wholly, on its cards.
AWAY = frozenset(SuspensionState) - {SuspensionState.FAILED}
#: States in which the job's node has not answered the last wish.
UNDERWAY = frozenset({SuspensionState.SUSPENDING, SuspensionState.RESUMING})

#: Seconds without work on a card after which a job counts as idle, unless its claim says more.
USUAL_IDLE_SECONDS: Final = 60
#: Thousandths: a factor of 1.0 lends no memory of a card twice.
UNIT_FACTOR: Final = 1000


#: In place of the claim that a job makes room for: an idle policy suspended it, for none.
IDLE_RULE: Final = "idle-rule"


@dataclass(frozen=True)
class IdleSuspensionRules:
    """What a pool allows.

    Attributes:
        floor_seconds: the least idle time that a claim may name.
        memory_factor_milli: what the shares on a card and the shares that were suspended there while
            idle may have together, in thousandths of the card's memory.
    """

    floor_seconds: int = USUAL_IDLE_SECONDS
    memory_factor_milli: int = UNIT_FACTOR

    def compute_limit(self, memory_bytes: int) -> int:
        """Return the bytes that a card of this size may have in both kinds of shares."""
        return memory_bytes * self.memory_factor_milli // UNIT_FACTOR


USUAL_IDLE_RULES: Final = IdleSuspensionRules()
