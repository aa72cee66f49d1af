"""VMware Bitfusion: so many remote cards, and a part of their memory.

Source: vmware/bitfusion-with-kubernetes-integration README (device plugin and webhook).
"""

from __future__ import annotations

from gpupool.base.errors import ContradictoryManifest
from gpupool.base.units import MIB, WHOLE
from gpupool.dialects import amounts
from gpupool.dialects.contract import (
    NO_COMPUTE,
    ContainerAsk,
    Dialect,
    KnownWord,
    PodReading,
    WordPlace,
    list_rules,
)
from gpupool.dialects.facts import NodeFacts
from gpupool.dialects.pod import PodContainer, PodView

COUNT = "bitfusion.io/gpu-amount"
PERCENT = "bitfusion.io/gpu-percent"
MEMORY = "bitfusion.io/gpu-memory"
#: Which containers Bitfusion's webhook changes; the pool's own admission does that here.
_MANAGED = "auto-management/bitfusion"


def read_words(pod: PodView, _facts: NodeFacts) -> PodReading:
    asks = {}
    for one in pod.containers:
        if one.asks_for(COUNT, PERCENT, MEMORY):
            asks[one.name] = _read_ask(one)
    return PodReading(asks)


def _read_ask(one: PodContainer) -> ContainerAsk:
    count = one.find_resource(COUNT)
    percent = one.find_resource(PERCENT)
    memory = one.find_resource(MEMORY)
    if percent is not None and memory is not None:
        raise ContradictoryManifest(
            f"{percent} and {memory}: memory in one way only", path=memory.path
        )
    rules = list_rules("bitfusion", count, percent, memory)
    many = 1 if count is None else amounts.parse_integer(count, 1, 64)
    part = WHOLE if percent is None else amounts.parse_percent(percent)
    size = None if memory is None else amounts.parse_size(memory)
    # Bitfusion reaches cards over the network; the claim here is placed where its cards are.
    note = ("the cards are those of the node the pod runs on, not remote ones",)
    if size is None and part == WHOLE:
        return ContainerAsk(many, WHOLE, rules=rules, notes=note)
    told = (
        f"bitfusion: {size // MIB} MiB on each card"
        if size is not None
        else "bitfusion: of each card's memory"
    )
    guess = (NO_COMPUTE,)
    return ContainerAsk(
        many,
        memory_bytes=size,
        memory_milli=part if size is None else None,
        rules=(*rules, told),
        guesses=guess,
        notes=note,
    )


DIALECT = Dialect(
    "bitfusion",
    "VMware Bitfusion",
    "https://github.com/vmware/bitfusion-with-kubernetes-integration",
    (
        KnownWord(
            COUNT, WordPlace.RESOURCE, "integer", "so many cards, here those of the pod's node"
        ),
        KnownWord(
            PERCENT,
            WordPlace.RESOURCE,
            "1-100",
            "part of each card's memory; 100 is the whole card",
        ),
        KnownWord(
            MEMORY, WordPlace.RESOURCE, "quantity", "memory on each card; not beside gpu-percent"
        ),
        KnownWord(_MANAGED, WordPlace.ANNOTATION, "-", "ignored"),
    ),
    read_words,
    prefixes=("bitfusion.io/",),
)
