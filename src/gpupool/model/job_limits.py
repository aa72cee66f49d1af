"""What a job may have of its node beside cards: resource limits (setrlimit(2)), processes and main
memory.

A caller asks for limits; the kernel and the administrator say how much of that a job gets. Pure.
Must not know how the caller was found or how limits are put in force (ADR 0021).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from gpupool.base.errors import BadOption
from gpupool.base.units import MIB, parse_memory

UNLIMITED: Final = -1
PROCESSES: Final = "processes"
HOST_MEMORY: Final = "host-memory"
PROCESSES_DEFAULT: Final = 16_384
#: Part of a node's main memory that jobs of no requested size leave to the system: 1/16, at least
#: 512 MiB.
HOST_MEMORY_LEFT_PART: Final = 16
HOST_MEMORY_LEFT_LEAST: Final = 512 * MIB

#: Soft and hard; UNLIMITED is no limit.
Pair = tuple[int, int]

#: For callers whose own limits the server cannot read: over TCP, or as another user. Bytes, files,
#: priorities as in setrlimit(2); what Debian's kernel and systemd give a login, and no real-time
#: rights.
DEFAULTS: Final[Mapping[str, Pair]] = MappingProxyType(
    {
        "as": (UNLIMITED, UNLIMITED),
        "core": (0, UNLIMITED),
        "cpu": (UNLIMITED, UNLIMITED),
        "data": (UNLIMITED, UNLIMITED),
        "fsize": (UNLIMITED, UNLIMITED),
        "locks": (UNLIMITED, UNLIMITED),
        "memlock": (8 * MIB, 8 * MIB),
        "msgqueue": (819_200, 819_200),
        "nice": (0, 0),
        "nofile": (1024, 524_288),
        "nproc": (PROCESSES_DEFAULT, PROCESSES_DEFAULT),
        "rss": (UNLIMITED, UNLIMITED),
        "rtprio": (0, 0),
        "rttime": (UNLIMITED, UNLIMITED),
        "sigpending": (PROCESSES_DEFAULT, PROCESSES_DEFAULT),
        "stack": (8 * MIB, UNLIMITED),
    }
)


def tighten(one: int, other: int) -> int:
    """The tighter of two limits."""
    if one < 0:
        return other
    return one if other < 0 else min(one, other)


@dataclass(frozen=True)
class JobLimits:
    """The administrator's part. `most` bounds every job; a name without one is bounded by the
    caller's own limit."""

    most: Mapping[str, Pair] = field(default_factory=dict)
    processes: int = PROCESSES_DEFAULT
    #: Main memory of a job that asked for none; None: all but a part that the system keeps.
    host_bytes: int | None = None

    def grant_limits(
        self, asked: Mapping[str, Pair], own: Mapping[str, Pair] | None
    ) -> dict[str, Pair]:
        """Every limit of a job, none above what the caller or the administrator has.

        Args:
            asked: as the request says; may hold any number.
            own: the caller's own limits by the kernel, None where nothing is known of them.
        """
        base = DEFAULTS if own is None else {**DEFAULTS, **own}
        found = {}
        for name, pair in base.items():
            found[name] = self._grant_limit(name, asked.get(name, pair), pair)
        return found

    def _grant_limit(self, name: str, asked: Pair, own: Pair) -> Pair:
        most = self.most.get(name, (UNLIMITED, UNLIMITED))
        hard = tighten(tighten(asked[1], own[1]), most[1])
        return tighten(tighten(asked[0], most[0]), hard), hard

    def restrict_to(self, own: Mapping[str, Pair]) -> JobLimits:
        """The same, bounded by a server that has no right to raise its own limits for its jobs."""
        most = {name: (UNLIMITED, pair[1]) for name, pair in own.items()}
        for name, (soft, hard) in self.most.items():
            top = tighten(hard, most.get(name, (UNLIMITED, UNLIMITED))[1])
            most[name] = tighten(soft, top), top
        return JobLimits(most, self.processes, self.host_bytes)

    def host_memory_bytes(self, node_bytes: int) -> int:
        """What a job that asked for no main memory is held to on a node with so much of it."""
        if self.host_bytes is not None:
            return self.host_bytes
        return max(
            node_bytes - max(node_bytes // HOST_MEMORY_LEFT_PART, HOST_MEMORY_LEFT_LEAST),
            node_bytes // 2,
        )


#: Where an administrator said nothing.
USUAL: Final = JobLimits()


def parse_job_limits(texts: Iterable[str]) -> JobLimits:
    """From `nofile=1024:65536`, `memlock=unlimited`, `processes=4096`, `host-memory=64GiB`. Raises
    BadOption."""
    most: dict[str, Pair] = {}
    processes = USUAL.processes
    host_bytes = USUAL.host_bytes
    for text in texts:
        name, _, value = text.partition("=")
        if name == PROCESSES:
            processes = _number(text, value, least_allowed=1)
        elif name == HOST_MEMORY:
            host_bytes = parse_memory(value)
        elif name in DEFAULTS:
            most[name] = _pair(text, value)
        else:
            known = ", ".join((*DEFAULTS, PROCESSES, HOST_MEMORY))
            raise BadOption(f"--job-limit {text}: got the name {name!r}, expected one of {known}")
    return JobLimits(most, processes, host_bytes)


def _pair(text: str, value: str) -> Pair:
    soft, _, hard = value.partition(":")
    pair = _number(text, soft), _number(text, hard or soft)
    if tighten(*pair) != pair[0]:
        raise BadOption(
            f"--job-limit {text}: the soft limit is above the hard limit",
            hint="write NAME=SOFT:HARD",
        )
    return pair


def _number(text: str, value: str, least_allowed: int = 0) -> int:
    if value == "unlimited" and not least_allowed:
        return UNLIMITED
    if value.isascii() and value.isdigit() and least_allowed <= int(value) < 1 << 63:
        return int(value)
    raise BadOption(
        f"--job-limit {text}: got {value!r}, expected a number", hint="like nofile=1024:65536"
    )
