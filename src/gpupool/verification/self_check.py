"""A doctor's look at the fence: one short job in a tiny share, and one for each CUDA runtime that is found here.

The job's own word (`gpupool burn`) is held against what the pool says of it, which its agent read from the ledger.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from gpupool.base.errors import GpupoolError, Unavailable
from gpupool.base.units import GIB, MIB, format_mib
from gpupool.burn.runtime import NOT_ESTABLISHED
from gpupool.verification.bench import ENDED, Bench, Task
from gpupool.verification.findings import Finding

SHARE_MILLI: Final = 50
SHARE_BYTES: Final = GIB
"""Room for the context of any card that we know, and a little."""
LOAD: Final = ("--memory", "16MiB", "--kernel-us", "500", "--interval-ms", "100", "--seconds", "60")
"""Longer than two samples of an agent, which by default are 10 s apart; it is stopped when it has been seen."""
ROUNDING: Final = 4 * MIB
_SHELL: Final = '"$@" --over-allocate && exec "$@" ' + " ".join(LOAD)
_PATIENCE_SECONDS: Final = 40.0
_SLACK_MS: Final = 250.0
"""Of GPU time that the load does not count as its own: finding its step, writing its memory."""


@dataclass(frozen=True)
class Seen:
    """What the ledger says of the load's process, and what its load was worth just before and after that was read.

    `others`: the pids of the ledger, where the process was not among them.
    """

    pid: int
    gpu_ms: float = 0.0
    used_bytes: int = 0
    least_ms: float = 0.0
    most_ms: float = 0.0
    others: tuple[int, ...] = ()


def share(bench: Bench) -> list[Finding]:
    """Limit seen, limit enforced, process registered, time counted. Raises Refused without room, Unavailable."""
    task = bench.submit("fence", (), gpu_milli=SHARE_MILLI, memory_bytes=SHARE_BYTES, shell=_SHELL)
    refused = task.until(lambda record: record.first("refused"), "being refused")
    pid = int(task.until(lambda record: _second_pid(record.all("card")), "its load"))
    task.until(lambda record: record.first("stretch"), "its first stretch")
    seen = _watch(task, pid)
    task.stop()
    return [*_memory(task, refused), _registered(seen), _time(seen)]


def _second_pid(cards: Sequence[Mapping[str, Any]]) -> int | None:
    return int(cards[1]["pid"]) if len(cards) > 1 else None


def _watch(task: Task, pid: int) -> Seen:
    """Wait until the pool shows GPU time of this process. What it never saw is 0."""
    seen, before = Seen(pid), 0.0
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while not seen.gpu_ms and time.monotonic() < deadline:
        task.read(0.2)  # waits where nothing is new
        job = task.latest()
        use, worth = job["use"] or {"processes": []}, _worth_ms(task)
        if job["state"] in ENDED:
            raise task.silent("be seen in its ledger")
        cards = [card for one in use["processes"] if one["pid"] == pid for card in one["cards"]]
        seen = Seen(
            pid,
            sum(card["gpu_nanoseconds"] for card in cards) / 1e6,
            sum(card["used_bytes"] for card in cards),
            before,
            worth,
            tuple(one["pid"] for one in use["processes"]),
        )
        before = worth
    return seen


def _worth_ms(task: Task) -> float:
    """What the load says that it got so far, in milliseconds of a card of its own."""
    return sum((one.end_ns - one.begin_ns) * one.rate for one in task.record.series()) / 1e6


def _memory(task: Task, refused: Mapping[str, Any]) -> tuple[Finding, Finding]:
    card, level = task.card(), task.latest()["fence"]
    total, given, least = card["total_bytes"], refused["given_bytes"], card["free_bytes"] - ROUNDING
    return (
        Finding(
            "limit-seen",
            "limit seen",
            format_mib(SHARE_BYTES),
            f"the driver shows {format_mib(total)} on {task.job['device']}, fence {level}",
            total == SHARE_BYTES,
            {"share_bytes": SHARE_BYTES, "seen_bytes": total},
        ),
        Finding(
            "limit-enforced",
            "limit enforced",
            f"{format_mib(least)} to {format_mib(SHARE_BYTES)}",
            f"{format_mib(given)} were given, the next cuMemAlloc had CUDA_ERROR_OUT_OF_MEMORY",
            least <= given <= SHARE_BYTES,
            {"given_bytes": given, "free_at_start_bytes": card["free_bytes"]},
        ),
    )


def _registered(seen: Seen) -> Finding:
    missing = f"after {_PATIENCE_SECONDS:g} s the pool shows {list(seen.others) or 'nobody'} in the ledger"
    return Finding(
        "registered",
        "process registered",
        f"pid {seen.pid} in the ledger, with its memory",
        f"pid {seen.pid} with {format_mib(seen.used_bytes)} in the ledger" if seen.used_bytes else missing,
        seen.used_bytes >= 16 * MIB,
        {"pid": seen.pid, "used_bytes": seen.used_bytes, "pids": list(seen.others)},
    )


def _time(seen: Seen) -> Finding:
    """The ledger's GPU time against what the load says it was worth, with room for what is on its way."""
    least, most = seen.least_ms / 2, seen.most_ms * 1.5 + _SLACK_MS
    return Finding(
        "time-counted",
        "time counted",
        f"{least:.0f} to {most:.0f} ms",
        f"the ledger counted {seen.gpu_ms:.0f} ms of GPU time for a load that had {seen.most_ms:.0f} ms",
        seen.gpu_ms > 0 and least <= seen.gpu_ms <= most,
        {"ledger_ms": seen.gpu_ms, "load_ms": [seen.least_ms, seen.most_ms]},
    )


# A CUDA runtime --------------------------------------------------------------------------------------


def runtime(bench: Bench, path: str, simulated: bool) -> Finding:
    """What one runtime says under the fence; where that is an error, also without. Raises Refused, Unavailable."""
    fenced = _ask(bench, path, fence=True)
    failed = _first_error(fenced)
    bare = _ask(bench, path, fence=False) if failed else fenced
    without = _first_error(bare)
    if simulated:
        more = "; it is gpupool's own, so this proves the way in and not what the vendor's checks of itself find"
    else:
        more = ""
    if "problem" in fenced:
        said, kept = f"{path} cannot be loaded: {fenced['problem']}", None if "problem" in bare else False
    elif not failed:
        said, kept = f"{path} (CUDA {_version(fenced)}) starts and counts {fenced['cards']}{more}", True
    else:
        same = without == failed
        said = f"{path}: {_words(failed)} under the fence, {'the same' if same else _words(without)} without"
        kept = None if same else False
    numbers = {"fenced": fenced.get("results"), "bare": bare.get("results"), "path": path}
    return Finding(
        "cuda-runtime", "cuda runtime", "no error 103 that is not there without the fence", said, kept, numbers
    )


def _ask(bench: Bench, path: str, *, fence: bool) -> dict[str, Any]:
    argv = [sys.executable, "-m", "gpupool.burn.runtime", path]
    task = bench.program("runtime", argv, SHARE_MILLI, SHARE_BYTES, fence=fence)
    said: dict[str, Any] = task.until(lambda record: record.first("runtime"), "its first call")
    task.end()
    return said


def _first_error(said: Mapping[str, Any]) -> tuple[str, int] | None:
    if "problem" in said:
        return ("dlopen", -1)
    return next(((name, result) for name, result in said["results"].items() if result), None)


def _words(error: tuple[str, int] | None) -> str:
    if error is None:
        return "none"
    name = " (cudaErrorSoftwareValidityNotEstablished)" if error[1] == NOT_ESTABLISHED else ""
    return f"{error[0]} says {error[1]}{name}"


def _version(said: Mapping[str, Any]) -> str:
    return f"{said['version'] // 1000}.{said['version'] % 1000 // 10}"


def could_not(title: str, error: GpupoolError) -> Finding:
    """A check that could not be made: a broken promise where the job was silent, else not shown."""
    said = error.message + (f" ({error.hint})" if error.hint else "")
    return Finding(title, title, "it can be shown", said, False if isinstance(error, Unavailable) else None)
