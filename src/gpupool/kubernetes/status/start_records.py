"""Keeps the start times that pods and gangs were told, in `PoolSettings.status`, for the next
leader.

The object holds open forecasts and how many came true. It is written as a whole, so each forecast
counts once, whenever a controller dies. A claim starts when its cards are in a ledger; the ledger's
clock tells when, also for starts that a dead controller did not count. Sends no requests:
`SettingsStatus` does. See docs/decisions/0029-promised-starts.md.
"""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from gpupool.base.units import KIB
from gpupool.kubernetes.cache.cluster import ClusterCache
from gpupool.kubernetes.manifests.crds import MOST_WORDS
from gpupool.kubernetes.resources import gang
from gpupool.scheduling import (
    ESTIMATE,
    LEEWAY_NS,
    PROMISE,
    ClassKey,
    ForecastTally,
    Plan,
    PlannedStart,
    Snapshot,
    StartForecast,
    StartForecasts,
    renumber_start,
)

Json = Mapping[str, Any]

#: Bytes of all open forecasts as JSON. etcd refuses objects over 1.5 MiB, and the same object has
#: the limits of the tenants (`admission_limits.MOST_LIMIT_BYTES`).
MOST_OPEN_BYTES = 512 * KIB

log = logging.getLogger(__name__)


class StartRecords:
    """Records of one leader. Call `load` once, then for each plan `settle_promises` and
    `note_plan`."""

    def __init__(self, cluster: ClusterCache) -> None:
        self.book = StartForecasts(leeway_ns=LEEWAY_NS)
        self.loaded = False
        self._cluster = cluster
        #: By claim what is kept for it, of promises that stand.
        self._kept: dict[str, PlannedStart] = {}
        self._last: tuple[tuple[StartForecast, ...], Counter[tuple[str, bool]]] | None = None
        self._json: dict[str, Any] = {}

    def load(self, status: Json, snapshot: Snapshot) -> dict[ClassKey, PlannedStart]:
        """Continue from what the previous leader wrote.

        Returns:
            Promised starts of claims that still wait, with positions in the snapshot's list of
            cards.
        """
        self.loaded = True
        try:
            self.book, starts = _read(status)
        except (
            AttributeError,
            KeyError,
            TypeError,
            ValueError,
        ) as error:  # the API server does not look into it
            log.warning("what was told of starts cannot be read, counting begins anew: %r", error)
            starts = []
        there = {start.claim: renumber_start(start, snapshot.cards) for start in starts}
        kept = {}
        for claim, start in there.items():
            if start is not None:
                kept[claim] = start
        self._kept = kept
        keys = dict[str, ClassKey]()
        for one in snapshot.waiting:
            keys.update(dict.fromkeys(one.job_ids if one.gang is None else (one.gang.id,), one.key))
        promised = {}
        for claim, start in self._kept.items():
            if claim in keys:
                promised[keys[claim]] = start
        return promised

    def settle_promises(self, now_ns: int) -> None:
        """Count forecasts of claims that have started, and of those whose time has passed."""
        for claim in self.book.list_claims():
            began_ns = self._began_ns(claim)
            if began_ns:
                self.book.record_start(claim, began_ns)
            elif self._is_gone(claim):
                self.book.remove_claim(claim)
        self.book.settle_passed(now_ns, lambda _claim: True)  # who is gone was forgotten above

    def note_plan(self, plan: Plan, now_ns: int) -> None:
        """Record the forecasts of the plan."""
        self.book.record_plan(plan.starts, now_ns)
        firm = {}
        for start in plan.starts.values():
            if start.firm:
                firm[start.claim] = start
        kept = {}
        for claim, start in (self._kept | firm).items():
            if self.book.has_open_promise(claim):
                kept[claim] = start
        self._kept = kept

    def to_json(self) -> dict[str, Any]:
        """The records for the status; the same object until something changes."""
        words = tuple(
            sorted(
                self.book.list_open(),
                key=lambda told: (told.sort != PROMISE, told.at_ns, told.claim),
            )
        )
        counted = Counter({(sort, True): one.kept for sort, one in self.book.tallies.items()})
        counted.update({(sort, False): one.missed for sort, one in self.book.tallies.items()})
        if self._last == (words, counted):
            return self._json
        self._last = words, counted
        (kept, broken) = self.book.count_outcomes(PROMISE)
        (came, missed) = self.book.count_outcomes(ESTIMATE)
        tenths = sorted({tenth for tenth, _ in self.book.tenths})
        sorts = {}
        for sort, one in sorted(self.book.tallies.items()):
            sorts[sort] = [one.kept, one.missed]
        open_, without_cards = self._write_open(words[:MOST_WORDS])
        self._json = {
            "promisesKept": kept,
            "promisesBroken": broken,
            "estimatesTrue": came,
            "estimatesFalse": missed,
            "sorts": sorts,
            "tenths": {
                str(n): [self.book.tenths[n, True], self.book.tenths[n, False]] for n in tenths
            },
            "open": open_,
            "leftOut": len(words) - len(open_),
            "withoutCards": without_cards,
        }
        return self._json

    # --- parts ----------------------------------------------------------------------------

    def _write_open(self, words: Sequence[StartForecast]) -> tuple[list[dict[str, Any]], int]:
        """The forecasts, and of how many promises the cards did not fit into `MOST_OPEN_BYTES`."""
        found = [_word(told) for told in words]
        left = MOST_OPEN_BYTES - _measure(found)
        without_cards = 0
        for told, word in zip(words, found, strict=True):
            kept = self._kept.get(told.claim) if told.sort == PROMISE else None
            if kept is None:
                continue
            # A gang of thousands of cards may need more than all others together: the promises
            # behind it are smaller, and are written.
            seats = {"kept": _seats_of(kept)}
            size = _measure(seats)
            if size > left:
                without_cards += 1
                continue
            left -= size
            word.update(seats)
        return found, without_cards

    def _began_ns(self, claim: str) -> int:
        """When it got its cards, by the ledger's clock; 0: it has none."""
        cluster = self._cluster
        members = (
            cluster.members.present_members(claim).entered.values()
            if claim in cluster.members
            else ()
        )
        present = []
        for found in members:
            for entry in found:
                present.append(entry)
        entries = present
        entries += cluster.entries_of(_uid(claim))
        return min((entry.held_ns for entry in entries if entry.held_ns), default=0)

    def _is_gone(self, claim: str) -> bool:
        """Neither waits nor is held up: nothing comes of what it was told."""
        cluster = self._cluster
        uid = _uid(claim)
        return (
            not cluster.is_waiting(claim)
            and uid not in cluster.pods
            and not any(pod.gang == claim for pod in cluster.pods.values())
        )


def _word(told: StartForecast) -> dict[str, Any]:
    word: dict[str, Any] = {"claim": told.claim, "at": told.at_ns, "sort": told.sort}
    if told.chance_pct is not None:
        word["chance"] = told.chance_pct
    return word


def _measure(found: Any) -> int:
    """Bytes that the API server stores of it, with a comma behind."""
    return len(json.dumps(found, separators=(",", ":")).encode()) + 1


def _uid(claim: str) -> str:
    """Of a pod's container, or of a pod whose containers start together; a gang of pods has
    none."""
    return gang.split_job_name(claim)[0] or claim


def _read(status: Json) -> tuple[StartForecasts, list[PlannedStart]]:
    """What was told and counted, and what is kept for promises that stood."""
    counts = {}
    for sort, both in (status.get("sorts") or {}).items():
        counts[sort] = ForecastTally.from_totals(*both)
    tenths = Counter[tuple[int, bool]]()
    for tenth, (came, missed) in (status.get("tenths") or {}).items():
        tenths += Counter({(int(tenth), True): came, (int(tenth), False): missed})
    book = StartForecasts(counts, LEEWAY_NS, tenths)
    words = list(status.get("open") or ())
    book.restore_forecasts(_read_forecast(one) for one in words)
    starts = []
    for one in words:
        if one.get("kept"):
            starts.append(_start(one["claim"], one["kept"]))
    return book, starts


def _read_forecast(one: Json) -> StartForecast:
    return StartForecast(int(one["at"]), str(one["claim"]), str(one["sort"]), one.get("chance"))


def _start(claim: str, kept: Json) -> PlannedStart:
    columns = {name: tuple(kept.get(name) or ()) for name in ("rows", "milli", "sizes", "devices")}
    hosts = tuple((str(node), int(cpu), int(size)) for node, cpu, size in kept.get("hosts") or ())
    return PlannedStart(
        at_ns=int(kept["at_ns"]), reserved=True, claim=claim, firm=True, hosts=hosts, **columns
    )


def _seats_of(kept: PlannedStart) -> dict[str, Any]:
    """What `_start` reads; lists, as JSON has them, so that what is read back is equal."""
    found: dict[str, Any] = {"at_ns": kept.at_ns}
    found |= {name: list(getattr(kept, name)) for name in ("rows", "milli", "sizes", "devices")}
    return {**found, "hosts": [list(one) for one in kept.hosts]} if kept.hosts else found
