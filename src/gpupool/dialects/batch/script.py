"""What a batch script asks for, and the line that submits it here. The normal form of Slurm's and
LSF's words."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from gpupool.base.errors import FactMissing
from gpupool.base.units import MIB, format_percent
from gpupool.dialects.contract import NO_HINTS, NVIDIA, ContainerAsk, ContainerClaim
from gpupool.dialects.manifests.normal import make_plain
from gpupool.dialects.shapes import translate_shape
from gpupool.model.catalogue import CATALOGUE


@dataclass(frozen=True)
class JobClaim:
    """One job: `ask` is per node, of `members` nodes that start together; `array` of them one by
    one."""

    ask: ContainerAsk
    name: str | None = None
    cpu_milli: int = 0
    host_bytes: int = 0
    max_seconds: int | None = None
    members: int = 1
    array: int | None = None
    project: str | None = None
    queue: str | None = None
    requeue: bool = False
    #: The ends that it waits for, as `--after` has them.
    after: tuple[str, ...] = ()
    rules: tuple[str, ...] = ()
    guesses: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def submit_line(
    job: JobClaim, command: tuple[str, ...], card_memory: int | None = None
) -> tuple[str, tuple[str, ...]]:
    """What to type, and what that cannot say. Raises FactMissing."""
    size, why = _card_memory(job.ask, card_memory)
    shaped = translate_shape(ContainerClaim("job", "app", job.ask), NO_HINTS, size)
    words = [
        "gpupool",
        "submit",
        *_write_share(job.ask, shaped.shape.memory_bytes),
        *_write_job(job),
        "--",
        *command,
    ]
    left_out = [*why, *shaped.left_out, *_list_left_out(job.ask)]
    if job.queue is not None:
        left_out.append(f"the queue {job.queue}: what a tenant may have is its quota's to say")
    if job.array is not None and job.members > 1:
        left_out.append(f"an array of gangs: submit it {job.array} times")
    return shlex.join(words), tuple(left_out)


def _card_memory(ask: ContainerAsk, known: int | None) -> tuple[int | None, tuple[str, ...]]:
    """Bytes of a card, where a part of its memory has to be said in bytes. Raises FactMissing."""
    if ask.memory_milli is None or (ask.gpu_milli is None and ask.memory_bytes is None) or known:
        return known, ()
    # Only the catalogue knows sizes before a card is chosen.
    sizes = [CATALOGUE[name].memory_mib for name in ask.select.models if name in CATALOGUE]
    if not sizes or len(sizes) < len(ask.select.models):
        raise FactMissing(
            f"{format_percent(ask.memory_milli)} % of a card's memory beside another part of its compute:"
            " how many bytes is known when the card is",
            hint="say the size in a file of facts: `card_memory: 80GiB`, or select one model",
            fact="card_memory",
        )
    smallest = f"parts of the memory are counted on the smallest of these models: {min(sizes)} MiB"
    return min(sizes) * MIB, (smallest,) if len(set(sizes)) > 1 else ()


def _list_left_out(ask: ContainerAsk) -> Iterator[str]:
    """What of a choice of cards has no option."""
    if ask.select.uuids or ask.select.not_uuids:
        yield "single cards by UUID: a job chooses by model and label"
    if ask.select.not_models:
        yield f"no card of {', '.join(ask.select.not_models)}: a job names the models it wants"
    if ask.vendor != NVIDIA:
        yield f"cards of {ask.vendor}: select them by model"


def _write_share(ask: ContainerAsk, memory: int | None) -> Iterator[str]:
    if ask.is_whole and memory is None:
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


def _write_job(job: JobClaim) -> Iterator[str]:
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
    for end in job.after:
        yield from ("--after", end)
    if job.requeue:
        yield "--requeue"


def build_document(job: JobClaim) -> dict[str, Any]:
    """Plain data; what is not said is left out."""
    told: dict[str, Any] = make_plain({"share": str(job.ask)} | asdict(job))
    found = {}
    for key, value in told.items():
        if value:
            found[key] = value
    return found
