"""Alibaba Cloud's ACK: cGPU shares, several cards with equal parts, GPU topology, PAI's eGPU.

Sources: help.aliyun.com/zh/ack (shared GPU scheduling, one card and several; node labels 191140; topology for PyTorch);
AliyunContainerService/gpushare-device-plugin (`--memory-unit`); kubeflow/arena pkg/apis/types.
"""

from __future__ import annotations

from dataclasses import replace

from gpupool.base.errors import FactMissing, ForeignValue
from gpupool.base.units import GIB, MIB, WHOLE
from gpupool.dialects import amounts
from gpupool.dialects.contract import NO_COMPUTE, Ask, Dialect, GangHint, Hints, Name, Reading, Where
from gpupool.dialects.facts import NodeFacts
from gpupool.dialects.pod import Container, Pod, Word
from gpupool.model.claim import Sharing, Within

MEMORY, CORE, COUNT, GPU = (
    "aliyun.com/gpu-mem", "aliyun.com/gpu-core.percentage", "aliyun.com/gpu-count", "aliyun.com/gpu",
)  # fmt: skip
_TOPOLOGY, _REPLICAS = "gpu-topology", "gpu-topology-replica"
_EGPU, _EGPU_MEMORY, _EGPU_UTIL = "AMP_VGPU_ENABLE", "GPU_MEM_PER_DEVICE", "GPU_UTIL_PER_DEVICE"
_WEIGHT, _OFF = "ALIYUN_COM_GPU_SCHD_WEIGHT", "CGPU_DISABLE"
_MODE, _PLACEMENT = "ack.node.gpu.schedule", "ack.node.gpu.placement"
SURELY_GIB, SURELY_MIB = 100, 1024


def read(pod: Pod, facts: NodeFacts) -> Reading:
    label = pod.label(COUNT)
    asks = {}
    for one in pod.containers:
        if one.asks(MEMORY, CORE):
            asks[one.name] = _ask(one, label, facts)
        elif one.asks(GPU):
            word = one.resources[GPU]
            asks[one.name] = Ask(amounts.integer(word), WHOLE, rules=(f"cgpu: {word} whole cards",))
        elif is_egpu(one):
            asks[one.name] = _egpu(one)
    return Reading(asks, hints=_hints(pod), notes=_notes(pod))


def is_egpu(one: Container) -> bool:
    """Whether it is a share of PAI's, which has `nvidia.com/gpu` for the number of cards."""
    return one.asks("nvidia.com/gpu") and _said(one, _EGPU)


def _said(one: Container, key: str) -> bool:
    return key in one.env and one.env[key].value not in (None, "", "0", "false")


def _ask(one: Container, label: Word | None, facts: NodeFacts) -> Ask:
    memory, core, count = one.resource(MEMORY), one.resource(CORE), one.resource(COUNT) or label
    if memory is None:
        assert core is not None
        raise ForeignValue(
            f"{core} without {MEMORY}: compute is not had without memory", hint=f"add {MEMORY}", path=core.path
        )
    cards = 1 if count is None else amounts.integer(count, 1, 64)
    per_card, rules = _memory(memory, cards, facts)
    if core is None:
        return _switches(one, Ask(cards, memory_bytes=per_card, rules=rules, guesses=(NO_COMPUTE,)))
    milli = amounts.split(amounts.percent(core, 1, 100 * cards), cards, core)
    told = f"cgpu: {core} %" + (
        f" over {cards} cards, {milli / 10:g} % of each" if cards > 1 else " of a card's compute"
    )
    return _switches(one, Ask(cards, milli, memory_bytes=per_card, rules=(*rules, told)))


def _memory(word: Word, cards: int, facts: NodeFacts) -> tuple[int, tuple[str, ...]]:
    """Bytes on each card of a total: in GiB unless the plugin was started to count MiB, which the number may show."""
    total = amounts.number(word)
    each = total / cards
    unit = facts.aliyun_gpu_mem_unit or ("GiB" if each < SURELY_GIB else "MiB" if each >= SURELY_MIB else None)
    if unit is None:
        raise FactMissing(
            f"{word}: {float(each):g} GiB or {float(each):g} MiB on a card? the plugin is started with one of them",
            hint="say it in a file of facts: `aliyun_gpu_mem_unit: GiB`",
            path=word.path,
            fact="aliyun_gpu_mem_unit",
        )
    size = each * (GIB if unit == "GiB" else MIB)
    if size.denominator != 1 or size % MIB or not amounts.LEAST_MIB * MIB <= size <= amounts.MOST_BYTES:
        raise ForeignValue(
            f"{word}: {float(each):g} {unit} on each of {cards} cards is no share",
            hint="write whole MiB",
            path=word.path,
        )
    why = "as the facts say" if facts.aliyun_gpu_mem_unit else "no other unit makes sense of this number"
    told = f"cgpu: {word} {unit} ({why})" + (f" over {cards} cards" if cards > 1 else "")
    return int(size), (f"{told} = {int(size) // MIB} MiB on each",)


def _switches(one: Container, ask: Ask) -> Ask:
    if _said(one, _OFF):
        raise ForeignValue(
            f"{one.env[_OFF]}: a fence is not switched off from inside", hint="leave it out", path=one.env[_OFF].path
        )
    weight = one.env.get(_WEIGHT)
    if weight is None or weight.value is None or amounts.integer(weight, 1, 1000) == 1:
        return ask
    note = f"{weight}: cGPU's weights are neither guarantee nor cap; burst comes nearest"
    sharing = Sharing.BURST if ask.gpu_milli is not None else None
    return replace(ask, sharing=sharing, notes=(*ask.notes, note))


def _egpu(one: Container) -> Ask:
    """PAI's eGPU: bytes and percent per card, both in the environment."""
    count = one.resources["nvidia.com/gpu"]
    memory, util = one.env.get(_EGPU_MEMORY), one.env.get(_EGPU_UTIL)
    size = None if memory is None or memory.value is None else amounts.size(memory)
    milli = None if util is None or util.value is None else amounts.percent(util)
    rules = tuple(f"cgpu: {word} (PAI eGPU)" for word in (count, memory, util) if word is not None)
    if milli is None and size is None:
        milli = WHOLE
    part = WHOLE if size is None and milli != WHOLE else None
    return Ask(amounts.integer(count), milli, memory_bytes=size, memory_milli=part, rules=rules)


def _hints(pod: Pod) -> Hints:
    word, replicas = pod.label(_TOPOLOGY), pod.label(_REPLICAS)
    if word is None or str(word.value).lower() == "false":
        return Hints()
    gang = None
    if replicas is not None and str(replicas.value).isdigit():
        many = amounts.integer(replicas)
        gang = GangHint(amounts.text(word), many, many)
    return Hints(within=Within(preferred="nvlink"), gang=gang)


def _notes(pod: Pod) -> tuple[str, ...]:
    words = [pod.selector[key] for key in (_MODE, _PLACEMENT) if key in pod.selector]
    return tuple(f"{word} is taken out: nodes of the pool carry no such label" for word in words)


DIALECT = Dialect(
    "cgpu",
    "Alibaba Cloud ACK (cGPU), PAI eGPU",
    "https://www.alibabacloud.com/help/en/ack/ack-managed-and-ack-dedicated/user-guide/use-labels-to-schedule-pods-to-gpu-accelerated-nodes",
    (
        Name(
            MEMORY,
            Where.RESOURCE,
            "GiB or MiB",
            "memory over all its cards; from 100 to 1023 a card the unit must be known",
        ),
        Name(CORE, Where.RESOURCE, "1-100 × cards", "percent of compute over all its cards; not without memory"),
        Name(COUNT, Where.LABEL, "integer", "over so many cards, in equal parts"),
        Name(COUNT, Where.RESOURCE, "integer", "as the label"),
        Name(GPU, Where.RESOURCE, "integer", "so many whole cards, near together with gpu-topology"),
        Name(_TOPOLOGY, Where.LABEL, "name, `true`", "cards near together, as a wish; a name is the gang's"),
        Name(_REPLICAS, Where.LABEL, "integer", "so many pods start together"),
        Name(
            _MODE, Where.SELECTOR, "`cgpu`, `core_mem`, ...", "taken out, aloud: nodes of the pool carry no such label"
        ),
        Name(_PLACEMENT, Where.SELECTOR, "`binpack`, `spread`", "taken out, aloud"),
        Name(_WEIGHT, Where.ENV, "integer", "above 1: burst comes nearest"),
        Name(_OFF, Where.ENV, "bool", "refused: a fence is not switched off from inside"),
        Name(_EGPU, Where.ENV, "bool", "PAI eGPU: with the two below and nvidia.com/gpu"),
        Name(_EGPU_MEMORY, Where.ENV, "bytes", "memory on each card"),
        Name(_EGPU_UTIL, Where.ENV, "1-100", "percent of each card's compute"),
    ),
    read,
    prefixes=("aliyun.com/gpu",),
)
