"""The promises of a share, each tried with real jobs and judged by what they got.

Time is the jobs' own CLOCK_MONOTONIC, which is one clock for all of a machine; requests are timed by it as well
where the pool is on this machine. Rates are parts of a card's time.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from gpupool.base.errors import Unavailable
from gpupool.base.fairness import jain
from gpupool.base.units import MIB, format_mib
from gpupool.verification.bench import Bench, Task
from gpupool.verification.findings import Bar, Finding, Findings, Line, Mark, Timeline
from gpupool.verification.statistics import (
    Estimate,
    Stretch,
    estimate,
    mean_rate,
    overlap,
    reached,
    windows,
)

S: Final = 10**9
MS: Final = 10**6
FAIRNESS: Final = 0.98
CHANGE_NS: Final = 200 * MS
SETTLE_NS: Final = 300 * MS
"""What the beginning of a load needs to find its step; not counted."""
SHARES: Final = (100, 300, 600)
TOUCHED: Final = 256 * MIB
ILLEGAL_ADDRESS: Final = 700
STEPS: Final[Mapping[str, str]] = {
    "memory": "limits, and who is refused",
    "fixed": "three shares beside each other",
    "mixed": "graphs beside long kernels",
    "burst": "what is idle is lent and given back",
    "neighbours": "busy, crashing, killed",
    "resize": "both ways, of a running job",
}
"""What there is to do, in order, with words for who waits."""


@dataclass(frozen=True)
class Scale:
    """How long each step runs, in seconds, and how much doubt it gets.

    `points` is the error that a share may have, in points of a card; `delivered` the least part of what was promised;
    `ratio` the error of the ratio of two.
    """

    quick: bool
    split: float
    mixed: float
    alone: float
    beside: float
    points: float
    delivered: float
    ratio: float
    window_ns: int


FULL = Scale(
    quick=False, split=10.0, mixed=6.0, alone=2.5, beside=2.5, points=1.0, delivered=0.97, ratio=0.05, window_ns=S
)
QUICK = Scale(
    quick=True, split=2.5, mixed=0.0, alone=1.0, beside=1.0, points=3.0, delivered=0.9, ratio=0.1, window_ns=S // 2
)


class Checks:
    """All checks on one card, in order. `memory_bytes` is the card's."""

    def __init__(self, bench: Bench, scale: Scale, memory_bytes: int) -> None:
        self._bench, self._scale, self.found = bench, scale, Findings()
        self._share = memory_bytes // 8 // MIB * MIB
        self._one, self._two = bench.tenants()
        self._tasks: list[Task] = []

    def run(self, only: Sequence[str] = ()) -> Iterator[str]:
        """Do every step, or those named; each one's words before it begins. What cannot be shown is not kept."""
        for name, words in STEPS.items():
            if (only and name not in only) or (name == "mixed" and not self._scale.mixed):
                continue
            yield f"{name}: {words}"
            try:
                getattr(self, f"_{name}")()
            except Unavailable as error:
                self._add(Finding(name, words, "it can be shown", error.message, False))

    def _add(self, *findings: Finding) -> None:
        self.found.findings += findings

    def _submit(self, what: str, *words: str, milli: int, **options: Any) -> Task:
        options = {"memory_bytes": self._share, "tenant": self._one, **options}
        self._tasks.append(self._bench.submit(what, words, gpu_milli=milli, **options))
        return self._tasks[-1]

    def identity(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """What the driver told the first job that it answered, and that job as the pool has it; empty for none."""
        said = ((task.record.first("card"), task) for task in self._tasks)
        return next(((card, task.latest()) for card, task in said if card is not None), ({}, {}))

    # Memory ------------------------------------------------------------------------------------------

    def _memory(self) -> None:
        touched = min(TOUCHED, self._share // 2)
        words = ("--memory", f"{touched // MIB}MiB", "--seconds", "120", "--interval-ms", "100", "--watch-memory")
        near = self._submit("near", *words, milli=200, tenant=self._two)
        near.until(lambda record: record.first("stretch"), "its first stretch")
        over = self._submit("over", "--over-allocate", milli=200)
        over.end()
        refused = over.record.first("refused")
        if refused is None:
            raise over.silent("being refused")
        near.read(0)  # all that it has said by now: what counts is that it goes on after the refusal
        so_far = near.record.series()
        near.loaded_for((so_far[-1].end_ns - so_far[0].begin_ns) / S + 0.5)
        state = near.latest()["state"]
        self._judge_memory(over.card(), refused, near, state)
        self._stop(near)

    def _judge_memory(self, card: dict[str, Any], refused: dict[str, Any], near: Task, state: str) -> None:
        share, granted = self._share, near.job["seats"][0]["uuid"]
        self._add(
            Finding(
                "card-seen",
                "A program sees the card that was granted, by its uuid",
                granted,
                card["uuid"],
                card["uuid"] == granted,
                {"granted": granted, "seen": card["uuid"]},
            ),
            Finding(
                "limit-seen",
                "A program sees its share as the card",
                format_mib(share),
                format_mib(card["total_bytes"]),
                card["total_bytes"] == share,
                {"share_bytes": share, "seen_bytes": card["total_bytes"], "free_bytes": card["free_bytes"]},
            ),
        )
        given, most, least = refused["given_bytes"], share, card["free_bytes"] - 4 * MIB
        self._add(
            Finding(
                "limit-held",
                "More is refused with CUDA_ERROR_OUT_OF_MEMORY, and not before",
                f"{format_mib(least)} to {format_mib(most)}",
                f"{format_mib(given)} were given",
                least <= given <= most,
                {"given_bytes": given, "share_bytes": share, "free_at_start_bytes": card["free_bytes"]},
            )
        )
        totals = {line["total_bytes"] for line in (*near.record.all("memory"), *near.record.all("card"))}
        still = state == "running" and totals == {share}
        self._add(
            Finding(
                "neighbour-memory",
                "A neighbour of another tenant meanwhile has all of its own",
                f"{format_mib(share)}, running",
                f"{', '.join(map(format_mib, sorted(totals)))}, {state}",
                still,
                {"seen_bytes": sorted(totals), "state": state},
            )
        )

    # Compute -----------------------------------------------------------------------------------------

    def _fixed(self) -> None:
        tasks = [
            self._submit(
                f"fixed-{milli}",
                *("--kernel-us", "500", "--seconds", f"{self._scale.split + 1:g}", "--interval-ms", "100"),
                milli=milli,
                tenant=self._two if number else self._one,
            )
            for number, milli in enumerate(SHARES)
        ]
        rates = self._rates("fixed", tasks, [f"fixed {milli / 1000:g}" for milli in SHARES])
        self._judge_fixed(rates)

    def _mixed(self) -> None:
        loads = (("graphs", ("--graph", "20", "--kernel-us", "100")), ("20-ms", ("--long-kernel", "20")))
        seconds = ("--seconds", f"{self._scale.mixed + 1:g}", "--interval-ms", "100")
        tasks = [self._submit(name, *words, *seconds, milli=500) for name, words in loads]
        self._rates("mixed", tasks, [f"{name} 0.5" for name, _ in loads], [500, 500])

    def _rates(
        self, key: str, tasks: list[Task], names: list[str], shares: list[int] | tuple[int, ...] = SHARES
    ) -> list[Estimate]:
        """What each got while all of them ran, one finding for each."""
        for task in tasks:
            task.end()
        series = [task.record.series() for task in tasks]
        begin, end = _overlap(series)
        found = []
        for name, milli, one in zip(names, shares, series, strict=True):
            got = estimate(windows(one, begin, end, self._scale.window_ns))
            found.append(got)
            self.found.bars.append(Bar(name, milli / 1000, got.mean, got.error))
            self._add(self._judge_share(f"{key}-{milli}-{name.split()[0]}", name, milli, got, (end - begin) / S))
        lines = [Line(name, one) for name, one in zip(names, series, strict=True)]
        levels = sorted({milli / 1000 for milli in shares})
        self.found.timelines.append(Timeline(f"{', '.join(names)} on one card", lines, (), levels))
        return found

    def _judge_share(self, key: str, name: str, milli: int, got: Estimate, seconds: float) -> Finding:
        asked, points = milli / 1000, self._scale.points
        wrong = abs(got.mean - asked) * 100
        return Finding(
            key,
            f"{name}: the part of the card it asked for, over {seconds:.0f} s",
            f"{percent(asked, 1)} ± {points:g} points, at least {percent(self._scale.delivered)} of it delivered",
            f"{percent(got.mean, 1)} ± {_points(got)}, {percent(got.mean / asked, 1)} delivered",
            wrong <= points and got.mean >= self._scale.delivered * asked,
            {
                "asked": asked,
                "measured": got.mean,
                "error95": got.error,
                "windows": got.count,
                "delivered": got.mean / asked,
            },
        )

    def _judge_fixed(self, rates: list[Estimate]) -> None:
        parts = [rate.mean / (milli / 1000) for rate, milli in zip(rates, SHARES, strict=True)]
        fair = jain(parts)
        self._add(
            Finding(
                "fairness",
                "Each has the same part of what it asked for (Jain's index)",
                f"at least {FAIRNESS:g}",
                f"{fair:.4f}",
                fair >= FAIRNESS,
                {"jain": fair},
            )
        )
        asked, got = SHARES[2] / SHARES[1], rates[2].mean / max(rates[1].mean, 1e-9)
        two = self._two is not None
        self._add(
            Finding(
                "ratio",
                f"{'Two jobs of one tenant' if two else 'Two jobs'}: the ratio of what they asked for",
                f"{asked:.2f} ± {percent(self._scale.ratio)}",
                f"{got:.3f}",
                abs(got / asked - 1) <= self._scale.ratio,
                {"asked": asked, "measured": got},
            )
        )
        got, asked = rates[1].mean / max(rates[0].mean, 1e-9), SHARES[1] / SHARES[0]
        text = f"{got:.3f}" if two else "not shown: only an admin can make tenants"
        self._add(
            Finding(
                "tenants",
                "Two tenants: the ratio of what they asked for",
                f"{asked:.2f} ± {percent(self._scale.ratio)}",
                text,
                abs(got / asked - 1) <= self._scale.ratio if two else None,
                {"asked": asked, "measured": got},
            )
        )

    def _burst(self) -> None:
        scale = self._scale
        words = ("--kernel-us", "1000", "--interval-ms", "50")
        lender = self._submit("burst", *words, "--seconds", "60", milli=300, sharing="burst")
        lender.loaded_for(scale.alone)
        guest = self._submit("comes", *words, "--seconds", f"{scale.beside:g}", milli=500, tenant=self._two)
        guest.end()
        theirs = guest.record.series()
        since = (theirs[-1].end_ns - lender.record.series()[0].begin_ns) / S if theirs else 0.0
        lender.loaded_for(since + scale.alone)
        self._stop(lender)
        self._judge_burst(lender.record.series(), theirs)

    def _judge_burst(self, mine: list[Stretch], theirs: list[Stretch]) -> None:
        came, went = _overlap([mine, theirs], settle=False)
        alone = mean_rate(mine, mine[0].begin_ns + SETTLE_NS, came - SETTLE_NS)
        after = mean_rate(mine, went + 2 * SETTLE_NS, mine[-1].end_ns)
        beside = mean_rate(mine, came + 2 * SETTLE_NS, went)
        delay = reached(theirs, came, 0.0, 0.5)
        marks = (Mark(came, "a neighbour comes"), Mark(went, "and goes"))
        lines = (Line("burst 0.3", mine), Line("fixed 0.5", theirs))
        self.found.timelines.append(Timeline("What is idle is lent, and given back", lines, marks, (0.5, 1.0)))
        lone = min(alone or 0.0, after or 0.0)
        self._add(
            Finding(
                "burst-alone",
                "A lone burst share of 0.3 has the card, also when a neighbour has gone",
                f"at least {percent(self._scale.delivered)}",
                f"{percent(alone or 0, 1)} before, {percent(after or 0, 1)} after",
                lone >= self._scale.delivered,
                {"before": alone, "after": after},
            ),
            Finding(
                "burst-given-back",
                "It gives back what a fixed neighbour of 0.5 is promised",
                f"within {CHANGE_NS // MS} ms",
                "never" if delay is None else f"after {delay / MS:.0f} ms",
                delay is not None and delay <= CHANGE_NS,
                {"milliseconds": None if delay is None else delay / MS},
            ),
            Finding(
                "burst-guaranteed",
                "It keeps what it is promised itself",
                f"at least {percent(0.3 * self._scale.delivered, 1)}",
                f"{percent(beside or 0, 1)}",
                (beside or 0.0) >= 0.3 * self._scale.delivered,
                {"measured": beside},
            ),
        )

    # Neighbours --------------------------------------------------------------------------------------

    def _neighbours(self) -> None:
        scale = self._scale
        words = ("--kernel-us", "500", "--interval-ms", "100", "--seconds", "120")
        victim = self._submit("quiet", *words, milli=300)
        victim.loaded_for(scale.alone + SETTLE_NS / S)
        heavy = ("--long-kernel", "5", "--streams", "2", "--seconds", f"{scale.beside:g}")
        busy = self._submit("busy", *heavy, milli=500, sharing="burst", tenant=self._two)
        busy.end()
        crash = self._submit("crash", "--seconds", "0.5", "--crash", milli=300, tenant=self._two)
        crashed = crash.end()
        touched = f"{min(TOUCHED, self._share // 2) // MIB}MiB"
        shell = (
            '"$@" --memory ' + touched + ' --seconds 60 & p=$!; sleep 1; kill -9 $p; wait $p; exec "$@" --over-allocate'
        )
        killed = self._submit("killed", milli=300, tenant=self._two, shell=shell)
        killed.end()
        length = (time.monotonic_ns() - victim.record.series()[0].begin_ns) / S if self._bench.api.local else 0.0
        victim.loaded_for(length + 0.5)
        state = victim.latest()["state"]
        self._stop(victim)
        self._judge_neighbours(victim, busy, crash, crashed, killed, state)

    def _judge_neighbours(
        self, victim: Task, busy: Task, crash: Task, crashed: dict[str, Any], killed: Task, state: str
    ) -> None:
        mine, theirs = victim.record.series(), busy.record.series()
        came, went = _overlap([mine, theirs], settle=False)
        alone = mean_rate(mine, mine[0].begin_ns + SETTLE_NS, came - SETTLE_NS) or 0.0
        marks = [Mark(came, "busy neighbour"), Mark(went, "gone")]
        points = max(self._scale.points, 1.0)
        self._add(
            Finding(
                "fixed-alone",
                "A fixed share of 0.3 alone on the card has its part and no more",
                f"30.0 % ± {points:g} points",
                percent(alone, 1),
                abs(alone - 0.3) * 100 <= points,
                {"measured": alone},
            )
        )
        self._add(self._judge_beside("beside-busy", "a busy neighbour", alone, mean_rate(mine, came, went)))
        fell = crash.record.first("crashed")
        if fell is not None:
            marks.append(Mark(fell["at_ns"], "crash"))
            after = mean_rate(mine, fell["at_ns"] - SETTLE_NS, fell["at_ns"] + S)
            self._add(self._judge_beside("beside-crash", "one that writes to an illegal address", alone, after))
        result = fell["result"] if fell else None
        self._add(
            Finding(
                "crash-contained",
                "A crash is the crashing program's alone",
                "CUDA_ERROR_ILLEGAL_ADDRESS there, the neighbour runs on",
                f"{result if result is not None else 'no error'} there, the neighbour is {state}",
                result == ILLEGAL_ADDRESS and crashed["exit_code"] == 1 and state == "running",
                {"result": result, "exit_code": crashed["exit_code"], "neighbour": state},
            )
        )
        self._judge_killed(killed, mine, alone, marks)
        lines = (Line("fixed 0.3", mine), Line("busy, burst 0.5", theirs))
        self.found.timelines.append(Timeline("A share beside neighbours", lines, tuple(marks), (0.3,)))

    def _judge_killed(self, killed: Task, mine: list[Stretch], alone: float, marks: list[Mark]) -> None:
        cards, refused = killed.record.all("card"), killed.record.first("refused")
        if len(cards) == 2:
            marks.append(Mark(cards[1]["at_ns"], "kill -9"))
            rate = mean_rate(mine, cards[1]["at_ns"] - S // 2, cards[1]["at_ns"] + S // 2)
            self._add(self._judge_beside("beside-killed", "one that is killed with -9", alone, rate))
        given, least = (refused or {}).get("given_bytes", 0), cards[0]["free_bytes"] - 4 * MIB if cards else 0
        self._add(
            Finding(
                "killed-gives-back",
                "What a killed process held is its job's again at once",
                f"{format_mib(least)} to {format_mib(self._share)}",
                f"{format_mib(given)} were given after it",
                least <= given <= self._share and bool(cards),
                {"given_bytes": given, "free_before_bytes": least},
            )
        )

    def _judge_beside(self, key: str, who: str, alone: float, beside: float | None) -> Finding:
        got = beside or 0.0
        slower = (1 - got / alone) * 100 if alone else 100.0
        most = max((1 - self._scale.delivered) * 100, self._scale.points / 0.3)
        return Finding(
            key,
            f"A fixed share of 0.3 beside {who}: how much slower",
            f"at most {most:.0f} %",
            f"{slower:+.1f} % ({percent(alone, 1)} before, {percent(got, 1)} then)",
            slower <= most,
            {"before": alone, "then": got, "slower_percent": slower},
        )

    # Resize ------------------------------------------------------------------------------------------

    def _resize(self) -> None:
        words = ("--kernel-us", "200", "--interval-ms", "20", "--watch-memory", "--seconds", "60")
        task = self._submit("resize", *words, milli=200)
        small, large = self._share, 2 * self._share
        task.loaded_for(self._scale.alone)
        grown = self._change(task, 600, large)
        shrunk = self._change(task, 200, small)
        self._stop(task)
        series = task.record.series()
        marks = [Mark(at, f"to {milli / 1000:g}") for at, milli in ((grown[0], 600), (shrunk[0], 200))]
        if self._bench.api.local:
            lines = (Line("resized", series),)
            self.found.timelines.append(Timeline("A running job is resized", lines, marks, (0.2, 0.6)))
        self._judge_resize("grows", task, grown, shrunk[0], (0.2, 0.6), large)
        self._judge_resize("shrinks", task, shrunk, None, (0.6, 0.2), small)

    def _change(self, task: Task, milli: int, memory: int) -> tuple[int, float | None]:
        """When it was asked for, and after how many milliseconds the pool said that it is in force."""
        began = time.monotonic_ns()
        body = {"gpu_milli": milli, "memory_bytes": memory}
        told = self._bench.api.request("POST", f"jobs/{task.id}/resize", body, query={"wait_seconds": 5})
        task.read(0)
        so_far = task.record.series()
        task.loaded_for((so_far[-1].end_ns - so_far[0].begin_ns) / S + self._scale.beside)
        return began, told["applied_milliseconds"]

    def _judge_resize(
        self,
        way: str,
        task: Task,
        change: tuple[int, float | None],
        until: int | None,
        rates: tuple[float, float],
        memory: int,
    ) -> None:
        at, applied = change
        if not self._bench.api.local:
            self._add(self._judge_change(f"resize-{way}", f"Its node says that it {way}", applied))
            return
        series = [s for s in task.record.series() if until is None or s.begin_ns < until]
        was = mean_rate(series, at - S, at)
        had = was is not None and abs(was - rates[0]) < abs(was - rates[1])
        compute = reached(series, at, *rates) if had else None
        seen = [m["at_ns"] for m in task.record.all("memory") if m["at_ns"] >= at and m["total_bytes"] == memory]
        for what, found in (("compute", compute), ("memory", min(seen) - at if seen else None)):
            title = f"A running job {way}: its {what} is the new one"
            self._add(self._judge_change(f"resize-{way}-{what}", title, None if found is None else found / MS))

    @staticmethod
    def _judge_change(key: str, title: str, milliseconds: float | None) -> Finding:
        kept = milliseconds is not None and milliseconds <= CHANGE_NS / MS
        text = "never" if milliseconds is None else f"after {milliseconds:.0f} ms"
        return Finding(key, title, f"within {CHANGE_NS // MS} ms", text, kept, {"milliseconds": milliseconds})

    def _stop(self, task: Task) -> None:
        """End it and take in what it still had to say."""
        task.stop()
        task.end(30)


def percent(part: float, digits: int = 0) -> str:
    """`29.8 %` of a part."""
    return f"{part * 100:.{digits}f} %"


def _overlap(series: list[list[Stretch]], *, settle: bool = True) -> tuple[int, int]:
    try:
        return overlap(series, SETTLE_NS if settle else 0)
    except ValueError as error:
        raise Unavailable(f"nothing can be compared: {error}") from error


def _points(got: Estimate) -> str:
    return "unknown" if got.error is None else f"{got.error * 100:.1f} points"
