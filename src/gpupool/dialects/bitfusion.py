"""VMware Bitfusion: so many remote cards, and a part of their memory.

Source: vmware/bitfusion-with-kubernetes-integration README (device plugin and webhook).
"""

from __future__ import annotations

from gpupool.base.errors import Contradiction
from gpupool.base.units import MIB, WHOLE
from gpupool.dialects import amounts
from gpupool.dialects.contract import NO_COMPUTE, Ask, Dialect, Name, Reading, Where
from gpupool.dialects.facts import NodeFacts
from gpupool.dialects.pod import Container, Pod

COUNT, PERCENT, MEMORY = "bitfusion.io/gpu-amount", "bitfusion.io/gpu-percent", "bitfusion.io/gpu-memory"
_MANAGED = "auto-management/bitfusion"


def read(pod: Pod, _facts: NodeFacts) -> Reading:
    return Reading({one.name: _ask(one) for one in pod.containers if one.asks(COUNT, PERCENT, MEMORY)})


def _ask(one: Container) -> Ask:
    count, percent, memory = (one.resource(key) for key in (COUNT, PERCENT, MEMORY))
    if percent is not None and memory is not None:
        raise Contradiction(f"{percent} and {memory}: memory in one way only", path=memory.path)
    rules = tuple(f"bitfusion: {word}" for word in (count, percent, memory) if word is not None)
    many = 1 if count is None else amounts.integer(count, 1, 64)
    part = WHOLE if percent is None else amounts.percent(percent)
    size = None if memory is None else amounts.size(memory)
    note = ("the cards are those of the node the pod runs on, not remote ones",)
    if size is None and part == WHOLE:
        return Ask(many, WHOLE, rules=rules, notes=note)
    told = f"bitfusion: {size // MIB} MiB on each card" if size is not None else "bitfusion: of each card's memory"
    guess = (NO_COMPUTE,)
    return Ask(
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
        Name(COUNT, Where.RESOURCE, "integer", "so many cards, here those of the pod's node"),
        Name(PERCENT, Where.RESOURCE, "1-100", "part of each card's memory; 100 is the whole card"),
        Name(MEMORY, Where.RESOURCE, "quantity", "memory on each card; not beside gpu-percent"),
        Name(_MANAGED, Where.ANNOTATION, "-", "ignored"),
    ),
    read,
    prefixes=("bitfusion.io/",),
)
