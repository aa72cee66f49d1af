"""VirtAI's OrionX: so many vGPUs, their size in the environment of the process.

Source: virtaitech/orion doc (environment of the client, Kubernetes), its later yaml examples.
"""

from __future__ import annotations

from gpupool.base.errors import ContradictoryManifest, ForeignValue, NotExpressible
from gpupool.base.units import MIB, WHOLE
from gpupool.dialects import amounts
from gpupool.dialects.contract import (
    NO_COMPUTE,
    ContainerAsk,
    Dialect,
    KnownWord,
    PodReading,
    WordPlace,
)
from gpupool.dialects.facts import NodeFacts
from gpupool.dialects.pod import PlacedWord, PodContainer, PodView

#: The resource counts vGPUs; their size is in variables of the process.
GPU = "virtaitech.com/gpu"
COUNT = "ORION_VGPU"
MEMORY = "ORION_GMEM"
RATIO = "ORION_RATIO"
CROSS = "ORION_CROSS_NODE"
RESERVED = "ORION_RESERVED"


def read_words(pod: PodView, _facts: NodeFacts) -> PodReading:
    asks = {}
    for one in pod.containers:
        if one.asks_for(GPU) or _find_variable(one, COUNT) is not None:
            asks[one.name] = _read_ask(one)
    return PodReading(asks)


def _find_variable(one: PodContainer, key: str) -> PlacedWord | None:
    word = one.env.get(key)
    return None if word is None or word.value is None else word


def _read_ask(one: PodContainer) -> ContainerAsk:
    count = _read_count(one)
    memory = _find_variable(one, MEMORY)
    ratio = _find_variable(one, RATIO)
    milli = None if ratio is None else amounts.parse_percent(ratio)
    size = None if memory is None else amounts.parse_mebibytes(memory)
    if size is None and milli not in (None, WHOLE):
        raise ForeignValue(
            f"{ratio} without {MEMORY}: how much memory?",
            hint=f"add {MEMORY} in MiB",
            path=one.path,
        )
    if size is None:
        milli = WHOLE
    _check_crossing(one, count, milli)
    rules = [f"orionx: {count} vGPUs" if count > 1 else "orionx: one vGPU"]
    rules += [f"orionx: {memory} MiB each = {(size or 0) // MIB} MiB"] if memory is not None else []
    rules += [f"orionx: {ratio} % of a card's compute each"] if ratio is not None else []
    guesses = () if milli is not None else (NO_COMPUTE,)
    notes = ["two vGPUs are never on one card here"] if count > 1 else []
    reserved = _find_variable(one, RESERVED)
    if reserved is not None and not amounts.read_truth(reserved):
        notes.append(
            f"{reserved}: a share is held from start to end here, not only while a process uses it"
        )
    return ContainerAsk(
        count, milli, memory_bytes=size, rules=tuple(rules), guesses=guesses, notes=tuple(notes)
    )


def _read_count(one: PodContainer) -> int:
    resource = one.find_resource(GPU)
    env = _find_variable(one, COUNT)
    counts = []
    for word in (resource, env):
        if word is not None:
            counts.append(amounts.parse_integer(word, 1, 64))
    if len(set(counts)) > 1:
        assert env is not None
        raise ContradictoryManifest(f"{env}, but {resource}", hint="make them equal", path=env.path)
    return counts[0]


def _check_crossing(one: PodContainer, count: int, milli: int | None) -> None:
    word = _find_variable(one, CROSS)
    if word is None or not amounts.read_truth(word):
        return
    if milli != WHOLE:
        raise ForeignValue(f"{word} needs {RATIO} 100", hint=f"set {CROSS} to 0", path=word.path)
    # Orion may take the cards of one container from several nodes over the network.
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
        KnownWord(
            GPU, WordPlace.RESOURCE, "integer", "so many vGPUs, here each on a card of its own"
        ),
        KnownWord(
            COUNT,
            WordPlace.ENV,
            "integer",
            "the same, per process; another number than the resource is refused",
        ),
        KnownWord(MEMORY, WordPlace.ENV, "MiB", "memory of each"),
        KnownWord(RATIO, WordPlace.ENV, "1-100", "percent of a card's compute for each"),
        KnownWord(
            CROSS,
            WordPlace.ENV,
            "0, 1",
            "1 with several vGPUs is refused: a container's cards are in one node",
        ),
        KnownWord(RESERVED, WordPlace.ENV, "0, 1", "0 is noted: a share is held from start to end"),
        KnownWord("ORION_GROUP_ID", WordPlace.ENV, "-", "ignored: the pod itself is known"),
        KnownWord("ORION_CONTROLLER", WordPlace.ENV, "-", "ignored"),
        KnownWord("ORION_DEVICE_TYPE", WordPlace.ENV, "-", "ignored"),
    ),
    read_words,
    prefixes=("virtaitech.com/",),
    schedulers=("orion-scheduler",),
)
