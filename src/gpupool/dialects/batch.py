"""What a batch script asks for, and the line that submits it here. The normal form of Slurm's and LSF's words."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from gpupool.base.units import MIB
from gpupool.dialects.contract import NO_HINTS, Ask, ContainerClaim
from gpupool.dialects.normal import plain
from gpupool.dialects.shapes import shape_of


@dataclass(frozen=True)
class JobClaim:
    """One job: `ask` is per node, of `members` nodes that start together; `array` of them one by one."""

    ask: Ask
    name: str | None = None
    cpu_milli: int = 0
    host_bytes: int = 0
    max_seconds: int | None = None
    members: int = 1
    array: int | None = None
    project: str | None = None
    queue: str | None = None
    requeue: bool = False
    rules: tuple[str, ...] = ()
    guesses: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def submit_line(job: JobClaim, command: tuple[str, ...], card_memory: int | None = None) -> tuple[str, tuple[str, ...]]:
    """What to type, and what that cannot say. Raises FactMissing."""
    shaped = shape_of(ContainerClaim("job", "app", job.ask), NO_HINTS, card_memory)
    words = ["gpupool", "submit", *_share(job.ask, shaped.shape.memory_bytes), *_job(job), "--", *command]
    left_out = [*shaped.left_out]
    if job.queue is not None:
        left_out.append(f"the queue {job.queue}: what a tenant may have is its quota's to say")
    if job.array is not None and job.members > 1:
        left_out.append(f"an array of gangs: submit it {job.array} times")
    return shlex.join(words), tuple(left_out)


def _share(ask: Ask, memory: int | None) -> Iterator[str]:
    if ask.whole and memory is None:
        yield from ("--gpu", str(ask.count))
    else:
        if ask.gpu_milli is not None:
            yield from ("--gpu", f"{ask.gpu_milli / 1000:.3f}".rstrip("0").rstrip("."))
        if memory is not None:
            yield from ("--memory", f"{memory // MIB}MiB")
        if ask.count > 1:
            yield from ("--count", str(ask.count))
    if ask.sharing is not None and ask.sharing != "fixed":
        yield from ("--sharing", str(ask.sharing))
    if ask.select.models:
        yield from ("--model", "|".join(ask.select.models))
    for key, value in ask.select.labels:
        yield from ("--label", f"{key}={value}")


def _job(job: JobClaim) -> Iterator[str]:
    options: tuple[tuple[str, Any], ...] = (
        ("--name", job.name),
        ("--cpus", f"{job.cpu_milli / 1000:g}" if job.cpu_milli else None),
        ("--host-memory", f"{job.host_bytes // MIB}MiB" if job.host_bytes else None),
        ("--max-time", f"{job.max_seconds}s" if job.max_seconds else None),
        ("--gang", job.members if job.members > 1 else None),
        ("--array", job.array if job.members == 1 else None),
        ("--project", job.project),
    )
    for option, value in options:
        if value is not None:
            yield from (option, str(value))
    if job.requeue:
        yield "--requeue"


def document(job: JobClaim) -> dict[str, Any]:
    """Plain data; what is not said is left out."""
    told: dict[str, Any] = plain({"share": str(job.ask)} | asdict(job))
    return {key: value for key, value in told.items() if value}
