"""VirtAI's OrionX: so many vGPUs, their size in the environment of the process.

Source: virtaitech/orion doc (environment of the client, Kubernetes), its later yaml examples.
"""

from __future__ import annotations

from gpupool.base.errors import Contradiction, ForeignValue, NotExpressible
from gpupool.base.units import MIB, WHOLE
from gpupool.dialects import amounts
from gpupool.dialects.contract import NO_COMPUTE, Ask, Dialect, Name, Reading, Where
from gpupool.dialects.facts import NodeFacts
from gpupool.dialects.pod import Container, Pod, Word

GPU = "virtaitech.com/gpu"
COUNT, MEMORY, RATIO, CROSS, RESERVED = "ORION_VGPU", "ORION_GMEM", "ORION_RATIO", "ORION_CROSS_NODE", "ORION_RESERVED"


def read(pod: Pod, _facts: NodeFacts) -> Reading:
    asking = [one for one in pod.containers if one.asks(GPU) or _said(one, COUNT) is not None]
    return Reading({one.name: _ask(one) for one in asking})


def _said(one: Container, key: str) -> Word | None:
    word = one.env.get(key)
    return None if word is None or word.value is None else word


def _ask(one: Container) -> Ask:
    count = _count(one)
    memory, ratio = _said(one, MEMORY), _said(one, RATIO)
    milli = None if ratio is None else amounts.percent(ratio)
    size = None if memory is None else amounts.mebibytes(memory)
    if size is None and milli not in (None, WHOLE):
        raise ForeignValue(f"{ratio} without {MEMORY}: how much memory?", hint=f"add {MEMORY} in MiB", path=one.path)
    if size is None:
        milli = WHOLE
    _crossing(one, count, milli)
    rules = [f"orionx: {count} vGPUs" if count > 1 else "orionx: one vGPU"]
    rules += [f"orionx: {memory} MiB each = {(size or 0) // MIB} MiB"] if memory is not None else []
    rules += [f"orionx: {ratio} % of a card's compute each"] if ratio is not None else []
    guesses = () if milli is not None else (NO_COMPUTE,)
    notes = ["two vGPUs are never on one card here"] if count > 1 else []
    reserved = _said(one, RESERVED)
    if reserved is not None and not amounts.truth(reserved):
        notes.append(f"{reserved}: a share is held from start to end here, not only while a process uses it")
    return Ask(count, milli, memory_bytes=size, rules=tuple(rules), guesses=guesses, notes=tuple(notes))


def _count(one: Container) -> int:
    resource, env = one.resource(GPU), _said(one, COUNT)
    counts = [amounts.integer(word, 1, 64) for word in (resource, env) if word is not None]
    if len(set(counts)) > 1:
        assert env is not None
        raise Contradiction(f"{env}, but {resource}", hint="make them equal", path=env.path)
    return counts[0]


def _crossing(one: Container, count: int, milli: int | None) -> None:
    word = _said(one, CROSS)
    if word is None or not amounts.truth(word):
        return
    if milli != WHOLE:
        raise ForeignValue(f"{word} needs {RATIO} 100", hint=f"set {CROSS} to 0", path=word.path)
    if count > 1:
        raise NotExpressible(
            f"{word}: the cards of one container are in one node here",
            hint=f"set {CROSS} to 0, or make it a gang of pods",
            path=word.path,
        )


DIALECT = Dialect(
    "orionx",
    "VirtAI OrionX",
    "https://github.com/virtaitech/orion",
    (
        Name(GPU, Where.RESOURCE, "integer", "so many vGPUs, here each on a card of its own"),
        Name(COUNT, Where.ENV, "integer", "the same, per process; another number than the resource is refused"),
        Name(MEMORY, Where.ENV, "MiB", "memory of each"),
        Name(RATIO, Where.ENV, "1-100", "percent of a card's compute for each"),
        Name(CROSS, Where.ENV, "0, 1", "1 with several vGPUs is refused: a container's cards are in one node"),
        Name(RESERVED, Where.ENV, "0, 1", "0 is noted: a share is held from start to end"),
        Name("ORION_GROUP_ID", Where.ENV, "-", "ignored: the pod itself is known"),
        Name("ORION_CONTROLLER", Where.ENV, "-", "ignored"),
        Name("ORION_DEVICE_TYPE", Where.ENV, "-", "ignored"),
    ),
    read,
    prefixes=("virtaitech.com/",),
    schedulers=("orion-scheduler",),
)
