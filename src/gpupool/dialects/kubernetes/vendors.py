"""Cards of other makers under the names HAMi gave them. Whether the pool has such cards is for
placing to say.

Source: Project-HAMi/HAMi
examples/{mlu,hygon,mthreads,metax,enflame,kunlun,ascend,iluvatar,vastai,biren,awsneuron} and their
docs; AMD's and Intel's plugins for whole cards.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache

from gpupool.base.errors import ForeignValue
from gpupool.base.units import MIB, WHOLE
from gpupool.dialects import amounts, models
from gpupool.dialects.contract import (
    NO_COMPUTE,
    CardFilter,
    ContainerAsk,
    Dialect,
    KnownWord,
    PodHints,
    PodReading,
    WordPlace,
    list_rules,
)
from gpupool.dialects.facts import NodeFacts
from gpupool.dialects.pod import PlacedWord, PodContainer, PodView
from gpupool.model.catalogue import canonical_model
from gpupool.model.claim import SharingKind, TopologyConstraint

#: Instead of MiB in a unit: a quantity, in GiB when it is bare.
QUANTITY = 0


@dataclass(frozen=True)
class CardMaker:
    """One family of cards. `unit` is how many MiB one of `memory` is; several models differ in
    `<model>`."""

    name: str
    count: str
    memory: str | None = None
    cores: str | None = None
    unit: int = 1
    #: The one model that it is, where its words say one.
    model: str | None = None

    def keys(self) -> tuple[str, ...]:
        return tuple(key for key in (self.count, self.memory, self.cores) if key is not None)


#: Chips that Huawei's plugin and HAMi's configuration name. No pattern: `huawei.com/npu-core` is no
#: card.
_ASCEND = (
    "Ascend310", "Ascend310P", "Ascend910", "Ascend910A", "Ascend910B", "Ascend910B2", "Ascend910B2C", "Ascend910B3",
    "Ascend910B4", "Ascend910B4-1", "Ascend910C",
)  # fmt: skip
MAKERS = (
    CardMaker("amd", "amd.com/gpu"),
    CardMaker("hygon", "hygon.com/dcunum", "hygon.com/dcumem", "hygon.com/dcucores"),
    CardMaker(
        "cambricon",
        "cambricon.com/vmlu",
        "cambricon.com/<model>.smlu.vmemory",
        "cambricon.com/<model>.smlu.vcore",
        256,
    ),
    CardMaker("cambricon", "cambricon.com/mlunum", "cambricon.com/mlumem"),
    CardMaker(
        "mthreads", "mthreads.com/vgpu", "mthreads.com/sgpu-memory", "mthreads.com/sgpu-core", 512
    ),
    CardMaker(
        "metax", "metax-tech.com/sgpu", "metax-tech.com/vmemory", "metax-tech.com/vcore", QUANTITY
    ),
    CardMaker("metax", "metax-tech.com/gpu"),
    CardMaker("enflame", "enflame.com/gcu", "enflame.com/gcu-memory", "enflame.com/gcu-core"),
    CardMaker("kunlunxin", "kunlunxin.com/vxpu", "kunlunxin.com/vxpu-memory"),
    CardMaker("kunlunxin", "kunlunxin.com/xpu"),
    *(
        CardMaker(
            "ascend",
            f"huawei.com/{model}",
            f"huawei.com/{model}-memory",
            f"huawei.com/{model}-core",
            model=model,
        )
        for model in _ASCEND
    ),
    CardMaker(
        "iluvatar",
        "iluvatar.ai/<model>-vgpu",
        "iluvatar.ai/<model>.vMem",
        "iluvatar.ai/<model>.vCore",
        256,
    ),
    CardMaker("vastai", "vastaitech.com/va"),
    CardMaker("biren", "birentech.com/gpu"),
    CardMaker("aws-neuron", "aws.amazon.com/neuron"),
    CardMaker("intel", "gpu.intel.com/i915"),
    CardMaker("intel", "gpu.intel.com/xe"),
    CardMaker("habana", "habana.ai/gaudi"),
    CardMaker("google", "google.com/tpu"),
)
_DRS = "enflame.com/drs-gcu"
#: Resources that are parts of a card of unknown size, or no card: why they are refused, and what to
#: write.
#: Resources that are parts of a card of unknown size, or no cards: refused by name, with what to
#: write instead.
_PARTS = {
    _DRS: (
        "how large such a slice is depends on the card",
        "ask with enflame.com/gcu-memory and gcu-core",
    ),
    "aws.amazon.com/neuroncore": (
        "how many cores a device has depends on its model",
        "ask for whole devices: aws.amazon.com/neuron",
    ),
    "huawei.com/npu-core": (
        "these are cores of an NPU, and no cards",
        "name the chip: huawei.com/Ascend910B3",
    ),
    "gpu.intel.com/millicores": (
        "a part of an Intel card is not fenced here",
        "ask for whole cards: gpu.intel.com/xe",
    ),
    "gpu.intel.com/i915_monitoring": ("it opens every card of the node", "leave it out"),
    "gpu.intel.com/xe_monitoring": ("it opens every card of the node", "leave it out"),
}
#: A card of Moore Threads has 16 virtual cores (HAMi, examples/mthreads).
_CORES_OF_MTHREADS = 16


#: Domains under which HAMi reads `use-gpuuuid` and `nouse-gpuuuid`.
_DOMAINS = (
    "amd.com", "birentech.com", "cambricon.com", "enflame.com", "hygon.com", "baidu.com", "metax-tech.com",
)  # fmt: skip
#: Domains that choose cards by type, each with a word of its own.
_TYPES = {"amd.com": "gputype", "hygon.com": "dcutype", "cambricon.com": "mlutype"}
_QOS, _CLASS, _TOPOLOGY = (
    f"metax-tech.com/sgpu-{name}" for name in ("qos-policy", "app-class", "topology-aware")
)
_SHARING = {
    "fixed-share": SharingKind.FIXED,
    "burst-share": SharingKind.BURST,
    "best-effort": SharingKind.BEST_EFFORT,
}
_URGENCY = {"online": "high", "offline": "low"}


def read_words(pod: PodView, _facts: NodeFacts) -> PodReading:
    asks = {}
    for one in pod.containers:
        for ask in _read_asks(one):
            asks[one.name] = ask
    qos, kind, near = (pod.find_annotation(key) for key in (_QOS, _CLASS, _TOPOLOGY))
    if kind is not None:
        urgency = _URGENCY[amounts.read_text(kind, *_URGENCY)]
        asks = {name: replace(ask, urgency=urgency) for name, ask in asks.items()}
    return PodReading(
        asks,
        _read_filter(pod),
        None if qos is None else _SHARING[amounts.read_text(qos, *_SHARING)],
        PodHints(
            within=TopologyConstraint(preferred="nvlink")
            if near is not None and amounts.read_truth(near)
            else None
        ),
    )


def _read_filter(pod: PodView) -> CardFilter:
    def read_listed(keys: list[str]) -> tuple[str, ...]:
        found = []
        for key in keys:
            if (word := pod.find_annotation(key)) is not None:
                for name in amounts.read_list(word):
                    found.append(name)
        return tuple(found)

    def cards(what: str) -> tuple[str, ...]:
        return read_listed([f"{domain}/{what}-gpuuuid" for domain in _DOMAINS])

    def types(what: str) -> tuple[str, ...]:
        return models.list_models(
            read_listed([f"{domain}/{what}-{kind}" for domain, kind in _TYPES.items()])
        )

    return CardFilter(types("use"), types("nouse"), cards("use"), cards("nouse"))


def _read_asks(one: PodContainer) -> Iterator[ContainerAsk]:
    for key, (why, hint) in _PARTS.items():
        if one.asks_for(key):
            raise ForeignValue(
                f"{one.resources[key]}: {why}", hint=hint, path=one.resources[key].path
            )
    for maker in MAKERS:
        memory = _find_word(one, maker.memory)
        cores = _find_word(one, maker.cores)
        count = _find_word(one, maker.count, memory, cores)
        if count or memory or cores:
            yield _read_ask(maker, count, memory, cores)
            return


def _find_word(one: PodContainer, key: str | None, *others: PlacedWord | None) -> PlacedWord | None:
    """The resource of that name; a name with `<model>` in it means none of the others."""
    if key is None:
        return None
    name = _make_name(key)
    words = (
        word
        for word in one.resources.values()
        if name.matches_key(word.key) and one.asks_for(word.key)
    )
    return next((word for word in words if word not in others), None)


@cache
def _make_name(key: str) -> KnownWord:
    return KnownWord(key, WordPlace.RESOURCE, "", "")


def _read_ask(
    maker: CardMaker, count: PlacedWord | None, memory: PlacedWord | None, cores: PlacedWord | None
) -> ContainerAsk:
    many = 1 if count is None else amounts.parse_integer(count)
    # Cores alone leave the memory open: then it is all of the card's.
    size = None if memory is None else _read_size(maker, memory)
    milli = None if cores is None else _read_compute(maker, cores)
    rules = list_rules(maker.name, count, memory, cores)
    if size is not None:
        rules = (*rules, f"{maker.name}: {size // MIB} MiB on each card")
    if size is None and milli is None:
        milli = WHOLE
    part = WHOLE if size is None and milli != WHOLE else None
    guesses = () if milli is not None else (NO_COMPUTE,)
    select = (
        CardFilter() if maker.model is None else CardFilter(models=(canonical_model(maker.model),))
    )
    return ContainerAsk(
        many,
        milli,
        memory_bytes=size,
        memory_milli=part,
        vendor=maker.name,
        select=select,
        rules=rules,
        guesses=guesses,
    )


def _read_size(maker: CardMaker, word: PlacedWord) -> int:
    if maker.unit != QUANTITY:
        return amounts.parse_mebibytes(word, maker.unit)
    bare = str(word.value).strip().isdigit()
    return amounts.parse_gibibytes(word) if bare else amounts.parse_size(word)


def _read_compute(maker: CardMaker, word: PlacedWord) -> int:
    """Percent; Moore Threads counts sixteenths."""
    if maker.name == "mthreads":
        return amounts.parse_integer(word, 1, _CORES_OF_MTHREADS) * WHOLE // _CORES_OF_MTHREADS
    return amounts.parse_percent(word)


def _list_names() -> Iterator[KnownWord]:
    for maker in MAKERS:
        unit = (
            "GiB, or a quantity"
            if maker.unit == QUANTITY
            else "MiB"
            if maker.unit == 1
            else f"× {maker.unit} MiB"
        )
        yield KnownWord(
            maker.count,
            WordPlace.RESOURCE,
            "integer",
            f"so many cards of {maker.name}; alone: whole ones",
        )
        if maker.memory is not None:
            yield KnownWord(maker.memory, WordPlace.RESOURCE, unit, "memory on each card")
        if maker.cores is not None:
            cores = f"1-{_CORES_OF_MTHREADS}" if maker.name == "mthreads" else "1-100"
            yield KnownWord(maker.cores, WordPlace.RESOURCE, cores, "compute of each card")
    for domain in _DOMAINS:
        yield KnownWord(f"{domain}/use-gpuuuid", WordPlace.ANNOTATION, "list", "only these cards")
        yield KnownWord(f"{domain}/nouse-gpuuuid", WordPlace.ANNOTATION, "list", "not these cards")
    for domain, kind in _TYPES.items():
        yield KnownWord(
            f"{domain}/use-{kind}", WordPlace.ANNOTATION, "list", "only cards of these models"
        )
        yield KnownWord(
            f"{domain}/nouse-{kind}", WordPlace.ANNOTATION, "list", "no card of these models"
        )
    yield KnownWord(
        _QOS,
        WordPlace.ANNOTATION,
        ", ".join(f"`{name}`" for name in _SHARING),
        "sharing fixed, burst, best-effort",
    )
    yield KnownWord(
        _CLASS,
        WordPlace.ANNOTATION,
        "`online`, `offline`",
        "high, low beside the tenants of the same card",
    )
    yield KnownWord(_TOPOLOGY, WordPlace.ANNOTATION, "bool", "cards near together, as a wish")
    for key, (why, _) in _PARTS.items():
        yield KnownWord(key, WordPlace.RESOURCE, "integer", f"refused: {why}")


DIALECT = Dialect(
    "vendors",
    "Cards of other makers, as HAMi names them",
    "https://github.com/Project-HAMi/HAMi",
    tuple(_list_names()),
    read_words,
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
