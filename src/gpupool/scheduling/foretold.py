"""What claims were told of their starts, and how often that came true: promises kept and broken, estimates and chances.

A claim is told a start when cards are kept for it (`Plan.starts`). Of a promise the first word counts: it is kept where
the claim starts by then. Of estimates the first word of each sort counts; how often such words came true is the chance
that the next one is told with. Sorts are by how far off the start is and by what may come before it. What was told long
ago fades. A claim that ends without a start proves nothing.

Pure: hosts keep one of these beside the plans, and write down what it counts.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from gpupool.scheduling.ends import SECOND
from gpupool.scheduling.snapshot import ClassKey, Start

PROMISE = "promise"
ESTIMATE = "estimate"
HOUR_NS = 3600 * SECOND
ENOUGH = 20
"""With fewer words of a sort that came to an end, those of all estimates together tell the chance, or nothing does."""
FADES = 400
"""From so many on, a sort counts its past half: what comes of starts changes with what is asked of the pool."""


class Told(NamedTuple):
    """One claim's start, as it was told."""

    at_ns: int
    claim: str
    sort: str
    chance_pct: int | None
    """How likely it was said to come true; None: nothing was known, or it is a promise."""


@dataclass(frozen=True)
class Words:
    """Starts that were told, by what came of them; those that nothing came of yet are in neither."""

    kept: int = 0
    broken: int = 0
    off_pct: float | None = None
    """By how much the chances that were told with them differ from what came true (`off_pct`)."""


class Ended(NamedTuple):
    """What came of it."""

    told: Told
    kept: bool


@dataclass
class Tally:
    """Of one sort: all that ended, and what of it counts still."""

    kept: int = 0
    missed: int = 0
    recent_kept: int = 0
    recent_missed: int = 0

    @classmethod
    def of(cls, kept: int, missed: int) -> Tally:
        """Of totals that were written down: with as much of the past as counts."""
        part = min(1.0, FADES / max(1, kept + missed))
        return cls(kept, missed, round(kept * part), round(missed * part))

    def add(self, *, kept: bool) -> None:
        self.kept += kept
        self.missed += not kept
        if self.recent_kept + self.recent_missed >= FADES:
            self.recent_kept //= 2
            self.recent_missed //= 2
        self.recent_kept += kept
        self.recent_missed += not kept


class Foretold:
    """`leeway_ns`: how much later than told still counts as kept, where ends take a while to be heard of."""

    def __init__(
        self,
        tallies: Mapping[str, Tally] | None = None,
        leeway_ns: int = 0,
        tenths: Mapping[tuple[int, bool], int] | None = None,
    ) -> None:
        self.tallies = dict(tallies or {})
        self.tenths = Counter(tenths or {})
        """Estimates that were told with a chance, by its tenth (7: 70 to 79 of 100) and whether they came true."""
        self._leeway = leeway_ns
        self._open: dict[str, dict[str, Told]] = {}
        self._due: list[tuple[int, str, str]] = []

    # --- what is told, and what comes of it -----------------------------------------------

    def plan(self, starts: Mapping[ClassKey, Start], now_ns: int) -> list[Told]:
        """Note the starts of a plan; what of it is told for the first time."""
        told = [self._tell(key, start, now_ns) for key, start in starts.items() if start.claim]
        return [one for one in told if one is not None]

    def started(self, claim: str, now_ns: int) -> list[Ended]:
        """The job, or the first member of the gang, starts."""
        ended = self.words_of(claim, now_ns)
        self._open.pop(claim, None)
        for one in ended:
            self._count(one)
        return ended

    def words_of(self, claim: str, now_ns: int) -> list[Ended]:
        """What will have come of all that the claim was told if it starts now."""
        return [Ended(one, now_ns <= one.at_ns + self._leeway) for one in self._open.get(claim, {}).values()]

    def passed(self, now_ns: int, waits: Callable[[str], bool]) -> list[Ended]:
        """What has not come true by now; `waits` tells whether a claim waits at all, else nothing comes of it."""
        ended = list[Ended]()
        while self._due and self._due[0][0] + self._leeway < now_ns:
            told = self._take_due(*heapq.heappop(self._due))
            if told is not None and waits(told.claim):
                ended.append(Ended(told, kept=False))
                self._count(ended[-1])
        return ended

    def remember(self, told: Iterable[Told]) -> None:
        """What was told before a restart."""
        for one in told:
            self._note(one)

    def forget(self, claim: str) -> None:
        """The claim ended without a start: nothing comes of what it was told."""
        self._open.pop(claim, None)

    # --- answers --------------------------------------------------------------------------

    def chance_pct(self, key: ClassKey, start: Start, now_ns: int) -> int | None:
        """How likely such an estimate comes true; None where too little is known, and for promises."""
        return self._chance(sort_of(key, start, now_ns))

    def claims(self) -> list[str]:
        """Those that were told something that nothing came of yet."""
        return list(self._open)

    def open_words(self) -> list[Told]:
        """What nothing came of yet."""
        return [told for words in self._open.values() for told in words.values()]

    def stands(self, claim: str) -> bool:
        """Whether the claim was promised a start that has not come yet."""
        return self.is_open(claim, PROMISE)

    def is_open(self, claim: str, sort: str) -> bool:
        """Whether the claim was told a start of that sort that nothing came of yet."""
        return sort in self._open.get(claim, {})

    def total(self, kind: str) -> tuple[int, int]:
        """How many promises, or estimates, were kept, and how many were not."""
        mine = [tally for sort, tally in self.tallies.items() if (sort == PROMISE) == (kind == PROMISE)]
        return sum(one.kept for one in mine), sum(one.missed for one in mine)

    def _chance(self, sort: str) -> int | None:
        if sort == PROMISE:
            return None
        own = self.tallies.get(sort, Tally())
        if (pct := _percent([own])) is not None:
            return pct
        return _percent([tally for other, tally in self.tallies.items() if other != PROMISE])

    # --- parts ----------------------------------------------------------------------------

    def _tell(self, key: ClassKey, start: Start, now_ns: int) -> Told | None:
        sort = sort_of(key, start, now_ns)
        if start.at_ns <= now_ns or sort in self._open.get(start.claim, {}):
            return None
        told = Told(start.at_ns, start.claim, sort, self._chance(sort))
        self._note(told)
        return told

    def _take_due(self, at_ns: int, claim: str, sort: str) -> Told | None:
        """The word that is due, if nothing came of it yet; a claim that started and waits again has a later one."""
        words = self._open.get(claim, {})
        told = words.get(sort)
        if told is None or told.at_ns != at_ns:
            return None
        del words[sort]
        if not words:
            del self._open[claim]
        return told

    def _note(self, told: Told) -> None:
        self._open.setdefault(told.claim, {})[told.sort] = told
        heapq.heappush(self._due, (told.at_ns, told.claim, told.sort))

    def _count(self, one: Ended) -> None:
        self.tallies.setdefault(one.told.sort, Tally()).add(kept=one.kept)
        if one.told.chance_pct is not None:
            self.tenths[tenth_of(one.told.chance_pct), one.kept] += 1


def sort_of(key: ClassKey, start: Start, now_ns: int) -> str:
    """`promise`, or of an estimate how it was made, who goes before such a claim, and how far off it is."""
    if start.firm:
        return PROMISE
    made = "head" if start.reserved else "behind"
    rank = "preemptible" if key.preemptible else "high" if key.priority > 0 else "normal"
    hours = max(0, start.at_ns - now_ns) // HOUR_NS
    far = next((name for most, name in ((1, "hour"), (4, "hours"), (16, "half-day")) if hours < most), "days")
    return f"{made} {rank} {far}"


def _percent(tallies: Iterable[Tally]) -> int | None:
    known = list(tallies)
    kept, missed = sum(one.recent_kept for one in known), sum(one.recent_missed for one in known)
    return round(100 * kept / (kept + missed)) if kept + missed >= ENOUGH else None


def tenth_of(chance_pct: int) -> int:
    """0 to 9; what is sure counts with what is nearly so."""
    return min(chance_pct, 99) // 10


def by_tenth(ended: Iterable[Ended]) -> dict[int, list[tuple[int, bool]]]:
    """By tenth of the chance, in order, each chance that was told and whether it came true."""
    tenths: dict[int, list[tuple[int, bool]]] = {}
    for told, kept in ended:
        if told.chance_pct is not None:
            tenths.setdefault(tenth_of(told.chance_pct), []).append((told.chance_pct, kept))
    return dict(sorted(tenths.items()))


def off_pct(ended: Iterable[Ended]) -> float | None:
    """How far the chances that were told are from what came true: the mean over tenths of the chances, by their sizes.

    None where no chance was told.
    """
    tenths = by_tenth(ended)
    number = sum(map(len, tenths.values()))
    if not number:
        return None
    off = (abs(sum(chance - 100 * kept for chance, kept in each)) for each in tenths.values())
    return round(sum(off) / number, 3)
