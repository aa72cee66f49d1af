"""What pods and gangs were told of their starts, kept in the status of the `PoolSettings` for the next leader.

One object holds the words that nothing came of yet and how often words came true, and is written as a whole: each word
counts once, whenever a controller dies. A claim starts when its cards stand in a ledger. Of a start that a dead
controller did not count, the ledger tells the instant. Asks nothing and writes nothing: `SettingsStatus` does.
See docs/decisions/0029-promised-starts.md.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping
from typing import Any

from gpupool.kubernetes import gangs
from gpupool.kubernetes.pool import Pool
from gpupool.kubernetes.schemas import MOST_WORDS
from gpupool.scheduling.foretold import ESTIMATE, PROMISE, Foretold, Tally, Told
from gpupool.scheduling.promises import on_cards
from gpupool.scheduling.snapshot import LEEWAY_NS, ClassKey, Plan, Snapshot, Start

Json = Mapping[str, Any]

log = logging.getLogger(__name__)


class ToldStarts:
    """One leader's. `load`, then in each round `settle`, a plan, and `note`."""

    def __init__(self, pool: Pool) -> None:
        self.book = Foretold(leeway_ns=LEEWAY_NS)
        self.loaded = False
        self._pool = pool
        self._kept: dict[str, Start] = {}
        """By claim what is kept for it, of promises that stand."""
        self._last: tuple[tuple[Told, ...], Counter[tuple[str, bool]]] | None = None
        self._json: dict[str, Any] = {}

    def load(self, status: Json, snapshot: Snapshot) -> dict[ClassKey, Start]:
        """Go on from what the leader before wrote; the promises of claims that still wait, on the cards of now."""
        self.loaded = True
        try:
            self.book, starts = _read(status)
        except (AttributeError, KeyError, TypeError, ValueError) as error:  # the API server does not look into it
            log.warning("what was told of starts cannot be read, counting begins anew: %r", error)
            starts = []
        there = {start.claim: on_cards(start, snapshot.cards) for start in starts}
        self._kept = {claim: start for claim, start in there.items() if start is not None}
        keys = dict[str, ClassKey]()
        for one in snapshot.waiting:
            keys.update(dict.fromkeys(one.heads if one.gang is None else (one.gang.id,), one.key))
        return {keys[claim]: start for claim, start in self._kept.items() if claim in keys}

    def settle(self, now_ns: int) -> None:
        """Before a plan: what came of the words of claims that have their cards, and of those that have passed."""
        for claim in self.book.claims():
            began_ns = self._began_ns(claim)
            if began_ns:
                self.book.started(claim, began_ns)
            elif self._is_gone(claim):
                self.book.forget(claim)
        self.book.passed(now_ns, lambda _claim: True)  # who is gone was forgotten above

    def note(self, plan: Plan, now_ns: int) -> None:
        """The plan is the last one from now on."""
        self.book.plan(plan.starts, now_ns)
        firm = {start.claim: start for start in plan.starts.values() if start.firm}
        self._kept = {claim: start for claim, start in (self._kept | firm).items() if self.book.stands(claim)}

    def to_json(self) -> dict[str, Any]:
        """What the status says; the same object until something changes."""
        words = tuple(sorted(self.book.open_words(), key=lambda told: (told.sort != PROMISE, told.at_ns, told.claim)))
        counted = Counter({(sort, True): one.kept for sort, one in self.book.tallies.items()})
        counted.update({(sort, False): one.missed for sort, one in self.book.tallies.items()})
        if self._last == (words, counted):
            return self._json
        self._last = words, counted
        (kept, broken), (came, missed) = self.book.total(PROMISE), self.book.total(ESTIMATE)
        tenths = sorted({tenth for tenth, _ in self.book.tenths})
        self._json = {
            "promisesKept": kept,
            "promisesBroken": broken,
            "estimatesTrue": came,
            "estimatesFalse": missed,
            "sorts": {sort: [one.kept, one.missed] for sort, one in sorted(self.book.tallies.items())},
            "tenths": {str(n): [self.book.tenths[n, True], self.book.tenths[n, False]] for n in tenths},
            "open": [self._word(told) for told in words[:MOST_WORDS]],
        }
        return self._json

    # --- parts ----------------------------------------------------------------------------

    def _word(self, told: Told) -> dict[str, Any]:
        word = {"claim": told.claim, "at": told.at_ns, "sort": told.sort}
        if told.chance_pct is not None:
            word["chance"] = told.chance_pct
        kept = self._kept.get(told.claim) if told.sort == PROMISE else None
        return word if kept is None else {**word, "kept": _seats_of(kept)}

    def _began_ns(self, claim: str) -> int:
        """When it got its cards, by the ledger's clock; 0: it has none."""
        pool = self._pool
        members = pool.members.present(claim).entered.values() if claim in pool.members else ()
        entries = [entry for found in members for entry in found]
        entries += pool.entries_of(_uid(claim))
        return min((entry.held_ns for entry in entries if entry.held_ns), default=0)

    def _is_gone(self, claim: str) -> bool:
        """Neither waits nor is held up: nothing comes of what it was told."""
        pool, uid = self._pool, _uid(claim)
        return (
            not pool.waits(claim) and uid not in pool.pods and not any(pod.gang == claim for pod in pool.pods.values())
        )


def _uid(claim: str) -> str:
    """Of a pod's container, or of a pod whose containers start together; a gang of pods has none."""
    return gangs.parts_of(claim)[0] or claim


def _read(status: Json) -> tuple[Foretold, list[Start]]:
    """What was told and counted, and what is kept for promises that stood."""
    counts = {sort: Tally.of(*both) for sort, both in (status.get("sorts") or {}).items()}
    tenths = Counter[tuple[int, bool]]()
    for tenth, (came, missed) in (status.get("tenths") or {}).items():
        tenths += Counter({(int(tenth), True): came, (int(tenth), False): missed})
    book = Foretold(counts, LEEWAY_NS, tenths)
    words = list(status.get("open") or ())
    book.remember(_told(one) for one in words)
    return book, [_start(one["claim"], one["kept"]) for one in words if one.get("kept")]


def _told(one: Json) -> Told:
    return Told(int(one["at"]), str(one["claim"]), str(one["sort"]), one.get("chance"))


def _start(claim: str, kept: Json) -> Start:
    columns = {name: tuple(kept.get(name) or ()) for name in ("rows", "milli", "sizes", "devices")}
    hosts = tuple((str(node), int(cpu), int(size)) for node, cpu, size in kept.get("hosts") or ())
    return Start(at_ns=int(kept["at_ns"]), reserved=True, claim=claim, firm=True, hosts=hosts, **columns)


def _seats_of(kept: Start) -> dict[str, Any]:
    """What `_start` reads; lists, as JSON has them, so that what is read back is equal."""
    found: dict[str, Any] = {"at_ns": kept.at_ns}
    found |= {name: list(getattr(kept, name)) for name in ("rows", "milli", "sizes", "devices")}
    return {**found, "hosts": [list(one) for one in kept.hosts]} if kept.hosts else found
