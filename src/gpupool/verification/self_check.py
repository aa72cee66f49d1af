"""Check the fence for `gpupool doctor`: a short job in a tiny share, one for each CUDA runtime.

What the job reports of itself (`gpupool burn`) is compared with what the pool reports of it, which
its agent has read from the fence's usage counters.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from gpupool.base.errors import GpupoolError, ServiceUnavailable
from gpupool.base.units import GIB, MIB, format_mib
from gpupool.burn.runtime import NOT_ESTABLISHED
from gpupool.verification.bench import VerificationBench
from gpupool.verification.findings import PromiseFinding
from gpupool.verification.verification_job import ENDED, VerificationJob

#: Thousandths: small enough to find room in a busy pool.
SHARE_MILLI: Final = 50
#: Room for the context of any card that we know, and a little.
SHARE_BYTES: Final = GIB
#: Longer than two samples of an agent, which by default are 10 s apart; it is stopped when it has
#: been seen.
LOAD: Final = ("--memory", "16MiB", "--kernel-us", "500", "--interval-ms", "100", "--seconds", "60")
#: The driver gives memory in pages of 2 MiB, at most two of them are lost to rounding.
ROUNDING: Final = 4 * MIB
#: The first burn allocates until it is refused, the second is the load: two processes, since the
#: first ends with its context.
_SHELL: Final = '"$@" --over-allocate && exec "$@" ' + " ".join(LOAD)
#: Above two samples of an agent and the start of a job.
_PATIENCE_SECONDS: Final = 40.0
#: Of GPU time that the load does not count as its own: finding its step, writing its memory.
_SLACK_MS: Final = 250.0


@dataclass(frozen=True)
class LedgerReading:
    """What the counters say of the load's process, between two readings of the load itself.

    Attributes:
        least_ms: What the load had reported before the counters were read.
        most_ms: What it had reported after.
        others: The pids in the counters.
    """

    pid: int
    gpu_ms: float = 0.0
    used_bytes: int = 0
    least_ms: float = 0.0
    most_ms: float = 0.0
    others: tuple[int, ...] = ()


def check_share(bench: VerificationBench) -> list[PromiseFinding]:
    """Limit seen, limit enforced, process registered, time counted. Raises RequestRejection without room,
    Unavailable."""
    task = bench.submit_burn(
        "fence", (), gpu_milli=SHARE_MILLI, memory_bytes=SHARE_BYTES, shell=_SHELL
    )
    refused = task.await_line(lambda record: record.find_first("refused"), "being refused")
    pid = int(
        task.await_line(lambda record: _find_second_pid(record.list_lines("card")), "its load")
    )
    task.await_line(lambda record: record.find_first("stretch"), "its first stretch")
    seen = _watch_ledger(task, pid)
    task.stop_job()
    return [*_judge_memory(task, refused), _judge_process(seen), _judge_time(seen)]


def _find_second_pid(cards: Sequence[Mapping[str, Any]]) -> int | None:
    return int(cards[1]["pid"]) if len(cards) > 1 else None


def _watch_ledger(task: VerificationJob, pid: int) -> LedgerReading:
    """Wait until the pool shows GPU time of this process; what it never shows is 0."""
    seen = LedgerReading(pid)
    before = 0.0
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while not seen.gpu_ms and time.monotonic() < deadline:
        task.read_log(0.2)  # waits where nothing is new
        job = task.fetch_job()
        use = job["use"] or {"processes": []}
        worth = _compute_worth_ms(task)
        if job["state"] in ENDED:
            raise task.build_silence_error("be seen in its ledger")
        gpu_ns = 0
        used_bytes = 0
        pids: list[int] = []
        for process in use["processes"]:
            pids.append(process["pid"])
            if process["pid"] == pid:
                gpu_ns += sum(card["gpu_nanoseconds"] for card in process["cards"])
                used_bytes += sum(card["used_bytes"] for card in process["cards"])
        seen = LedgerReading(pid, gpu_ns / 1e6, used_bytes, before, worth, tuple(pids))
        before = worth
    return seen


def _compute_worth_ms(task: VerificationJob) -> float:
    """Compute what the load got so far by its own report, in milliseconds of a whole card."""
    return sum((one.end_ns - one.begin_ns) * one.rate for one in task.record.list_stretches()) / 1e6


def _judge_memory(
    task: VerificationJob, refused: Mapping[str, Any]
) -> tuple[PromiseFinding, PromiseFinding]:
    card = task.get_card()
    level = task.fetch_job()["fence"]
    total = card["total_bytes"]
    given = refused["given_bytes"]
    least = card["free_bytes"] - ROUNDING
    return (
        PromiseFinding(
            "limit-seen",
            "limit seen",
            format_mib(SHARE_BYTES),
            f"the driver shows {format_mib(total)} on {task.job['device']}, fence {level}",
            total == SHARE_BYTES,
            {"share_bytes": SHARE_BYTES, "seen_bytes": total},
        ),
        PromiseFinding(
            "limit-enforced",
            "limit enforced",
            f"{format_mib(least)} to {format_mib(SHARE_BYTES)}",
            f"{format_mib(given)} were given, the next cuMemAlloc had CUDA_ERROR_OUT_OF_MEMORY",
            least <= given <= SHARE_BYTES,
            {"given_bytes": given, "free_at_start_bytes": card["free_bytes"]},
        ),
    )


def _judge_process(seen: LedgerReading) -> PromiseFinding:
    missing = f"after {_PATIENCE_SECONDS:g} s the pool shows {list(seen.others) or 'nobody'} in the ledger"
    return PromiseFinding(
        "registered",
        "process registered",
        f"pid {seen.pid} in the ledger, with its memory",
        f"pid {seen.pid} with {format_mib(seen.used_bytes)} in the ledger"
        if seen.used_bytes
        else missing,
        seen.used_bytes >= 16 * MIB,
        {"pid": seen.pid, "used_bytes": seen.used_bytes, "pids": list(seen.others)},
    )


def _judge_time(seen: LedgerReading) -> PromiseFinding:
    """Judge the counted GPU time by what the load reports, with room for what is on its way."""
    # The agent's sample is older than the load's report, by up to the time between two samples.
    least = seen.least_ms / 2
    most = seen.most_ms * 1.5 + _SLACK_MS
    return PromiseFinding(
        "time-counted",
        "time counted",
        f"{least:.0f} to {most:.0f} ms",
        f"the ledger counted {seen.gpu_ms:.0f} ms of GPU time for a load that had {seen.most_ms:.0f} ms",
        seen.gpu_ms > 0 and least <= seen.gpu_ms <= most,
        {"ledger_ms": seen.gpu_ms, "load_ms": [seen.least_ms, seen.most_ms]},
    )


# A CUDA runtime --------------------------------------------------------------------------------------


def check_runtime(bench: VerificationBench, path: str, simulated: bool) -> PromiseFinding:
    """Check one CUDA runtime under the fence; after an error also without it, to tell whose it is.

    Raises:
        RequestRejection, ServiceUnavailable: if a job finds no room or does not answer.
    """
    fenced = _run_program(bench, path, fence=True)
    failed = _find_first_error(fenced)
    bare = _run_program(bench, path, fence=False) if failed else fenced
    without = _find_first_error(bare)
    if simulated:
        more = "; it is gpupool's own, so this proves the way in and not what the vendor's checks of itself find"
    else:
        more = ""
    kept: bool | None = False
    if "problem" in fenced:
        measured = f"{path} cannot be loaded: {fenced['problem']}"
        if "problem" in bare:
            kept = None
    elif not failed:
        version = _format_version(fenced)
        measured = f"{path} (CUDA {version}) starts and counts {fenced['cards']}{more}"
        kept = True
    else:
        # The same error without the fence is the machine's, and shows nothing about the fence.
        same = without == failed
        bare_words = "the same" if same else _describe_error(without)
        measured = f"{path}: {_describe_error(failed)} under the fence, {bare_words} without"
        if same:
            kept = None
    numbers = {"fenced": fenced.get("results"), "bare": bare.get("results"), "path": path}
    return PromiseFinding(
        "cuda-runtime",
        "cuda runtime",
        "no error 103 that is not there without the fence",
        measured,
        kept,
        numbers,
    )


def _run_program(bench: VerificationBench, path: str, *, fence: bool) -> dict[str, Any]:
    argv = [sys.executable, "-m", "gpupool.burn.runtime", path]
    task = bench.submit_program("runtime", argv, SHARE_MILLI, SHARE_BYTES, fence=fence)
    said: dict[str, Any] = task.await_line(
        lambda record: record.find_first("runtime"), "its first call"
    )
    task.await_end()
    return said


def _find_first_error(said: Mapping[str, Any]) -> tuple[str, int] | None:
    if "problem" in said:
        return ("dlopen", -1)
    for name, result in said["results"].items():
        if result:
            return name, result
    return None


def _describe_error(error: tuple[str, int] | None) -> str:
    if error is None:
        return "none"
    name = " (cudaErrorSoftwareValidityNotEstablished)" if error[1] == NOT_ESTABLISHED else ""
    return f"{error[0]} says {error[1]}{name}"


def _format_version(said: Mapping[str, Any]) -> str:
    return f"{said['version'] // 1000}.{said['version'] % 1000 // 10}"


def build_failure(title: str, error: GpupoolError) -> PromiseFinding:
    """Build the finding of a check that could not be made.

    A silent job is a broken promise; a pool without room shows nothing.
    """
    measured = error.message + (f" ({error.hint})" if error.hint else "")
    return PromiseFinding(
        title,
        title,
        "it can be shown",
        measured,
        False if isinstance(error, ServiceUnavailable) else None,
    )
