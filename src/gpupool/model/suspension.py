"""How far a suspended job is: its memory on its cards, on the host, or on the way."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum


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
