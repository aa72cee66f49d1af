"""Alibaba Cloud's ACK: cGPU shares, several cards with equal parts, GPU topology, PAI's eGPU.

Sources: help.aliyun.com/zh/ack (shared GPU scheduling, one card and several; node labels 191140;
topology for PyTorch); AliyunContainerService/gpushare-device-plugin (`--memory-unit`);
kubeflow/arena pkg/apis/types.
"""

from __future__ import annotations

from dataclasses import replace

from gpupool.base.errors import FactMissing, ForeignValue
from gpupool.base.units import GIB, MIB, WHOLE
from gpupool.dialects import amounts
from gpupool.dialects.contract import (
    NO_COMPUTE,
    ContainerAsk,
    Dialect,
    GangHint,
    KnownWord,
    PodHints,
    PodReading,
    WordPlace,
)
from gpupool.dialects.facts import NodeFacts
from gpupool.dialects.pod import PlacedWord, PodContainer, PodView
from gpupool.model.claim import SharingKind, TopologyConstraint

#: Resources of ACK's shared GPU scheduling (help.aliyun.com/zh/ack).
MEMORY = "aliyun.com/gpu-mem"
CORE = "aliyun.com/gpu-core.percentage"
COUNT = "aliyun.com/gpu-count"
GPU = "aliyun.com/gpu"
#: Labels of ACK's topology-aware GPU scheduling.
_TOPOLOGY = "gpu-topology"
_REPLICAS = "gpu-topology-replica"
#: Variables of PAI's eGPU, which has no resource of its own.
_EGPU = "AMP_VGPU_ENABLE"
_EGPU_MEMORY = "GPU_MEM_PER_DEVICE"
_EGPU_UTIL = "GPU_UTIL_PER_DEVICE"
_WEIGHT = "ALIYUN_COM_GPU_SCHD_WEIGHT"
_OFF = "CGPU_DISABLE"
_MODE = "ack.node.gpu.schedule"
_PLACEMENT = "ack.node.gpu.placement"
#: Below it the number counts GiB: so few MiB hold hardly a CUDA context.
SURELY_GIB = 100
#: From here on it is MiB: no card has 1,024 GiB.
SURELY_MIB = 1024


def read_words(pod: PodView, facts: NodeFacts) -> PodReading:
    label = pod.find_label(COUNT)
    asks = {}
    for one in pod.containers:
        if one.asks_for(MEMORY, CORE):
            asks[one.name] = _read_ask(one, label, facts)
        elif one.asks_for(GPU):
            word = one.resources[GPU]
            asks[one.name] = ContainerAsk(
                amounts.parse_integer(word), WHOLE, rules=(f"cgpu: {word} whole cards",)
            )
        elif is_egpu(one):
            asks[one.name] = _read_egpu(one)
    return PodReading(asks, hints=_read_hints(pod), notes=_list_notes(pod))


def is_egpu(one: PodContainer) -> bool:
    """Whether it is a share of PAI's, which has `nvidia.com/gpu` for the number of cards."""
    return one.asks_for("nvidia.com/gpu") and _is_set(one, _EGPU)


def _is_set(one: PodContainer, key: str) -> bool:
    return key in one.env and one.env[key].value not in (None, "", "0", "false")


def _read_ask(one: PodContainer, label: PlacedWord | None, facts: NodeFacts) -> ContainerAsk:
    memory = one.find_resource(MEMORY)
    core = one.find_resource(CORE)
    count = one.find_resource(COUNT) or label
    if memory is None:
        assert core is not None
        raise ForeignValue(
            f"{core} without {MEMORY}: compute is not had without memory",
            hint=f"add {MEMORY}",
            path=core.path,
        )
    cards = 1 if count is None else amounts.parse_integer(count, 1, 64)
    per_card, rules = _split_memory(memory, cards, facts)
    if core is None:
        return _apply_switches(
            one, ContainerAsk(cards, memory_bytes=per_card, rules=rules, guesses=(NO_COMPUTE,))
        )
    milli = amounts.split_evenly(amounts.parse_percent(core, 1, 100 * cards), cards, core)
    told = f"cgpu: {core} %" + (
        f" over {cards} cards, {milli / 10:g} % of each" if cards > 1 else " of a card's compute"
    )
    return _apply_switches(
        one, ContainerAsk(cards, milli, memory_bytes=per_card, rules=(*rules, told))
    )


def _split_memory(word: PlacedWord, cards: int, facts: NodeFacts) -> tuple[int, tuple[str, ...]]:
    """Bytes on each card of a total: in GiB unless the plugin was started to count MiB, which the
    number may show."""
    total = amounts.parse_number(word)
    each = total / cards
    unit = facts.aliyun_gpu_mem_unit or (
        "GiB" if each < SURELY_GIB else "MiB" if each >= SURELY_MIB else None
    )
    if unit is None:
        raise FactMissing(
            f"{word}: {float(each):g} GiB or {float(each):g} MiB on a card? the plugin is started with one of them",
            hint="say it in a file of facts: `aliyun_gpu_mem_unit: GiB`",
            path=word.path,
            fact="aliyun_gpu_mem_unit",
        )
    size = each * (GIB if unit == "GiB" else MIB)
    if (
        size.denominator != 1
        or size % MIB
        or not amounts.LEAST_MIB * MIB <= size <= amounts.MOST_BYTES
    ):
        raise ForeignValue(
            f"{word}: {float(each):g} {unit} on each of {cards} cards is no share",
            hint="write whole MiB",
            path=word.path,
        )
    why = (
        "as the facts say"
        if facts.aliyun_gpu_mem_unit
        else "no other unit makes sense of this number"
    )
    told = f"cgpu: {word} {unit} ({why})" + (f" over {cards} cards" if cards > 1 else "")
    return int(size), (f"{told} = {int(size) // MIB} MiB on each",)


def _apply_switches(one: PodContainer, ask: ContainerAsk) -> ContainerAsk:
    if _is_set(one, _OFF):
        raise ForeignValue(
            f"{one.env[_OFF]}: a fence is not switched off from inside",
            hint="leave it out",
            path=one.env[_OFF].path,
        )
    weight = one.env.get(_WEIGHT)
    if weight is None or weight.value is None or amounts.parse_integer(weight, 1, 1000) == 1:
        return ask
    note = f"{weight}: cGPU's weights are neither guarantee nor cap; burst comes nearest"
    sharing = SharingKind.BURST if ask.gpu_milli is not None else None
    return replace(ask, sharing=sharing, notes=(*ask.notes, note))


def _read_egpu(one: PodContainer) -> ContainerAsk:
    """PAI's eGPU: bytes and percent per card, both in the environment."""
    count = one.resources["nvidia.com/gpu"]
    memory = one.env.get(_EGPU_MEMORY)
    util = one.env.get(_EGPU_UTIL)
    size = None if memory is None or memory.value is None else amounts.parse_size(memory)
    milli = None if util is None or util.value is None else amounts.parse_percent(util)
    rules = tuple(f"cgpu: {word} (PAI eGPU)" for word in (count, memory, util) if word is not None)
    # eGPU without limits is the whole card, as `nvidia.com/gpu` alone.
    if milli is None and size is None:
        milli = WHOLE
    part = WHOLE if size is None and milli != WHOLE else None
    return ContainerAsk(
        amounts.parse_integer(count), milli, memory_bytes=size, memory_milli=part, rules=rules
    )


def _read_hints(pod: PodView) -> PodHints:
    word = pod.find_label(_TOPOLOGY)
    replicas = pod.find_label(_REPLICAS)
    if word is None or str(word.value).lower() == "false":
        return PodHints()
    gang = None
    # ACK writes the number as a text of a label; anything else is its own scheduler's.
    if replicas is not None and str(replicas.value).isdigit():
        many = amounts.parse_integer(replicas)
        gang = GangHint(amounts.read_text(word), many, many)
    return PodHints(within=TopologyConstraint(preferred="nvlink"), gang=gang)


def _list_notes(pod: PodView) -> tuple[str, ...]:
    words = [pod.selector[key] for key in (_MODE, _PLACEMENT) if key in pod.selector]
    return tuple(f"{word} is taken out: nodes of the pool carry no such label" for word in words)


DIALECT = Dialect(
    "cgpu",
    "Alibaba Cloud ACK (cGPU), PAI eGPU",
    "https://www.alibabacloud.com/help/en/ack/ack-managed-and-ack-dedicated/user-guide/use-labels-to-schedule-pods-to-gpu-accelerated-nodes",
    (
        KnownWord(
            MEMORY,
            WordPlace.RESOURCE,
            "GiB or MiB",
            "memory over all its cards; from 100 to 1023 a card the unit must be known",
        ),
        KnownWord(
            CORE,
            WordPlace.RESOURCE,
            "1-100 × cards",
            "percent of compute over all its cards; not without memory",
        ),
        KnownWord(COUNT, WordPlace.LABEL, "integer", "over so many cards, in equal parts"),
        KnownWord(COUNT, WordPlace.RESOURCE, "integer", "as the label"),
        KnownWord(
            GPU,
            WordPlace.RESOURCE,
            "integer",
            "so many whole cards, near together with gpu-topology",
        ),
        KnownWord(
            _TOPOLOGY,
            WordPlace.LABEL,
            "name, `true`",
            "cards near together, as a wish; a name is the gang's",
        ),
        KnownWord(_REPLICAS, WordPlace.LABEL, "integer", "so many pods start together"),
        KnownWord(
            _MODE,
            WordPlace.SELECTOR,
            "`cgpu`, `core_mem`, ...",
            "taken out, aloud: nodes of the pool carry no such label",
        ),
        KnownWord(_PLACEMENT, WordPlace.SELECTOR, "`binpack`, `spread`", "taken out, aloud"),
        KnownWord(_WEIGHT, WordPlace.ENV, "integer", "above 1: burst comes nearest"),
        KnownWord(_OFF, WordPlace.ENV, "bool", "refused: a fence is not switched off from inside"),
        KnownWord(_EGPU, WordPlace.ENV, "bool", "PAI eGPU: with the two below and nvidia.com/gpu"),
        KnownWord(_EGPU_MEMORY, WordPlace.ENV, "bytes", "memory on each card"),
        KnownWord(_EGPU_UTIL, WordPlace.ENV, "1-100", "percent of each card's compute"),
    ),
    read_words,
    prefixes=("aliyun.com/gpu",),
)
