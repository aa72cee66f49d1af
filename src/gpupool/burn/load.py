"""Runs a load: submits batches to streams until the time is over, and measures each by two events.

A batch is some milliseconds of work. A stream has several batches in flight, so the card never waits
for this program, and a change of the share still shows at once. Times are of CLOCK_MONOTONIC, so
the series of several programs on one machine can be compared.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator
from ctypes import c_void_p
from dataclasses import dataclass
from typing import Final

from gpupool.base.errors import CudaCallFailure
from gpupool.base.units import NANOS_PER_SECOND
from gpupool.burn.driver import OUT_OF_MEMORY, CudaDriver
from gpupool.burn.kernels import SpinKernel
from gpupool.burn.series import WorkSeries, WorkStretch

#: Nanoseconds of work in one batch, as on a card of its own.
BATCH_NS: Final = 2_000_000
#: Nanoseconds of work in flight in a stream: enough that the card does not wait for a busy host.
AHEAD_NS: Final = 16_000_000
#: Nanoseconds from one burst to the next of a load with a duty below 1,000.
PERIOD_NS: Final = 100_000_000
#: Bytes of the first and of the smallest attempt to allocate until the driver refuses.
_FIRST_PIECE: Final = 256 << 20
_LAST_PIECE: Final = 1 << 20


@dataclass(frozen=True)
class LoadPlan:
    """What a load does: kernels of one length, graphs of several kernels, or copies.

    Attributes:
        graph: kernels in a graph; 0 launches kernels singly.
        copy_bytes: bytes of each copy within the card; 0 runs kernels.
        duty_milli: part of each `PERIOD_NS` with work, in thousandths.
    """

    seconds: float = 10.0
    kernel_ns: int = 1_000_000
    graph: int = 0
    copy_bytes: int = 0
    streams: int = 1
    duty_milli: int = 1000
    interval_ns: int = NANOS_PER_SECOND


@dataclass(frozen=True)
class LoadResult:
    """Figures of a finished load.

    Attributes:
        work_ns: time that the work takes on a card of its own; None for copies.
    """

    seconds: float
    work_ns: int | None
    busy_ns: int
    launches: int
    copied_bytes: int
    series: tuple[WorkStretch, ...]

    @property
    def rate(self) -> float | None:
        """Work for each unit of time: 1.0 is a whole card; None for copies."""
        return None if self.work_ns is None else self.work_ns / (self.seconds * 1e9)


class _StreamLane:
    """One stream and the events of its batches in flight, the oldest first."""

    def __init__(self, driver: CudaDriver) -> None:
        self.driver = driver
        self.stream = driver.create_stream()
        self.pending: deque[tuple[c_void_p, c_void_p]] = deque()
        # Events are reused, so a long load creates no more than it has batches in flight.
        self._spare: list[tuple[c_void_p, c_void_p]] = []
        self.reached_ns = 0

    def submit_batch(self, batch: Callable[[c_void_p], None]) -> None:
        """Submit a batch between two events; does not wait for the card."""
        if self._spare:
            begin, end = self._spare.pop()
        else:
            begin = self.driver.create_event()
            end = self.driver.create_event()
        self.driver.call("cuEventRecord", begin, self.stream)
        batch(self.stream)
        self.driver.call("cuEventRecord", end, self.stream)
        self.pending.append((begin, end))

    def await_oldest(self, base: c_void_p, base_ns: int) -> tuple[int, int]:
        """Wait for the oldest batch; returns its begin and end in nanoseconds."""
        begin, end = self.pending.popleft()
        self.driver.call("cuEventSynchronize", end)
        at = (
            base_ns + self.driver.measure_elapsed_ns(base, begin),
            base_ns + self.driver.measure_elapsed_ns(base, end),
        )
        self._spare.append((begin, end))
        self.reached_ns = at[1]
        return at


class CardLoad:
    """A load plan on one card. Not thread-safe.

    `run` yields each stretch as soon as it is complete; `result` is set afterwards.
    """

    def __init__(self, driver: CudaDriver, plan: LoadPlan) -> None:
        self._driver = driver
        self.plan = plan
        self._lanes = [_StreamLane(driver) for _ in range(plan.streams)]
        self._batch, self._launches, self._work_ns = self._prepare_batch()
        # A load with pauses keeps two batches only, so that its bursts end when their time is over.
        ahead = AHEAD_NS // max(self._work_ns, BATCH_NS) if plan.duty_milli == 1000 else 2
        self._depth = max(2, ahead)
        self.start_ns = 0
        self.result: LoadResult | None = None

    def _prepare_batch(self) -> tuple[Callable[[c_void_p], None], int, int]:
        """Return (function that submits a batch, launches in it, nanoseconds of its work)."""
        plan = self.plan
        driver = self._driver
        if plan.copy_bytes:
            source = driver.allocate_memory(plan.copy_bytes)
            target = driver.allocate_memory(plan.copy_bytes)

            def copy(stream: c_void_p) -> None:
                driver.call("cuMemcpyDtoDAsync_v2", target, source, plan.copy_bytes, stream)

            return copy, 1, 0
        spin = SpinKernel(driver, plan.kernel_ns)
        if plan.graph:
            executable = self._capture_graph(spin)
            graph_ns = plan.graph * plan.kernel_ns
            return (
                (lambda stream: driver.call("cuGraphLaunch", executable, stream)),
                plan.graph,
                graph_ns,
            )
        count = max(1, BATCH_NS // plan.kernel_ns)

        def kernels(stream: c_void_p) -> None:
            for _ in range(count):
                spin.launch(stream)

        return kernels, count, count * plan.kernel_ns

    def _capture_graph(self, spin: SpinKernel) -> c_void_p:
        stream = self._lanes[0].stream
        self._driver.begin_capture(stream)
        for _ in range(self.plan.graph):
            spin.launch(stream)
        return self._driver.end_capture(stream)

    def run(self) -> Iterator[WorkStretch]:
        """Load the card until the plan's time is over; blocks the caller between stretches."""
        driver = self._driver
        plan = self.plan
        # Events give differences only. This one ties the card's clock to CLOCK_MONOTONIC.
        base = driver.create_event()
        driver.call("cuEventRecord", base, self._lanes[0].stream)
        driver.call("cuEventSynchronize", base)
        self.start_ns = base_ns = time.monotonic_ns()
        series = WorkSeries(base_ns, plan.interval_ns)
        kept = list[WorkStretch]()
        batches = 0
        end_ns = base_ns + round(plan.seconds * 1e9)
        while (now := time.monotonic_ns()) < end_ns:
            if self._is_resting(now - base_ns):
                batches += self._drain_lanes(series, base, base_ns)
                self._sleep_period(now - base_ns)
                continue
            for lane in self._lanes:
                if len(lane.pending) == self._depth:
                    series.add_batch(
                        *lane.await_oldest(base, base_ns), self._work_ns, self._launches
                    )
                    batches += 1
                lane.submit_batch(self._batch)
            # A batch of the slowest lane may still belong to a stretch that others have left.
            known = series.pop_finished(min(lane.reached_ns for lane in self._lanes))
            for stretch in known:
                kept.append(stretch)
                yield stretch
        batches += self._drain_lanes(series, base, base_ns)
        last_ns = max(time.monotonic_ns(), end_ns)
        for stretch in series.pop_rest(last_ns):
            kept.append(stretch)
            yield stretch
        copied = batches * plan.copy_bytes
        work = None if plan.copy_bytes else batches * self._work_ns
        busy = sum(stretch.busy_ns for stretch in kept)
        seconds = (last_ns - base_ns) / 1e9
        self.result = LoadResult(seconds, work, busy, batches * self._launches, copied, tuple(kept))

    def _drain_lanes(self, series: WorkSeries, base: c_void_p, base_ns: int) -> int:
        """Wait for every batch in flight; returns their number."""
        count = 0
        for lane in self._lanes:
            while lane.pending:
                series.add_batch(*lane.await_oldest(base, base_ns), self._work_ns, self._launches)
                count += 1
        return count

    def _is_resting(self, since_ns: int) -> bool:
        return since_ns % PERIOD_NS >= PERIOD_NS * self.plan.duty_milli // 1000

    def _sleep_period(self, since_ns: int) -> None:
        time.sleep((PERIOD_NS - since_ns % PERIOD_NS) / 1e9)
        # The lanes were drained before the pause, so every stretch up to now is complete.
        for lane in self._lanes:
            lane.reached_ns = time.monotonic_ns()


def hold_memory(driver: CudaDriver, size: int) -> list[int]:
    """Allocate and write `size` bytes in pieces; returns their addresses.

    Raises:
        CudaCallFailure: the memory is not available; none is kept then.
    """
    held: list[int] = []
    stream = driver.create_stream()
    try:
        while size > 0:
            piece = min(size, _FIRST_PIECE)
            held.append(driver.allocate_memory(piece))
            # Written, since a driver may take memory from the card only when it is first touched.
            driver.call("cuMemsetD8Async", held[-1], 0xA5, piece, stream)
            size -= piece
        driver.call("cuStreamSynchronize", stream)
    except CudaCallFailure:
        for pointer in held:
            driver.free_memory(pointer)
        raise
    return held


def allocate_until_refused(driver: CudaDriver) -> int:
    """Allocate until the driver refuses, then free all; returns the bytes, exact to a MiB."""
    held: list[int] = []
    given = 0
    piece = _FIRST_PIECE
    while piece >= _LAST_PIECE:
        try:
            held.append(driver.allocate_memory(piece))
            given += piece
        except CudaCallFailure as error:
            if error.details["result"] != OUT_OF_MEMORY:
                raise
            piece //= 2
    for pointer in held:
        driver.free_memory(pointer)
    return given
