"""`gpupool burn`: a load for a share, in chosen ways and counted; inside a job or outside."""

from __future__ import annotations

import argparse
import os
import sys
import time
from dataclasses import asdict
from typing import Any

from gpupool.base.errors import BadOption, GpupoolError
from gpupool.base.units import format_mib, parse_memory
from gpupool.cli.proof.burn_output import LineWriter, MemoryWatch
from gpupool.terminal.context import CommandContext
from gpupool.terminal.parser import CommandParser, integer_within, one_of

ABOUT = """
    Keeps a card busy and says what it got of it: once a second the part of a whole card's time that its kernels
    are worth, and at the end the sum. It is a CUDA program like any other and takes the driver as such a program
    finds it, so in a job it shows what that job's share is worth. Kernels are counted by what they would take on
    a card of their own, which is measured first; busy is what pairs of events say, and on a shared card contains
    the neighbours' slices.
    """

EXAMPLES = [
    "gpupool run --gpu 0.3 --memory 8GiB -- gpupool burn",
    (
        "gpupool run --gpu 0.3 --memory 8GiB -- gpupool burn --memory 4GiB --kernel-us 200 --seconds "
        "30"
    ),
    "gpupool run --gpu 0.3 --memory 8GiB -- gpupool burn --over-allocate",
]


def register(parser: CommandParser) -> None:
    parser.about = ABOUT
    parser.examples = EXAMPLES
    _add_load(parser)
    _add_reports(parser)


def _add_load(parser: CommandParser) -> None:
    """Add the options that say what is done to the card."""
    add = parser.add_argument
    add(
        "--seconds",
        type=_parse_seconds,
        default=10.0,
        metavar="N",
        help="for so long (default: 10)",
    )
    add(
        "--device",
        type=integer_within("--device", "the index of a card", 0, 1023),
        default=0,
        metavar="N",
        help="which card",
    )
    add(
        "--memory",
        type=parse_memory,
        metavar="SIZE",
        help="allocate and touch so much first, and hold it",
    )
    add(
        "--kernel-us",
        type=integer_within("--kernel-us", "a kernel's length in microseconds", 1, 10_000_000),
        default=1000,
        metavar="N",
        help="many kernels of that length (default: 1000)",
    )
    add(
        "--long-kernel",
        type=integer_within("--long-kernel", "a kernel's length in milliseconds", 1, 60_000),
        metavar="MS",
        help="the same in milliseconds, for kernels that cannot be stopped",
    )
    add(
        "--graph",
        type=integer_within("--graph", "the kernels of a graph", 1, 100_000),
        metavar="N",
        help="submit them as graphs of N kernels",
    )
    add(
        "--copy",
        type=parse_memory,
        metavar="SIZE",
        help="copy so much within the card, again and again, no kernels",
    )
    add(
        "--streams",
        type=integer_within("--streams", "the number of streams", 1, 64),
        default=1,
        metavar="K",
        help="on so many streams (default: 1)",
    )
    add(
        "--sparse",
        type=integer_within("--sparse", "percent of the time", 1, 99),
        metavar="PERCENT",
        help="only so much of each 100 ms, resting between",
    )


def _add_reports(parser: CommandParser) -> None:
    """Add the options that say what is told, and the short measurements that end by themselves."""
    add = parser.add_argument
    add(
        "--interval-ms",
        type=integer_within("--interval-ms", "milliseconds between two lines", 5, 60_000),
        default=1000,
        metavar="MS",
        help="a line for every so many milliseconds (default: 1000)",
    )
    add(
        "--fork",
        type=integer_within("--fork", "the number of processes", 2, 1024),
        metavar="N",
        help="N processes do all this at once, as one job",
    )
    add(
        "--over-allocate",
        action="store_true",
        help="take memory until it is refused, say how much that was, and end",
    )
    add(
        "--costs",
        action="store_true",
        help="measure what a context takes and the step of allocations, and end",
    )
    add("--crash", action="store_true", help="at the end write to an illegal address; exit code 1")
    add(
        "--watch-memory",
        action="store_true",
        help="report at once when the memory of the card changes",
    )
    add(
        "-o",
        "--output",
        type=one_of("-o", "text", "json"),
        default="text",
        metavar="FORMAT",
        help="text or json (a line each) (default: text)",
    )


def _parse_seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0.01 <= value <= 30 * 86400:
        raise BadOption(f"--seconds {text}: a number from 0.01 to {30 * 86400}")
    return value


def run(options: argparse.Namespace, context: CommandContext) -> int:
    # Copies and kernels are counted in different units.
    if options.copy and (options.graph or options.long_kernel):
        raise BadOption(
            "--copy does no kernels", hint="leave out --graph and --long-kernel, or run two of them"
        )
    if options.fork:
        return _burn_forked(options)
    return _burn_once(options, LineWriter(options.output))


def _burn_forked(options: argparse.Namespace) -> int:
    """Fork before the driver is touched, as such programs do; return the worst exit code."""
    sys.stdout.flush()
    pids = []
    for _ in range(options.fork):
        pid = os.fork()
        if pid == 0:
            # Without the parent's clean-up: its buffers and threads are copies here.
            os._exit(_burn_child(options))
        pids.append(pid)
    worst = 0
    for pid in pids:
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        # Negative is a signal, which shells show as 128 and its number.
        worst = max(worst, 128 - code if code < 0 else code)
    return worst


def _burn_child(options: argparse.Namespace) -> int:
    from gpupool.terminal.output import print_error

    try:
        return _burn_once(options, LineWriter(options.output))
    except GpupoolError as error:
        print_error(error)
        return error.exit_code
    except KeyboardInterrupt:
        return 130


def _burn_once(options: argparse.Namespace, lines: LineWriter) -> int:
    # Before a context exists here: its cost is what is measured.
    if options.costs:
        return _measure_costs(options.device, lines)
    from gpupool.burn.driver import CudaDriver

    driver = CudaDriver(options.device)
    free, total = driver.read_memory()
    identity = driver.describe_card()
    lines.write_line(
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
        from gpupool.burn.load import hold_memory

        # Touched, not only allocated: memory that is never written may not exist yet.
        held = hold_memory(driver, options.memory)
        lines.write_line(
            "held", f"holds {format_mib(options.memory)}, every byte written", bytes=options.memory
        )
    try:
        with MemoryWatch(driver, options.watch_memory, lines):
            _run_load(driver, options, lines)
    except KeyboardInterrupt:
        lines.write_line("interrupted", "interrupted")
        return 130
    if options.crash:
        return _crash_context(driver, lines)
    for pointer in held:
        driver.free_memory(pointer)
    return 0


def _measure_costs(device: int, lines: LineWriter) -> int:
    from gpupool.burn.costs import measure_costs

    driver, found = measure_costs(device)
    identity = driver.describe_card()
    text = (
        f"{identity['card']}: a context takes {format_mib(found.context_bytes)} (by NVML, of this "
        f"{found.by}), "
        f"of which {format_mib(found.visible_bytes)} count here; allocations take "
        f"steps of {format_mib(found.granule_bytes)}"
    )
    lines.write_line("costs", text, **asdict(found), **identity)
    driver.close()
    return 0


def _over_allocate(driver: Any, lines: LineWriter, total: int) -> int:
    from gpupool.burn.load import allocate_until_refused

    given = allocate_until_refused(driver)
    text = f"{format_mib(given)} were given, then CUDA_ERROR_OUT_OF_MEMORY; the card shows {format_mib(total)}"
    lines.write_line("refused", text, given_bytes=given, total_bytes=total)
    return 0


def _crash_context(driver: Any, lines: LineWriter) -> int:
    from gpupool.base.errors import CudaCallFailure
    from gpupool.burn.kernels import launch_fault

    try:
        launch_fault(driver)
    except CudaCallFailure as error:
        lines.write_line(
            "crashed",
            f"crashed as asked: {error.message}",
            result=error.details["result"],
            at_ns=time.monotonic_ns(),
        )
        return 1
    lines.write_line("survived", "the illegal write went unnoticed")
    return 0


def _run_load(driver: Any, options: argparse.Namespace, lines: LineWriter) -> None:
    from gpupool.burn.load import CardLoad, LoadPlan

    plan = LoadPlan(
        seconds=options.seconds,
        kernel_ns=(options.long_kernel * 1000 if options.long_kernel else options.kernel_us) * 1000,
        graph=options.graph or 0,
        copy_bytes=options.copy or 0,
        streams=options.streams,
        duty_milli=(options.sparse or 100) * 10,
        interval_ns=options.interval_ms * 10**6,
    )
    load = CardLoad(driver, plan)
    for stretch in load.run():
        # Copies are no kernels: they are counted in bytes, not in parts of a card.
        rate = None if plan.copy_bytes else round(stretch.rate, 4)
        busy = stretch.busy_ns / (stretch.end_ns - stretch.begin_ns)
        lines.write_line(
            "stretch",
            _describe_stretch((stretch.end_ns - load.start_ns) / 1e9, rate, busy),
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
        f"copied {per_second / (1 << 30):.2f} GiB/s"
        if done.rate is None
        else f"got {done.rate * 100:.1f} % of a card"
    )
    lines.write_line(
        "end",
        f"{text} for {done.seconds:.2f} s, busy for {done.busy_ns / 1e9:.2f} s; {done.launches} "
        "launches",
        seconds=done.seconds,
        rate=done.rate,
        work_seconds=None if done.work_ns is None else done.work_ns / 1e9,
        busy_seconds=done.busy_ns / 1e9,
        launches=done.launches,
        copied_bytes=done.copied_bytes,
    )


def _describe_stretch(seconds: float, rate: float | None, busy: float) -> str:
    at = f"{seconds:6.1f} s"
    return (
        f"{at}  busy {busy * 100:5.1f} %"
        if rate is None
        else f"{at}  {rate * 100:5.1f} % of a card   busy {busy * 100:5.1f} %"
    )
