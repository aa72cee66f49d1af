"""A placement policy at work, and a simpler one in its place from its first exception on.

A policy computes with what was learnt from the past, which is input like any other. An exception must not stop
placing: binpack, which expects nothing, goes on at the same call. What happened is kept in `fault` for the host to
report. The board begins the policy anew when the cards, or what is expected, change. See docs/decisions/0016.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar, cast

from gpupool.model.claim import Shape
from gpupool.model.partition import Placement as Place
from gpupool.scheduling import policies
from gpupool.scheduling.feasible import Fit
from gpupool.scheduling.free import Free, Listed
from gpupool.scheduling.kernel_calls import Scores
from gpupool.scheduling.policy import Mender, Rater
from gpupool.scheduling.score_binpack import NAME as BINPACK
from gpupool.scheduling.score_binpack import Binpack
from gpupool.scheduling.score_partitions import Cuts
from gpupool.scheduling.snapshot import Expected, Ints

T = TypeVar("T")

#: An epoch that no policy reaches: whoever remembers scores of the failed policy forgets them.
_REPLACED = 1 << 62

PARTITIONS = "partitions"
"""The name under which the rule for partitions is reported."""


@dataclass(frozen=True)
class PolicyFault:
    """An exception of a policy, or of what it is given; `policy` names which, for events and metrics."""

    policy: str
    sentence: str
    """For people: without the error, which is for logs and admins."""
    error: str
    """The exception, and the line that raised it."""


def fault_of(policy: str, sentence: str, error: Exception) -> PolicyFault:
    """The report of an exception that is being handled."""
    frames = traceback.extract_tb(error.__traceback__)
    where = f" ({frames[-1].filename.rpartition('/')[2]}:{frames[-1].lineno})" if frames else ""
    return PolicyFault(policy, sentence, f"{type(error).__name__}: {error}"[:200] + where)


class Guarded:
    """A rater by `begin`, or by `instead` after an exception of the first. Raises what the second raises."""

    def __init__(self, name: str, begin: Callable[[], Rater], in_use: str, instead: Callable[[], Rater]) -> None:
        self.fault: PolicyFault | None = None
        self._name = name
        self._in_use = in_use
        self._instead = instead
        try:
            self._use(begin())
        except Exception as error:  # noqa: BLE001 - whatever a policy raises must not stop placing
            self._replace(error)

    def restart(self, generation: int) -> None:
        self._ask(lambda rater: rater.restart(generation))

    @property
    def epoch(self) -> int:
        epoch = self._ask(lambda rater: rater.epoch)
        return _REPLACED if self.fault is not None else epoch

    def rate(self, fit: Fit, nodes: Ints) -> Ints:
        """After an exception one decision may compare scores of two rules; every node asked about takes the shape."""
        return self._ask(lambda rater: rater.rate(fit, nodes))

    def mender(self, fit: Fit, scores: Scores) -> Mender | None:
        """The policy's own until its first exception; what goes on in its stead is asked by `rate`."""
        mender = self._ask(lambda rater: rater.mender(fit, scores))
        if mender is None:
            return None

        def mend(nodes: Listed) -> bool:
            try:
                return self.fault is None and mender(nodes)
            except Exception as error:  # noqa: BLE001 - whatever a policy raises must not stop placing
                self._replace(error)
                return False

        return mend

    def settle(self, scores: Ints) -> Ints:
        return self._ask(lambda rater: rater.settle(scores))

    def choose(self, fit: Fit, node: int) -> Ints:
        return self._ask(lambda rater: rater.choose(fit, node))

    def follows(self, shape: Shape) -> bool:
        return self._ask(lambda rater: rater.follows(shape))

    def took(self, shape: Shape, node: int) -> None:
        self._ask(lambda rater: rater.took(shape, node))

    def gave(self, shape: Shape, node: int) -> None:
        self._ask(lambda rater: rater.gave(shape, node))

    def _ask(self, ask: Callable[[Rater], T]) -> T:
        try:
            return ask(self._rater)
        except Exception as error:
            if self.fault is not None:
                raise
            self._replace(error)
            return ask(self._rater)

    def _use(self, rater: Rater) -> None:
        self._rater = rater
        self.SCALED, self.NODE, self.CARD = rater.SCALED, rater.NODE, rater.CARD

    def _replace(self, error: Exception) -> None:
        sentence = f"placement policy {self._name} failed; {self._in_use} places in its stead"
        self.fault = fault_of(self._name, sentence, error)
        self._use(self._instead())


class GuardedCuts(Guarded):
    """The same of the rule that cuts cards into partitions; in its stead it expects nothing."""

    def __init__(self, free: Free, expected: Expected) -> None:
        alike = "the rule that counts all profiles alike"
        super().__init__(PARTITIONS, lambda: Cuts(free, expected), alike, lambda: Cuts(free, Expected()))

    def places(self, profile: str, rows: Ints) -> tuple[Place, ...]:
        """Which piece of each of these cards to take; each of them has one."""
        return self._ask(lambda cuts: cast(Cuts, cuts).places(profile, rows))


def guarded(policy: str, free: Free, expected: Expected, seed: int) -> Guarded:
    """The policy of that name at work, with binpack in its stead after an exception. Raises UnknownPolicy."""
    known = policies.named(policy)
    return Guarded(policy, lambda: known.start(free, expected, seed), BINPACK, lambda: Binpack(free))
