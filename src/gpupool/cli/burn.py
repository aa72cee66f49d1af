"""`gpupool burn`: a load for a share, in chosen ways and counted; inside a job or outside."""

from __future__ import annotations

import argparse
import json
import os
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from gpupool.base.errors import BadOption, GpupoolError
from gpupool.base.units import MIB, format_mib, parse_memory
from gpupool.cli.context import Context
from gpupool.cli.parser import Parser, number, one_of

MEMORY_EVERY_SECONDS = 0.01


def register(parser: Parser) -> None:
    parser.about = """
    Keeps a card busy and says what it got of it: once a second the part of a whole card's time that its kernels
    are worth, and at the end the sum. It is a CUDA program like any other and takes the driver as such a program
    finds it, so in a job it shows what that job's share is worth. Kernels are counted by what they would take on
    a card of their own, which is measured first; busy is what pairs of events say, and on a shared card contains
    the neighbours' slices.
    """
    parser.examples = [
        "gpupool run --gpu 0.3 --memory 8GiB -- gpupool burn",
        "gpupool run --gpu 0.3 --memory 8GiB -- gpupool burn --memory 4GiB --kernel-us 200 --seconds 30",
        "gpupool run --gpu 0.3 --memory 8GiB -- gpupool burn --over-allocate",
    ]
    add = parser.add_argument
    add("--seconds", type=_seconds, default=10.0, metavar="N", help="for so long (default: 10)")
    add("--device", type=number("--device", "the index of a card", 0, 1023), default=0, metavar="N", help="which card")
    add("--memory", type=parse_memory, metavar="SIZE", help="allocate and touch so much first, and hold it")
    add(
        "--kernel-us",
        type=number("--kernel-us", "a kernel's length in microseconds", 1, 10_000_000),
        default=1000,
        metavar="N",
        help="many kernels of that length (default: 1000)",
    )
    add(
        "--long-kernel",
        type=number("--long-kernel", "a kernel's length in milliseconds", 1, 60_000),
        metavar="MS",
        help="the same in milliseconds, for kernels that cannot be stopped",
    )
    add(
        "--graph",
        type=number("--graph", "the kernels of a graph", 1, 100_000),
        metavar="N",
        help="submit them as graphs of N kernels",
    )
    add("--copy", type=parse_memory, metavar="SIZE", help="copy so much within the card, again and again, no kernels")
    add(
        "--streams",
        type=number("--streams", "the number of streams", 1, 64),
        default=1,
        metavar="K",
        help="on so many streams (default: 1)",
    )
    add(
        "--sparse",
        type=number("--sparse", "percent of the time", 1, 99),
        metavar="PERCENT",
        help="only so much of each 100 ms, resting between",
    )
    add(
        "--interval-ms",
        type=number("--interval-ms", "milliseconds between two lines", 5, 60_000),
        default=1000,
        metavar="MS",
        help="a line for every so many milliseconds (default: 1000)",
    )
    add(
        "--fork",
        type=number("--fork", "the number of processes", 2, 1024),
        metavar="N",
        help="N processes do all this at once, as one job",
    )
    add("--over-allocate", action="store_true", help="take memory until it is refused, say how much that was, and end")
    add("--costs", action="store_true", help="measure what a context takes and the step of allocations, and end")
    add("--crash", action="store_true", help="at the end write to an illegal address; exit code 1")
    add("--watch-memory", action="store_true", help="tell at once when the memory that the card shows changes")
    add(
        "-o",
        "--output",
        type=one_of("-o", "text", "json"),
        default="text",
        metavar="FORMAT",
        help="text or json (a line each) (default: text)",
    )


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0.01 <= value <= 30 * 86400:
        raise BadOption(f"--seconds {text}: a number from 0.01 to {30 * 86400}")
    return value


def run(options: argparse.Namespace, context: Context) -> int:
    if options.copy and (options.graph or options.long_kernel):
        raise BadOption("--copy does no kernels", hint="leave out --graph and --long-kernel, or run two of them")
    if options.fork:
        return _fork(options)
    return _burn(options, _Lines(options.output))


def _fork(options: argparse.Namespace) -> int:
    """Processes made before the driver is touched, which is how such programs do it; the worst exit code."""
    sys.stdout.flush()
    pids = []
    for _ in range(options.fork):
        pid = os.fork()
        if pid == 0:
            os._exit(_child(options))
        pids.append(pid)
    codes = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids]
    return max((128 - code if code < 0 else code for code in codes), default=0)


def _child(options: argparse.Namespace) -> int:
    from gpupool.cli.output import print_error

    try:
        return _burn(options, _Lines(options.output))
    except GpupoolError as error:
        print_error(error)
        return error.exit_code
    except KeyboardInterrupt:
        return 130


class _Lines:
    """What is said: for people a line a second, for programs everything as JSON. Whole lines, from any thread."""

    def __init__(self, output: str) -> None:
        self._json, self._lock = output == "json", threading.Lock()

    def say(self, kind: str, text: str = "", **facts: Any) -> None:
        if not self._json and not text:
            return
        line = json.dumps({"kind": kind, "pid": os.getpid(), **facts}) if self._json else text
        with self._lock:
            sys.stdout.write(line + "\n")
            sys.stdout.flush()


def _burn(options: argparse.Namespace, lines: _Lines) -> int:
    if options.costs:
        return _costs(options.device, lines)
    from gpupool.burn.driver import Driver

    driver = Driver(options.device)
    free, total = driver.memory()
    identity = driver.identity()
    lines.say(
        "card",
        f"{identity['card']}: {format_mib(total)}, {format_mib(free)} of them free",
        free_bytes=free,
        total_bytes=total,
        at_ns=time.monotonic_ns(),
        **identity,
    )
    if options.over_allocate:
        return _over_allocate(driver, lines, total)
    held = []
    if options.memory:
        from gpupool.burn.load import hold

        held = hold(driver, options.memory)
        lines.say("held", f"holds {format_mib(options.memory)}, every byte written", bytes=options.memory)
    try:
        with _watch(driver, options.watch_memory, lines):
            _load(driver, options, lines)
    except KeyboardInterrupt:
        lines.say("interrupted", "interrupted")
        return 130
    if options.crash:
        return _crash(driver, lines)
    for pointer in held:
        driver.free(pointer)
    return 0


def _costs(device: int, lines: _Lines) -> int:
    from gpupool.burn.costs import measure

    driver, found = measure(device)
    identity = driver.identity()
    text = (
        f"{identity['card']}: a context takes {format_mib(found.context_bytes)} (by NVML, of this {found.by}), "
        f"of which {format_mib(found.visible_bytes)} count here; allocations take "
        f"steps of {format_mib(found.granule_bytes)}"
    )
    lines.say("costs", text, **asdict(found), **identity)
    driver.close()
    return 0


def _over_allocate(driver: Any, lines: _Lines, total: int) -> int:
    from gpupool.burn.load import until_refused

    given = until_refused(driver)
    text = f"{format_mib(given)} were given, then CUDA_ERROR_OUT_OF_MEMORY; the card shows {format_mib(total)}"
    lines.say("refused", text, given_bytes=given, total_bytes=total)
    return 0


def _crash(driver: Any, lines: _Lines) -> int:
    from gpupool.base.errors import CudaRefused
    from gpupool.burn.kernels import fault

    try:
        fault(driver)
    except CudaRefused as error:
        lines.say(
            "crashed", f"crashed as asked: {error.message}", result=error.details["result"], at_ns=time.monotonic_ns()
        )
        return 1
    lines.say("survived", "the illegal write went unnoticed")
    return 0


def _load(driver: Any, options: argparse.Namespace, lines: _Lines) -> None:
    from gpupool.burn.load import Load, Plan

    plan = Plan(
        seconds=options.seconds,
        kernel_ns=(options.long_kernel * 1000 if options.long_kernel else options.kernel_us) * 1000,
        graph=options.graph or 0,
        copy_bytes=options.copy or 0,
        streams=options.streams,
        duty_milli=(options.sparse or 100) * 10,
        interval_ns=options.interval_ms * 10**6,
    )
    load = Load(driver, plan)
    for stretch in load.run():
        rate = None if plan.copy_bytes else round(stretch.rate, 4)
        busy = stretch.busy_ns / (stretch.end_ns - stretch.begin_ns)
        lines.say(
            "stretch",
            _stretch((stretch.end_ns - load.start_ns) / 1e9, rate, busy),
            begin_ns=stretch.begin_ns,
            end_ns=stretch.end_ns,
            rate=rate,
            busy=round(busy, 4),
            launches=stretch.launches,
        )
    done = load.result
    assert done is not None
    per_second = done.copied_bytes / done.seconds
    text = (
        f"copied {per_second / (1 << 30):.2f} GiB/s" if done.rate is None else f"got {done.rate * 100:.1f} % of a card"
    )
    lines.say(
        "end",
        f"{text} for {done.seconds:.2f} s, busy for {done.busy_ns / 1e9:.2f} s; {done.launches} launches",
        seconds=done.seconds,
        rate=done.rate,
        work_seconds=None if done.work_ns is None else done.work_ns / 1e9,
        busy_seconds=done.busy_ns / 1e9,
        launches=done.launches,
        copied_bytes=done.copied_bytes,
    )


def _stretch(seconds: float, rate: float | None, busy: float) -> str:
    at = f"{seconds:6.1f} s"
    return (
        f"{at}  busy {busy * 100:5.1f} %"
        if rate is None
        else f"{at}  {rate * 100:5.1f} % of a card   busy {busy * 100:5.1f} %"
    )


class _watch:  # noqa: N801  # reads as a verb where it is used
    """A thread that asks the driver for the card's memory and tells every change of what it shows."""

    def __init__(self, driver: Any, wanted: bool, lines: _Lines) -> None:
        self._driver, self._lines, self._end = driver, lines, threading.Event()
        self._thread = threading.Thread(target=self._watch, name="memory", daemon=True) if wanted else None

    def __enter__(self) -> None:
        if self._thread is not None:
            self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._end.set()
        if self._thread is not None:
            self._thread.join()

    def _watch(self) -> None:
        self._driver.make_current()
        seen = -1
        for free, total in self._looks():
            if total != seen:
                seen = total
                text = f"the card shows {total // MIB} MiB"
                self._lines.say("memory", text, at_ns=time.monotonic_ns(), free_bytes=free, total_bytes=total)

    def _looks(self) -> Iterator[tuple[int, int]]:
        while True:
            yield self._driver.memory()
            if self._end.wait(MEMORY_EVERY_SECONDS):
                return
