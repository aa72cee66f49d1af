"""A server with nothing to do: its memory, and what wakes it beyond the heartbeats."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.pool import running_pool
from bench.rows import Row

NAME = "idle"
SIM = "8xH200"
SECONDS = 60.0
HEARTBEAT_SECONDS = 25
"""The agent's long poll for work; the one thing that may wake an idle pool."""
QUIET_SECONDS = 3.0
"""A pool that is this long without a wake-up has settled."""
SETTLE_LIMIT_SECONDS = 120.0
LOOK_SECONDS = 0.05
"""How often the counters are read, from outside; what wakes within a second of a wake-up belongs to
it."""
TOGETHER_SECONDS = 1.0
RSS_LIMIT_MIB = 150.0
COMMAND = (
    f"gpupool up -d --sim {SIM}; voluntary context switches of every thread over {SECONDS:.0f} s"
)

Switches = Mapping[int, int]


@dataclass
class Burst:
    """Wake-ups close together: when the first of them was, and how many each thread had."""

    began: float
    last: float
    threads: dict[int, int]

    @property
    def wakeups(self) -> int:
        return sum(self.threads.values())


def run(out: Path) -> list[Row]:
    with running_pool(SIM) as pool:
        settle(pool.pid)
        bursts = watch(pool.pid, SECONDS)
        rss = rss_mib(pool.pid)
        (out / "idle.txt").write_text(_told(pool.pid, bursts))
    other = beyond_heartbeats(bursts)
    return [
        Row("idle: resident memory", "MiB", rss, COMMAND, limit=RSS_LIMIT_MIB),
        Row(
            "idle: times it woke, with heartbeats",
            "",
            len(bursts),
            COMMAND,
            limit=SECONDS // HEARTBEAT_SECONDS + 1,
        ),
        Row(
            "idle: wake-ups beyond heartbeats", "", sum(b.wakeups for b in other), COMMAND, limit=0
        ),
        Row(
            "idle: thread wake-ups in a heartbeat",
            "",
            max((b.wakeups for b in bursts if b not in other), default=0),
            COMMAND,
            note="idle.txt has them by thread",
        ),
    ]


def settle(pid: int) -> None:
    """Wait until nothing has woken for a while."""
    deadline = time.monotonic() + SETTLE_LIMIT_SECONDS
    quiet_since, before = time.monotonic(), switches(pid)
    while time.monotonic() - quiet_since < QUIET_SECONDS:
        if time.monotonic() > deadline:
            raise TimeoutError(f"the pool is never {QUIET_SECONDS:g} s without a wake-up")
        time.sleep(LOOK_SECONDS)
        now = switches(pid)
        if now != before:
            quiet_since, before = time.monotonic(), now


def watch(pid: int, seconds: float) -> list[Burst]:
    """What wakes for so long, in bursts."""
    bursts: list[Burst] = []
    began, before = time.monotonic(), switches(pid)
    while (at := time.monotonic() - began) < seconds:
        time.sleep(LOOK_SECONDS)
        now = switches(pid)
        woken = {
            tid: count - before.get(tid, 0)
            for tid, count in now.items()
            if count != before.get(tid, 0)
        }
        before = now
        if woken and (not bursts or at - bursts[-1].last > TOGETHER_SECONDS):
            bursts.append(Burst(at, at, woken))
        elif woken:
            bursts[-1].last = at
            bursts[-1].threads = {
                tid: bursts[-1].threads.get(tid, 0) + woken.get(tid, 0)
                for tid in {*bursts[-1].threads, *woken}
            }
    return bursts


def beyond_heartbeats(bursts: Sequence[Burst]) -> list[Burst]:
    """Bursts that come too soon after one that may have been a heartbeat.

    Which of several is the heartbeat is not known from outside; the reading that leaves the fewest
    is taken.
    """
    readings = [_too_soon(bursts, first) for first in range(len(bursts))]
    return min(readings, key=len, default=[])


def _too_soon(bursts: Sequence[Burst], first: int) -> list[Burst]:
    """Which are no heartbeats if the one at `first` is the first heartbeat."""
    due, others = bursts[first].began, list(bursts[:first])
    for burst in bursts[first:]:
        if burst.began < due - TOGETHER_SECONDS:
            others.append(burst)
        else:
            due = burst.began + HEARTBEAT_SECONDS
    return others


def switches(pid: int) -> Switches:
    """Voluntary context switches by thread: each is a sleep that something will end."""
    return {
        int(task.name): _status(task, "voluntary_ctxt_switches")
        for task in Path(f"/proc/{pid}/task").iterdir()
    }


def rss_mib(pid: int) -> float:
    return _status(Path(f"/proc/{pid}"), "VmRSS") / 1024


def _status(process: Path, name: str) -> int:
    for line in (process / "status").read_text().splitlines():
        key, _, value = line.partition(":")
        if key == name:
            return int(value.split()[0])
    raise KeyError(name)


def _told(pid: int, bursts: Sequence[Burst]) -> str:
    """Per burst and thread, with the call in which the thread sleeps now."""
    lines = [f"{len(bursts)} bursts of wake-ups in {SECONDS:.0f} s"]
    for burst in bursts:
        lines.append(f"at {burst.began:.2f} s, over {burst.last - burst.began:.2f} s:")
        lines += [
            f"  thread {tid} {_sleeps_in(pid, tid)}: {n}"
            for tid, n in sorted(burst.threads.items())
        ]
    return "\n".join(lines) + "\n"


def _sleeps_in(pid: int, tid: int) -> str:
    try:
        return f"({Path(f'/proc/{pid}/task/{tid}/wchan').read_text().strip() or 'runs'})"
    except FileNotFoundError:
        return "(ended)"
