"""Records of start forecasts and how often they came true: promises, estimates and chances.

A claim is told a start when cards are kept for it (`Plan.starts`). Of promises the first forecast
counts: it is kept where the claim starts by then. Of estimates the first forecast of each sort
counts; how often a sort came true is the chance shown with the next one. Sorts differ by how far
off the start is and by what may come before it. Old forecasts fade. A claim that ends without a
start proves nothing.

Pure: hosts keep one of these beside the plans and store what it counts.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from gpupool.base.units import NANOS_PER_SECOND
from gpupool.scheduling.snapshot.claims import ClassKey
from gpupool.scheduling.snapshot.plan import PlannedStart

#: The sort of promises; every other sort is of estimates. Stored by hosts, so it never changes.
PROMISE = "promise"
ESTIMATE = "estimate"
HOUR_NS = 3600 * NANOS_PER_SECOND
#: With fewer settled forecasts of a sort, all estimates together give the chance, or nothing does.
ENOUGH = 20
#: From so many on, a sort halves its past: the demand on the pool changes over time.
FADES = 400


class StartForecast(NamedTuple):
    """One claim's start, as it was told."""

    at_ns: int
    claim: str
    sort: str
    #: The chance that was shown; None: nothing was known, or it is a promise.
    chance_pct: int | None


@dataclass(frozen=True)
class ForecastSummary:
    """Forecasts by result; open ones are in neither count."""

    kept: int = 0
    broken: int = 0
    #: Mean difference between the chances shown and what came true
    #: (`compute_calibration_error_pct`).
    off_pct: float | None = None


class ForecastOutcome(NamedTuple):
    """A settled forecast: whether it came true."""

    told: StartForecast
    kept: bool


@dataclass
class ForecastTally:
    """Counts of one sort: all settled forecasts, and the recent ones that give the chance."""

    kept: int = 0
    missed: int = 0
    recent_kept: int = 0
    recent_missed: int = 0

    @classmethod
    def from_totals(cls, kept: int, missed: int) -> ForecastTally:
        """Make a tally of stored totals, with as much of the past as counts."""
        part = min(1.0, FADES / max(1, kept + missed))
        return cls(kept, missed, round(kept * part), round(missed * part))

    def add(self, *, kept: bool) -> None:
        """Count one settled forecast."""
        self.kept += kept
        self.missed += not kept
        if self.recent_kept + self.recent_missed >= FADES:
            # An exponential memory without a clock: the demand on a pool that stands still does not
            # change.
            self.recent_kept //= 2
            self.recent_missed //= 2
        self.recent_kept += kept
        self.recent_missed += not kept


class StartForecasts:
    """The forecasts of all claims.

    `leeway_ns`: how much later than told still counts as kept, where reports of ends take a while.
    """

    def __init__(
        self,
        tallies: Mapping[str, ForecastTally] | None = None,
        leeway_ns: int = 0,
        tenths: Mapping[tuple[int, bool], int] | None = None,
    ) -> None:
        self.tallies = dict(tallies or {})
        #: Settled estimates by tenth of their chance (7: 70 to 79 of 100) and whether they came
        #: true.
        self.tenths = Counter(tenths or {})
        self._leeway = leeway_ns
        self._open: dict[str, dict[str, StartForecast]] = {}
        self._due: list[tuple[int, str, str]] = []

    # --- what is told, and what comes of it -----------------------------------------------

    def record_plan(
        self, starts: Mapping[ClassKey, PlannedStart], now_ns: int
    ) -> list[StartForecast]:
        """Record the starts of a plan; return those that are told for the first time."""
        told = list[StartForecast]()
        for key, start in starts.items():
            forecast = self._record_forecast(key, start, now_ns) if start.claim else None
            if forecast is not None:
                told.append(forecast)
        return told

    def record_start(self, claim: str, now_ns: int) -> list[ForecastOutcome]:
        """Settle the forecasts of a job, or of a gang's first member, that starts."""
        ended = self.preview_outcomes(claim, now_ns)
        self._open.pop(claim, None)
        for one in ended:
            self._count_outcome(one)
        return ended

    def preview_outcomes(self, claim: str, now_ns: int) -> list[ForecastOutcome]:
        """Return the outcomes of the claim's forecasts if it starts now."""
        outcomes = list[ForecastOutcome]()
        for one in self._open.get(claim, {}).values():
            outcomes.append(ForecastOutcome(one, now_ns <= one.at_ns + self._leeway))
        return outcomes

    def settle_passed(self, now_ns: int, waits: Callable[[str], bool]) -> list[ForecastOutcome]:
        """Settle forecasts that have not come true by now; those of claims that no longer wait are
        dropped.
        """
        ended = list[ForecastOutcome]()
        while self._due and self._due[0][0] + self._leeway < now_ns:
            told = self._take_due(*heapq.heappop(self._due))
            if told is not None and waits(told.claim):
                ended.append(ForecastOutcome(told, kept=False))
                self._count_outcome(ended[-1])
        return ended

    def restore_forecasts(self, told: Iterable[StartForecast]) -> None:
        """Restore forecasts told before a restart."""
        for one in told:
            self._store(one)

    def remove_claim(self, claim: str) -> None:
        """Remove a claim that ended without a start."""
        self._open.pop(claim, None)

    # --- answers --------------------------------------------------------------------------

    def get_chance_pct(self, key: ClassKey, start: PlannedStart, now_ns: int) -> int | None:
        """Return how likely such an estimate comes true; None for promises, and where too little is
        known.
        """
        return self._compute_chance(classify_start(key, start, now_ns))

    def list_claims(self) -> list[str]:
        """Return the claims with open forecasts."""
        return list(self._open)

    def list_open(self) -> list[StartForecast]:
        """Return the open forecasts."""
        return [told for words in self._open.values() for told in words.values()]

    def has_open_promise(self, claim: str) -> bool:
        """Whether the claim was promised a start that has not come yet."""
        return self.has_open(claim, PROMISE)

    def has_open(self, claim: str, sort: str) -> bool:
        """Whether the claim has an open forecast of that sort."""
        return sort in self._open.get(claim, {})

    def count_outcomes(self, kind: str) -> tuple[int, int]:
        """Return how many promises, or estimates, were kept, and how many were not."""
        kept = 0
        missed = 0
        for sort, tally in self.tallies.items():
            if (sort == PROMISE) == (kind == PROMISE):
                kept += tally.kept
                missed += tally.missed
        return kept, missed

    def _compute_chance(self, sort: str) -> int | None:
        if sort == PROMISE:
            return None
        own = self.tallies.get(sort, ForecastTally())
        if (pct := _compute_percent([own])) is not None:
            return pct
        return _compute_percent(
            [tally for other, tally in self.tallies.items() if other != PROMISE]
        )

    # --- parts ----------------------------------------------------------------------------

    def _record_forecast(
        self, key: ClassKey, start: PlannedStart, now_ns: int
    ) -> StartForecast | None:
        sort = classify_start(key, start, now_ns)
        if start.at_ns <= now_ns or sort in self._open.get(start.claim, {}):
            return None
        told = StartForecast(start.at_ns, start.claim, sort, self._compute_chance(sort))
        self._store(told)
        return told

    def _take_due(self, at_ns: int, claim: str, sort: str) -> StartForecast | None:
        """The due forecast, if it is still open; a claim that started and waits again has a later
        one.
        """
        words = self._open.get(claim, {})
        told = words.get(sort)
        # The heap keeps entries of forecasts that were settled or told anew; they are dropped here.
        if told is None or told.at_ns != at_ns:
            return None
        del words[sort]
        if not words:
            del self._open[claim]
        return told

    def _store(self, told: StartForecast) -> None:
        self._open.setdefault(told.claim, {})[told.sort] = told
        heapq.heappush(self._due, (told.at_ns, told.claim, told.sort))

    def _count_outcome(self, one: ForecastOutcome) -> None:
        self.tallies.setdefault(one.told.sort, ForecastTally()).add(kept=one.kept)
        if one.told.chance_pct is not None:
            self.tenths[find_tenth(one.told.chance_pct), one.kept] += 1


def classify_start(key: ClassKey, start: PlannedStart, now_ns: int) -> str:
    """Return the sort of a start.

    `promise`, or of an estimate how it was made, the rank of the claim, and how far off it is.
    """
    if start.firm:
        return PROMISE
    made = "head" if start.reserved else "behind"
    rank = "preemptible" if key.preemptible else "high" if key.priority > 0 else "normal"
    hours = max(0, start.at_ns - now_ns) // HOUR_NS
    far = next(
        (name for most, name in ((1, "hour"), (4, "hours"), (16, "half-day")) if hours < most),
        "days",
    )
    return f"{made} {rank} {far}"


def _compute_percent(tallies: Iterable[ForecastTally]) -> int | None:
    kept = 0
    missed = 0
    for one in tallies:
        kept += one.recent_kept
        missed += one.recent_missed
    return round(100 * kept / (kept + missed)) if kept + missed >= ENOUGH else None


def find_tenth(chance_pct: int) -> int:
    """Return the tenth of a chance, 0 to 9; 100 % counts with 90 to 99."""
    return min(chance_pct, 99) // 10


def group_by_tenth(ended: Iterable[ForecastOutcome]) -> dict[int, list[tuple[int, bool]]]:
    """Return by tenth of the chance, in order, each chance told and whether it came true."""
    tenths: dict[int, list[tuple[int, bool]]] = {}
    for told, kept in ended:
        if told.chance_pct is not None:
            tenths.setdefault(find_tenth(told.chance_pct), []).append((told.chance_pct, kept))
    return dict(sorted(tenths.items()))


def compute_calibration_error_pct(ended: Iterable[ForecastOutcome]) -> float | None:
    """Compute how far the told chances are from what came true.

    The mean over tenths of the chances, by their sizes; None where no chance was told.
    """
    tenths = group_by_tenth(ended)
    number = sum(map(len, tenths.values()))
    if not number:
        return None
    off = 0
    for each in tenths.values():
        # Per tenth, so that chances that are too high do not make up for others that are too low.
        off += abs(sum(chance - 100 * kept for chance, kept in each))
    return round(off / number, 3)
