"""`gpupool replay TRACE`: a trace on the terminal, as its jobs come, start and end, sped up.

The scheduler decides while the lines appear: what is shown is not a recording.
"""

from __future__ import annotations

import argparse
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from gpupool.base.errors import BadOption
from gpupool.base.units import NANOS_PER_SECOND, WHOLE, format_duration, format_gpu
from gpupool.terminal.interrupt import interrupted_by_sigterm
from gpupool.terminal.output import count_noun

if TYPE_CHECKING:
    from gpupool.model.claim import Rejection
    from gpupool.simulation.replay.world import SimulatedJob, SimulatedPool

    #: Waits for so many seconds.
    Pause = Callable[[float], object]
    Write = Callable[[str], object]

#: Options that belong to the pool's log alone.
_LOG_OPTIONS = ("log", "since", "until", "record", "page")


def play_trace(options: argparse.Namespace) -> int:
    """Play a trace under one policy; return the exit code. Ctrl-C ends it with the totals so far."""
    from gpupool.simulation.replay.foreknowledge import ONLINE
    from gpupool.simulation.studies.study import (
        DEFAULT_POLICY,
        FIRST_SEED,
        StudyQuestion,
        list_cases,
        watch_case,
    )
    from gpupool.simulation.traces.sources import read_trace

    speed = parse_speed(options.speed)
    given = [name for name in _LOG_OPTIONS if getattr(options, name) is not None]
    if given or options.output != "table":
        raise BadOption(
            "a trace is played as lines, and takes --nodes, --policy and --speed alone",
            hint="gpupool simulate --record FILE  writes its decisions",
        )
    source = read_trace(options.trace)
    nodes = source.choose_nodes(options.nodes)
    policy = options.policy or DEFAULT_POLICY
    question = StudyQuestion(
        nodes,
        (policy,),
        (FIRST_SEED,),
        source.trace,
        source.synthetic,
        source.shapes,
        ONLINE,
    )
    cases = list_cases(question)
    cards = sum(len(node.cards) for node in nodes)
    at = "" if speed is None else f", {speed:g} times as fast"
    write = _write_line
    size = f"{count_noun(cards, 'card')} on {count_noun(len(nodes), 'node')}"
    write(f"{options.trace}: {size}{at}  SIMULATED")
    players: list[TracePlayer] = []

    def make_player(world: SimulatedPool) -> TracePlayer:
        players.append(TracePlayer(world, speed, threading.Event().wait, write))
        return players[0]

    with interrupted_by_sigterm(), suppress(KeyboardInterrupt):
        watch_case(cases[0], lambda _part: None, make_player)
    for player in players:
        write(player.summarize())
    return 0


def parse_speed(text: str | None) -> float | None:
    """Parse how many times as fast as it happened; None: as fast as the scheduler decides.

    Raises:
        BadOption: It is no number above 0.
    """
    if text is None:
        return None
    try:
        speed = float(text)
    except ValueError:
        speed = 0.0
    if not 0 < speed < 1e9:
        raise BadOption(
            f"--speed {text[:40]}: it is a number above 0, such as 600", hint="--speed 600"
        )
    return speed


class TracePlayer:
    """A watcher that writes a line for each start, end and eviction, at its time."""

    def __init__(
        self,
        world: SimulatedPool,
        speed: float | None,
        pause: Pause,
        write: Write,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._world = world
        self._speed = speed
        self._pause = pause
        self._write = write
        self._clock = clock
        self._began = clock()
        self._now_ns = 0
        self.started = 0
        self.ended = 0
        self.evicted = 0
        self.refused = 0

    def on_clock_advance(self, world: SimulatedPool, before_ns: int, now_ns: int) -> None:
        self._now_ns = now_ns
        if self._speed is None:
            return
        # Counted from the beginning, so that the time of decisions is made up.
        due = now_ns / NANOS_PER_SECOND / self._speed
        left = due - (self._clock() - self._began)
        if left > 0:
            self._pause(left)

    def on_arrival(
        self, jobs: Sequence[SimulatedJob], refused: Rejection | None, now_ns: int
    ) -> None:
        for job in jobs:
            if refused is not None:
                self.refused += 1
                self._tell(now_ns, job, "refused", refused.sentence)

    def on_start(self, job: SimulatedJob, placement: object, now_ns: int) -> None:
        self.started += 1
        run = job.run
        assert run is not None
        cards = ", ".join(self._world.cards.uuids[row] for row in run.rows[:2])
        more = f" and {len(run.rows) - 2} more" if len(run.rows) > 2 else ""
        each = f" of {format_gpu(run.milli[0])} GPU" if run.rows else ""
        where = f"{count_noun(len(run.rows), 'card')}{each} on {cards}{more}"
        waited = format_duration((now_ns - job.submitted_ns) / NANOS_PER_SECOND)
        self._tell(now_ns, job, "starts", f"{where}, waited {waited}; {self._describe_pool()}")

    def on_end(self, job: SimulatedJob, now_ns: int) -> None:
        self.ended += 1
        self._tell(now_ns, job, "ends", "")

    def on_eviction(self, job: SimulatedJob, eviction: Any, now_ns: int) -> None:
        self.evicted += 1
        self._tell(now_ns, job, "evicted", eviction.why)

    def on_left_waiting(
        self, jobs: Iterable[SimulatedJob], why: Mapping[Any, Rejection], now_ns: int
    ) -> None:
        for job in jobs:
            rejection = why.get(job.key)
            self._tell(now_ns, job, "never starts", "" if rejection is None else rejection.sentence)

    def summarize(self) -> str:
        """Say in one line what happened so far."""
        return (
            f"{format_duration(self._now_ns / NANOS_PER_SECOND)} of the trace: "
            f"{count_noun(self.started, 'start')}, {count_noun(self.ended, 'end')}, "
            f"{count_noun(self.evicted, 'eviction')}, {self.refused} refused"
        )

    def _describe_pool(self) -> str:
        free = self._world.cards.free_milli
        held = len(free) * WHOLE - int(free.sum())
        return f"{format_gpu(held)} of {len(free)} GPU held"

    def _tell(self, now_ns: int, job: SimulatedJob, what: str, more: str) -> None:
        at = format_duration(now_ns / NANOS_PER_SECOND)
        self._write(f"{at:>12}  {job.id}  {job.key.tenant}  {what:<8}  {more}".rstrip())


def _write_line(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()
