"""Which idle jobs are suspended so that a waiting claim starts: none, unless it then starts.

The proof is the cycle itself, on a snapshot in which the seats of these jobs are empty.
"""

from gpupool.scheduling.idle_suspension.factor import FactorShortage, find_factor_shortage
from gpupool.scheduling.idle_suspension.hypothesis import empty_seats
from gpupool.scheduling.idle_suspension.kept_capacity import (
    KeptCapacity,
    measure_kept,
    measure_kept_before,
    replace_suspended,
    sum_seats,
)
from gpupool.scheduling.idle_suspension.kept_cards import (
    KeptCard,
    describe_kept_card,
    find_kept_card,
)
from gpupool.scheduling.idle_suspension.messages import (
    describe_kept,
    describe_leaving,
    describe_shortage,
    describe_victims,
)
from gpupool.scheduling.idle_suspension.returning import (
    ReturningJob,
    find_return_victims,
    has_return_room,
)
from gpupool.scheduling.idle_suspension.victims import (
    IdleJob,
    IdleVictims,
    VictimRejection,
    find_idle_victims,
    find_victim_rejection,
    sort_idle_jobs,
)

__all__ = [
    "FactorShortage",
    "IdleJob",
    "IdleVictims",
    "KeptCapacity",
    "KeptCard",
    "ReturningJob",
    "VictimRejection",
    "describe_kept",
    "describe_kept_card",
    "describe_leaving",
    "describe_shortage",
    "describe_victims",
    "empty_seats",
    "find_factor_shortage",
    "find_idle_victims",
    "find_kept_card",
    "find_return_victims",
    "find_victim_rejection",
    "has_return_room",
    "measure_kept",
    "measure_kept_before",
    "replace_suspended",
    "sort_idle_jobs",
    "sum_seats",
]
