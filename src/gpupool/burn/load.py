"""The loads themselves: batches on streams until the time is over, each measured by a pair of events.

A batch is some milliseconds of work, and a stream has a few on their way, so that the card does not wait for this
program and a change of its share still shows at once. Time of the series is CLOCK_MONOTONIC: series of several
programs on one machine can be laid over each other.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator
from ctypes import c_void_p
from dataclasses import dataclass
from typing import Final

from gpupool.base.errors import CudaRefused
from gpupool.burn.driver import OUT_OF_MEMORY, Driver
from gpupool.burn.kernels import Spin
from gpupool.burn.series import Series, Stretch

BATCH_NS: Final = 2_000_000
AHEAD_NS: Final = 16_000_000
"""Work on its way in a stream: enough that the card does not wait for a host that is busy otherwise."""
PERIOD_NS: Final = 100_000_000
"""Of a sparse load."""
_FIRST_PIECE: Final = 256 << 20
_LAST_PIECE: Final = 1 << 20


@dataclass(frozen=True)
class Plan:
    """What to do: kernels of that length, or graphs of so many, or copies of so many bytes."""

    seconds: float = 10.0
    kernel_ns: int = 1_000_000
    graph: int = 0
    copy_bytes: int = 0
    streams: int = 1
    duty_milli: int = 1000
    interval_ns: int = 1_000_000_000


@dataclass(frozen=True)
class Result:
    """A finished load. `work_ns` is what it would have taken on a card of its own; None for copies."""

    seconds: float
    work_ns: int | None
    busy_ns: int
    launches: int
    copied_bytes: int
    series: tuple[Stretch, ...]

    @property
    def rate(self) -> float | None:
        return None if self.work_ns is None else self.work_ns / (self.seconds * 1e9)


class _Lane:
    """One stream with what is on its way in it, the oldest first."""

    def __init__(self, driver: Driver) -> None:
        self.driver, self.stream = driver, driver.stream()
        self.pending: deque[tuple[c_void_p, c_void_p]] = deque()
        self._spare: list[tuple[c_void_p, c_void_p]] = []
        self.reached_ns = 0

    def submit(self, batch: Callable[[c_void_p], None]) -> None:
        begin, end = self._spare.pop() if self._spare else (self.driver.event(), self.driver.event())
        self.driver.call("cuEventRecord", begin, self.stream)
        batch(self.stream)
        self.driver.call("cuEventRecord", end, self.stream)
        self.pending.append((begin, end))

    def harvest(self, base: c_void_p, base_ns: int) -> tuple[int, int]:
        """Wait for the oldest batch: its begin and end."""
        begin, end = self.pending.popleft()
        self.driver.call("cuEventSynchronize", end)
        at = base_ns + self.driver.elapsed_ns(base, begin), base_ns + self.driver.elapsed_ns(base, end)
        self._spare.append((begin, end))
        self.reached_ns = at[1]
        return at


class Load:
    """A plan on a card. `run` gives each stretch as soon as it is known; `result` is there afterwards."""

    def __init__(self, driver: Driver, plan: Plan) -> None:
        self._driver, self.plan = driver, plan
        self._lanes = [_Lane(driver) for _ in range(plan.streams)]
        self._batch, self._launches, self._work_ns = self._what()
        ahead = AHEAD_NS // max(self._work_ns, BATCH_NS) if plan.duty_milli == 1000 else 2
        self._depth = max(2, ahead)
        self.start_ns = 0
        self.result: Result | None = None

    def _what(self) -> tuple[Callable[[c_void_p], None], int, int]:
        """(how to submit a batch, launches in it, its work)"""
        plan, driver = self.plan, self._driver
        if plan.copy_bytes:
            source, target = driver.allocate(plan.copy_bytes), driver.allocate(plan.copy_bytes)

            def copy(stream: c_void_p) -> None:
                driver.call("cuMemcpyDtoDAsync_v2", target, source, plan.copy_bytes, stream)

            return copy, 1, 0
        spin = Spin(driver, plan.kernel_ns)
        if plan.graph:
            executable = self._captured(spin)
            graph_ns = plan.graph * plan.kernel_ns
            return (lambda stream: driver.call("cuGraphLaunch", executable, stream)), plan.graph, graph_ns
        count = max(1, BATCH_NS // plan.kernel_ns)

        def kernels(stream: c_void_p) -> None:
            for _ in range(count):
                spin.launch(stream)

        return kernels, count, count * plan.kernel_ns

    def _captured(self, spin: Spin) -> c_void_p:
        stream = self._lanes[0].stream
        self._driver.capture(stream)
        for _ in range(self.plan.graph):
            spin.launch(stream)
        return self._driver.end_capture(stream)

    def run(self) -> Iterator[Stretch]:
        """Load the card until the plan's time is over, also when the one who reads stops reading."""
        driver, plan = self._driver, self.plan
        base = driver.event()
        driver.call("cuEventRecord", base, self._lanes[0].stream)
        driver.call("cuEventSynchronize", base)
        self.start_ns = base_ns = time.monotonic_ns()
        series, kept, batches = Series(base_ns, plan.interval_ns), list[Stretch](), 0
        end_ns = base_ns + round(plan.seconds * 1e9)
        while (now := time.monotonic_ns()) < end_ns:
            if self._rests(now - base_ns):
                batches += self._drain(series, base, base_ns)
                self._pause(now - base_ns)
                continue
            for lane in self._lanes:
                if len(lane.pending) == self._depth:
                    series.add(*lane.harvest(base, base_ns), self._work_ns, self._launches)
                    batches += 1
                lane.submit(self._batch)
            known = series.finished(min(lane.reached_ns for lane in self._lanes))
            for stretch in known:
                kept.append(stretch)
                yield stretch
        batches += self._drain(series, base, base_ns)
        last_ns = max(time.monotonic_ns(), end_ns)
        for stretch in series.rest(last_ns):
            kept.append(stretch)
            yield stretch
        copied = batches * plan.copy_bytes
        work = None if plan.copy_bytes else batches * self._work_ns
        busy = sum(stretch.busy_ns for stretch in kept)
        seconds = (last_ns - base_ns) / 1e9
        self.result = Result(seconds, work, busy, batches * self._launches, copied, tuple(kept))

    def _drain(self, series: Series, base: c_void_p, base_ns: int) -> int:
        """Wait for everything; how many batches that were."""
        count = 0
        for lane in self._lanes:
            while lane.pending:
                series.add(*lane.harvest(base, base_ns), self._work_ns, self._launches)
                count += 1
        return count

    def _rests(self, since_ns: int) -> bool:
        return since_ns % PERIOD_NS >= PERIOD_NS * self.plan.duty_milli // 1000

    def _pause(self, since_ns: int) -> None:
        """Until the next period; a load with pauses is what it is asked to be."""
        time.sleep((PERIOD_NS - since_ns % PERIOD_NS) / 1e9)
        for lane in self._lanes:
            lane.reached_ns = time.monotonic_ns()


def hold(driver: Driver, size: int) -> list[int]:
    """Allocate and touch so many bytes, in pieces. Raises CudaRefused when they are not there; keeps none then."""
    held: list[int] = []
    stream = driver.stream()
    try:
        while size > 0:
            piece = min(size, _FIRST_PIECE)
            held.append(driver.allocate(piece))
            driver.call("cuMemsetD8Async", held[-1], 0xA5, piece, stream)
            size -= piece
        driver.call("cuStreamSynchronize", stream)
    except CudaRefused:
        for pointer in held:
            driver.free(pointer)
        raise
    return held


def until_refused(driver: Driver) -> int:
    """Allocate until the driver refuses, then give all back: how many bytes it gave, to the MiB."""
    held: list[int] = []
    given, piece = 0, _FIRST_PIECE
    while piece >= _LAST_PIECE:
        try:
            held.append(driver.allocate(piece))
            given += piece
        except CudaRefused as error:
            if error.details["result"] != OUT_OF_MEMORY:
                raise
            piece //= 2
    for pointer in held:
        driver.free(pointer)
    return given
