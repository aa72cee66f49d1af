"""Cards of other makers under the names HAMi gave them. Whether the pool has such cards is for placing to say.

Source: Project-HAMi/HAMi examples/{mlu,hygon,mthreads,metax,enflame,kunlun,ascend,iluvatar,vastai,biren,awsneuron} and
their docs; AMD's and Intel's plugins for whole cards.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache

from gpupool.base.errors import ForeignValue
from gpupool.base.units import MIB, WHOLE
from gpupool.dialects import amounts, models
from gpupool.dialects.contract import NO_COMPUTE, Ask, Dialect, Hints, Name, Reading, Select, Where
from gpupool.dialects.facts import NodeFacts
from gpupool.dialects.pod import Container, Pod, Word
from gpupool.model.catalogue import canonical_model
from gpupool.model.claim import Sharing, Within

QUANTITY = 0
"""Instead of MiB in a unit: a quantity, in GiB when it is bare."""


@dataclass(frozen=True)
class Maker:
    """One family of cards. `unit` is how many MiB one of `memory` is; several models differ in `<model>`."""

    name: str
    count: str
    memory: str | None = None
    cores: str | None = None
    unit: int = 1
    model: str | None = None
    """The one model that it is, where its words say one."""

    def keys(self) -> tuple[str, ...]:
        return tuple(key for key in (self.count, self.memory, self.cores) if key is not None)


_ASCEND = (
    "Ascend310", "Ascend310P", "Ascend910", "Ascend910A", "Ascend910B", "Ascend910B2", "Ascend910B2C", "Ascend910B3",
    "Ascend910B4", "Ascend910B4-1", "Ascend910C",
)  # fmt: skip
"""Chips that Huawei's plugin and HAMi's configuration name. No pattern: `huawei.com/npu-core` is no card."""
MAKERS = (
    Maker("amd", "amd.com/gpu"),
    Maker("hygon", "hygon.com/dcunum", "hygon.com/dcumem", "hygon.com/dcucores"),
    Maker(
        "cambricon", "cambricon.com/vmlu", "cambricon.com/<model>.smlu.vmemory", "cambricon.com/<model>.smlu.vcore", 256
    ),
    Maker("cambricon", "cambricon.com/mlunum", "cambricon.com/mlumem"),
    Maker("mthreads", "mthreads.com/vgpu", "mthreads.com/sgpu-memory", "mthreads.com/sgpu-core", 512),
    Maker("metax", "metax-tech.com/sgpu", "metax-tech.com/vmemory", "metax-tech.com/vcore", QUANTITY),
    Maker("metax", "metax-tech.com/gpu"),
    Maker("enflame", "enflame.com/gcu", "enflame.com/gcu-memory", "enflame.com/gcu-core"),
    Maker("kunlunxin", "kunlunxin.com/vxpu", "kunlunxin.com/vxpu-memory"),
    Maker("kunlunxin", "kunlunxin.com/xpu"),
    *(
        Maker("ascend", f"huawei.com/{model}", f"huawei.com/{model}-memory", f"huawei.com/{model}-core", model=model)
        for model in _ASCEND
    ),
    Maker("iluvatar", "iluvatar.ai/<model>-vgpu", "iluvatar.ai/<model>.vMem", "iluvatar.ai/<model>.vCore", 256),
    Maker("vastai", "vastaitech.com/va"),
    Maker("biren", "birentech.com/gpu"),
    Maker("aws-neuron", "aws.amazon.com/neuron"),
    Maker("intel", "gpu.intel.com/i915"),
    Maker("intel", "gpu.intel.com/xe"),
    Maker("habana", "habana.ai/gaudi"),
    Maker("google", "google.com/tpu"),
)
_DRS = "enflame.com/drs-gcu"
_PARTS = {
    _DRS: ("how large such a slice is depends on the card", "ask with enflame.com/gcu-memory and gcu-core"),
    "aws.amazon.com/neuroncore": (
        "how many cores a device has depends on its model",
        "ask for whole devices: aws.amazon.com/neuron",
    ),
    "huawei.com/npu-core": ("these are cores of an NPU, and no cards", "name the chip: huawei.com/Ascend910B3"),
    "gpu.intel.com/millicores": ("a part of an Intel card is not fenced here", "ask for whole cards: gpu.intel.com/xe"),
    "gpu.intel.com/i915_monitoring": ("it opens every card of the node", "leave it out"),
    "gpu.intel.com/xe_monitoring": ("it opens every card of the node", "leave it out"),
}
"""Resources that are parts of a card of unknown size, or no card: why they are refused, and what to write."""
_CORES_OF_MTHREADS = 16


_DOMAINS = (
    "amd.com", "birentech.com", "cambricon.com", "enflame.com", "hygon.com", "baidu.com", "metax-tech.com",
)  # fmt: skip
_TYPES = {"amd.com": "gputype", "hygon.com": "dcutype", "cambricon.com": "mlutype"}
_QOS, _CLASS, _TOPOLOGY = (f"metax-tech.com/sgpu-{name}" for name in ("qos-policy", "app-class", "topology-aware"))
_SHARING = {"fixed-share": Sharing.FIXED, "burst-share": Sharing.BURST, "best-effort": Sharing.BEST_EFFORT}
_URGENCY = {"online": "high", "offline": "low"}


def read(pod: Pod, _facts: NodeFacts) -> Reading:
    asks = {one.name: ask for one in pod.containers for ask in _asks(one)}
    qos, kind, near = (pod.annotation(key) for key in (_QOS, _CLASS, _TOPOLOGY))
    if kind is not None:
        urgency = _URGENCY[amounts.text(kind, *_URGENCY)]
        asks = {name: replace(ask, urgency=urgency) for name, ask in asks.items()}
    return Reading(
        asks,
        _select(pod),
        None if qos is None else _SHARING[amounts.text(qos, *_SHARING)],
        Hints(within=Within(preferred="nvlink") if near is not None and amounts.truth(near) else None),
    )


def _select(pod: Pod) -> Select:
    def listed(keys: list[str]) -> tuple[str, ...]:
        return tuple(name for key in keys if (word := pod.annotation(key)) is not None for name in amounts.words(word))

    def cards(what: str) -> tuple[str, ...]:
        return listed([f"{domain}/{what}-gpuuuid" for domain in _DOMAINS])

    def types(what: str) -> tuple[str, ...]:
        return models.meant(listed([f"{domain}/{what}-{kind}" for domain, kind in _TYPES.items()]))

    return Select(types("use"), types("nouse"), cards("use"), cards("nouse"))


def _asks(one: Container) -> Iterator[Ask]:
    for key, (why, hint) in _PARTS.items():
        if one.asks(key):
            raise ForeignValue(f"{one.resources[key]}: {why}", hint=hint, path=one.resources[key].path)
    for maker in MAKERS:
        memory, cores = _word(one, maker.memory), _word(one, maker.cores)
        count = _word(one, maker.count, memory, cores)
        if count or memory or cores:
            yield _ask(maker, count, memory, cores)
            return


def _word(one: Container, key: str | None, *others: Word | None) -> Word | None:
    """The resource of that name; a name with `<model>` in it means none of the others."""
    if key is None:
        return None
    name = _name(key)
    words = (word for word in one.resources.values() if name.matches(word.key) and one.asks(word.key))
    return next((word for word in words if word not in others), None)


@cache
def _name(key: str) -> Name:
    return Name(key, Where.RESOURCE, "", "")


def _ask(maker: Maker, count: Word | None, memory: Word | None, cores: Word | None) -> Ask:
    many = 1 if count is None else amounts.integer(count)
    size = None if memory is None else _size(maker, memory)
    milli = None if cores is None else _compute(maker, cores)
    rules = tuple(f"{maker.name}: {word}" for word in (count, memory, cores) if word is not None)
    if size is not None:
        rules = (*rules, f"{maker.name}: {size // MIB} MiB on each card")
    if size is None and milli is None:
        milli = WHOLE
    part = WHOLE if size is None and milli != WHOLE else None
    guesses = () if milli is not None else (NO_COMPUTE,)
    select = Select() if maker.model is None else Select(models=(canonical_model(maker.model),))
    return Ask(
        many,
        milli,
        memory_bytes=size,
        memory_milli=part,
        vendor=maker.name,
        select=select,
        rules=rules,
        guesses=guesses,
    )


def _size(maker: Maker, word: Word) -> int:
    if maker.unit != QUANTITY:
        return amounts.mebibytes(word, maker.unit)
    bare = str(word.value).strip().isdigit()
    return amounts.gibibytes(word) if bare else amounts.size(word)


def _compute(maker: Maker, word: Word) -> int:
    """Percent; Moore Threads counts sixteenths."""
    if maker.name == "mthreads":
        return amounts.integer(word, 1, _CORES_OF_MTHREADS) * WHOLE // _CORES_OF_MTHREADS
    return amounts.percent(word)


def _names() -> Iterator[Name]:
    for maker in MAKERS:
        unit = "GiB, or a quantity" if maker.unit == QUANTITY else "MiB" if maker.unit == 1 else f"× {maker.unit} MiB"
        yield Name(maker.count, Where.RESOURCE, "integer", f"so many cards of {maker.name}; alone: whole ones")
        if maker.memory is not None:
            yield Name(maker.memory, Where.RESOURCE, unit, "memory on each card")
        if maker.cores is not None:
            cores = f"1-{_CORES_OF_MTHREADS}" if maker.name == "mthreads" else "1-100"
            yield Name(maker.cores, Where.RESOURCE, cores, "compute of each card")
    for domain in _DOMAINS:
        yield Name(f"{domain}/use-gpuuuid", Where.ANNOTATION, "list", "only these cards")
        yield Name(f"{domain}/nouse-gpuuuid", Where.ANNOTATION, "list", "not these cards")
    for domain, kind in _TYPES.items():
        yield Name(f"{domain}/use-{kind}", Where.ANNOTATION, "list", "only cards of these models")
        yield Name(f"{domain}/nouse-{kind}", Where.ANNOTATION, "list", "no card of these models")
    yield Name(_QOS, Where.ANNOTATION, ", ".join(f"`{name}`" for name in _SHARING), "sharing fixed, burst, best-effort")
    yield Name(_CLASS, Where.ANNOTATION, "`online`, `offline`", "high, low beside the tenants of the same card")
    yield Name(_TOPOLOGY, Where.ANNOTATION, "bool", "cards near together, as a wish")
    for key, (why, _) in _PARTS.items():
        yield Name(key, Where.RESOURCE, "integer", f"refused: {why}")


DIALECT = Dialect(
    "vendors",
    "Cards of other makers, as HAMi names them",
    "https://github.com/Project-HAMi/HAMi",
    tuple(_names()),
    read,
    prefixes=(
        "hygon.com/",
        "cambricon.com/",
        "mthreads.com/",
        "metax-tech.com/",
        "enflame.com/",
        "kunlunxin.com/",
        "iluvatar.ai/",
    ),
)
