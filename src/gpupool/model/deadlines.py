"""How long a job or an allocation may stay in a state: every state has a deadline or a reason to
stay. Pure.

What happens at a deadline is `allocations/overdue`; the table is printed in
docs/reference/lifecycles.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from gpupool.model.allocation import AllocationState
from gpupool.model.job import JobState
from gpupool.model.suspension import SuspensionState

#: Seconds without progress after which `gpupool doctor` names it.
SAID_SECONDS: Final = 60
#: Seconds from the grant until the node has to say that the command runs: a node starts about 20
#: jobs a second.
START_SECONDS: Final = 600
#: Seconds beyond the grace of a stop until the node has to say that nothing of the job is left.
END_SECONDS: Final = 60


@dataclass(frozen=True)
class StateDeadline:
    """`seconds` None: as long as it takes, for the reason in `why`. Else `why` says what happens at
    the deadline."""

    seconds: int | None
    why: str


JOBS: Final[Mapping[JobState, StateDeadline]] = {
    JobState.PENDING: StateDeadline(
        None, "it waits for cards; `gpupool explain` says for which and what would help"
    ),
    JobState.STARTING: StateDeadline(
        START_SECONDS, "it is stopped, and its cards are free when its node has answered"
    ),
    JobState.RUNNING: StateDeadline(None, "the command decides, or `--max-time`"),
}
ALLOCATIONS: Final[Mapping[AllocationState, StateDeadline]] = {
    AllocationState.GRANTED: StateDeadline(
        START_SECONDS, "its job is stopped; a gang's launcher waits for the other members"
    ),
    AllocationState.PREPARED: StateDeadline(
        None, "its job runs, or is an attached one whose client has 30 s to come"
    ),
    AllocationState.RELEASING: StateDeadline(
        END_SECONDS,
        "after the grace; its node is asked again every minute. The cards stay held until the node says that nothing "
        "of the job is left: given out before, they would be used twice",
    ),
}
SUSPENSIONS: Final[Mapping[SuspensionState, StateDeadline]] = {
    SuspensionState.SUSPENDING: StateDeadline(
        None, "its node moves the memory and answers, also after a restart; `gpupool stop` ends it"
    ),
    SuspensionState.SUSPENDED: StateDeadline(None, "its user decides, or `--max-time`"),
    SuspensionState.RESUMING: StateDeadline(
        None, "its node moves the memory and answers, also after a restart; `gpupool stop` ends it"
    ),
    SuspensionState.FAILED: StateDeadline(None, "it runs; the next suspend forgets it"),
}
