"""A placement policy at work that is replaced by a simpler one after its first exception.

A policy computes with statistics of the past, which can be wrong like any input. An exception must
not stop placement: binpack, which needs no statistics, continues with the same call. `fault` keeps
the exception for the host to report. The planning state starts the policy anew when cards or
expected demand change. See docs/decisions/0016-policies-are-guarded.md.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar, cast

from gpupool.model.claim import Shape
from gpupool.model.partition import PartitionSlot
from gpupool.scheduling.filtering.capacity_change import ChangedNodes
from gpupool.scheduling.filtering.feasibility import ClaimFit
from gpupool.scheduling.filtering.free_capacity import FreeCapacity
from gpupool.scheduling.filtering.native_scores import NativeScores
from gpupool.scheduling.scoring import registry
from gpupool.scheduling.scoring.binpack import NAME as BINPACK
from gpupool.scheduling.scoring.binpack import BinpackRater
from gpupool.scheduling.scoring.partitions import PartitionRater
from gpupool.scheduling.scoring.policy import NodeRater, ScoreUpdater
from gpupool.scheduling.snapshot.claims import ExpectedDemand
from gpupool.scheduling.snapshot.columns import Ints

T = TypeVar("T")

#: An epoch that no policy reaches: whoever remembers scores of the failed policy forgets them.
_REPLACED = 1 << 62

#: The name under which the rule for partitions is reported.
PARTITIONS = "partitions"


@dataclass(frozen=True)
class PolicyFault:
    """An exception of a policy, or of its input; `policy` names it for events and metrics."""

    policy: str
    #: For people: without the error, which is for logs and admins.
    sentence: str
    #: The exception, and the line that raised it.
    error: str


def make_policy_fault(policy: str, sentence: str, error: Exception) -> PolicyFault:
    """Return the report of an exception that is being handled."""
    frames = traceback.extract_tb(error.__traceback__)
    where = f" ({frames[-1].filename.rpartition('/')[2]}:{frames[-1].lineno})" if frames else ""
    return PolicyFault(policy, sentence, f"{type(error).__name__}: {error}"[:200] + where)


class GuardedRater:
    """A rater that is replaced after its first exception.

    Args:
        name: The name of the policy, for the report.
        begin: Starts the policy.
        in_use: The name of the replacement, for the report.
        instead: Starts the replacement. Its exceptions are not caught.
    """

    def __init__(
        self,
        name: str,
        begin: Callable[[], NodeRater],
        in_use: str,
        instead: Callable[[], NodeRater],
    ) -> None:
        self.fault: PolicyFault | None = None
        self._name = name
        self._in_use = in_use
        self._instead = instead
        try:
            self._use_rater(begin())
        except Exception as error:  # noqa: BLE001 - whatever a policy raises must not stop placing
            self._replace_rater(error)

    def begin_plan(self, generation: int) -> None:
        self._call(lambda rater: rater.begin_plan(generation))

    @property
    def epoch(self) -> int:
        epoch = self._call(lambda rater: rater.epoch)
        return _REPLACED if self.fault is not None else epoch

    def rate_nodes(self, fit: ClaimFit, nodes: Ints) -> Ints:
        """Return scores of the policy or of its replacement.

        After an exception one decision may compare scores of both. Every node asked about takes the
        shape.
        """
        return self._call(lambda rater: rater.rate_nodes(fit, nodes))

    def build_updater(self, fit: ClaimFit, scores: NativeScores) -> ScoreUpdater | None:
        """Return the updater of the policy until its first exception; the replacement has none."""
        mender = self._call(lambda rater: rater.build_updater(fit, scores))
        if mender is None:
            return None

        def mend(nodes: ChangedNodes) -> bool:
            try:
                return self.fault is None and mender(nodes)
            except Exception as error:  # noqa: BLE001 - whatever a policy raises must not stop placing
                self._replace_rater(error)
                return False

        return mend

    def normalize_scores(self, scores: Ints) -> Ints:
        return self._call(lambda rater: rater.normalize_scores(scores))

    def order_cards(self, fit: ClaimFit, node: int) -> Ints:
        return self._call(lambda rater: rater.order_cards(fit, node))

    def can_reuse_card(self, shape: Shape) -> bool:
        return self._call(lambda rater: rater.can_reuse_card(shape))

    def on_take(self, shape: Shape, node: int) -> None:
        self._call(lambda rater: rater.on_take(shape, node))

    def on_release(self, shape: Shape, node: int) -> None:
        self._call(lambda rater: rater.on_release(shape, node))

    def _call(self, ask: Callable[[NodeRater], T]) -> T:
        try:
            return ask(self._rater)
        except Exception as error:
            # The replacement failed: nothing simpler is left, and the host must see it.
            if self.fault is not None:
                raise
            self._replace_rater(error)
            return ask(self._rater)

    def _use_rater(self, rater: NodeRater) -> None:
        self._rater = rater
        # Copied, because rankings read them as attributes of the rater that they know.
        self.NEEDS_NORMALIZATION = rater.NEEDS_NORMALIZATION
        self.NODE_WORD = rater.NODE_WORD
        self.CARD_WORD = rater.CARD_WORD

    def _replace_rater(self, error: Exception) -> None:
        sentence = f"placement policy {self._name} failed; {self._in_use} places in its stead"
        self.fault = make_policy_fault(self._name, sentence, error)
        self._use_rater(self._instead())


class GuardedPartitionRater(GuardedRater):
    """The guarded rule for partitions; its replacement weights all profiles alike."""

    def __init__(self, free: FreeCapacity, expected: ExpectedDemand) -> None:
        alike = "the rule that counts all profiles alike"
        super().__init__(
            PARTITIONS,
            lambda: PartitionRater(free, expected),
            alike,
            lambda: PartitionRater(free, ExpectedDemand()),
        )

    def choose_slots(self, profile: str, rows: Ints) -> tuple[PartitionSlot, ...]:
        """Return a slot on each of these cards; each of them has one."""
        return self._call(lambda cuts: cast(PartitionRater, cuts).choose_slots(profile, rows))


def start_guarded(
    policy: str, free: FreeCapacity, expected: ExpectedDemand, seed: int
) -> GuardedRater:
    """Start the policy of that name, with binpack as its replacement.

    Raises:
        UnknownPolicy: No policy has that name.
    """
    known = registry.find_policy(policy)
    return GuardedRater(
        policy, lambda: known.start_rater(free, expected, seed), BINPACK, lambda: BinpackRater(free)
    )
