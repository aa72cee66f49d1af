"""Huawei Cloud's CCE: xGPU shares, several cards with equal parts, and decimals of
`nvidia.com/gpu`.

Sources: support.huaweicloud.com/usermanual-cce: cce_10_0742 (decimals), cce_10_0965 (equal parts),
GPU virtualization (opentelekomcloud-docs keeps the same pages); HCE xGPU for the environment.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from gpupool.base.errors import ForeignValue
from gpupool.base.units import MIB
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
from gpupool.dialects.pod import PlacedWord, PodContainer, PodView
from gpupool.model.claim import SharingKind

MEMORY = "volcano.sh/gpu-mem.128Mi"
CORE = "volcano.sh/gpu-core.percentage"
CARDS = "volcano.sh/gpu-num"
DECIMAL = "nvidia.com/gpu"
_MEM = "GPU_CONTAINER_MEM"
_QUOTA = "GPU_CONTAINER_QUOTA_PERCENT"
_POLICY = "GPU_POLICY"
_PRIORITY = "GPU_CONTAINER_PRIORITY"
_IDX = "GPU_IDX"
#: CCE counts memory in pieces of 128 MiB, as the resource's name says.
PIECE_MIB = 128
#: xGPU gives compute in steps of 5 %.
STEP = 5
#: GPU_POLICY of Huawei's HCE xGPU; the kinds of sharing that come nearest.
_POLICIES: Mapping[int, tuple[SharingKind, str]] = {
    0: (SharingKind.BEST_EFFORT, "native: the driver decides"),
    1: (SharingKind.FIXED, "fixed"),
    2: (SharingKind.FIXED, "average, nearest to fixed"),
    3: (SharingKind.BEST_EFFORT, "preemptive, so best-effort"),
    4: (SharingKind.BURST, "weights, nearest to burst"),
    5: (SharingKind.BURST, "hybrid, nearest to burst"),
    6: (SharingKind.BURST, "weak isolation, nearest to burst"),
}


def read_words(pod: PodView, _facts: NodeFacts) -> PodReading:
    asks = {}
    for one in pod.containers:
        if one.asks_for(MEMORY, CORE):
            asks[one.name] = _read_ask(one, pod.find_label(CARDS))
        elif (
            one.asks_for(DECIMAL) and amounts.parse_number(one.resources[DECIMAL]).denominator != 1
        ):
            asks[one.name] = _read_decimal(one.resources[DECIMAL])
        elif _MEM in one.env and one.env[_MEM].value is not None:
            asks[one.name] = _read_environment(one)
    return PodReading(asks)


def _read_ask(one: PodContainer, label: PlacedWord | None) -> ContainerAsk:
    memory = one.find_resource(MEMORY)
    core = one.find_resource(CORE)
    if memory is None:
        assert core is not None
        raise ForeignValue(
            f"{core} without {MEMORY}: compute is not had without memory",
            hint=f"add {MEMORY}",
            path=core.path,
        )
    cards = 1 if label is None else amounts.parse_integer(label, 1, 64)
    pieces = amounts.split_evenly(amounts.parse_integer(memory, 1, 1 << 40), cards, memory)
    size = amounts.parse_mebibytes(PlacedWord(memory.key, pieces, memory.path), PIECE_MIB)
    rules: tuple[str, ...] = (
        f"xgpu: {memory} × {PIECE_MIB} MiB{_describe_cards(cards)} = {size // MIB} MiB on each",
    )
    if core is None:
        return _apply_policy(
            one, ContainerAsk(cards, memory_bytes=size, rules=rules, guesses=(NO_COMPUTE,))
        )
    milli = amounts.split_evenly(
        amounts.parse_percent(core, STEP, 100 * cards, STEP), cards, core, STEP * 10
    )
    rules = (
        *rules,
        f"xgpu: {core} %{_describe_cards(cards)} = {milli // 10} % of each card's compute",
    )
    return _apply_policy(one, ContainerAsk(cards, milli, memory_bytes=size, rules=rules))


def _describe_cards(cards: int) -> str:
    return f" over {cards} cards" if cards > 1 else ""


def _read_decimal(word: PlacedWord) -> ContainerAsk:
    """A decimal of `nvidia.com/gpu`: the vanilla API server refuses it, and CCE fences memory
    alone."""
    milli = amounts.parse_fraction(word)
    note = "written so it is refused by Kubernetes itself; there only the memory is fenced"
    guess = f"compute is not promised there: here {milli / 10:g} % of it, and what is idle"
    rule = f"xgpu: {word}: {milli / 10:g} % of one card's memory"
    return ContainerAsk(
        1, milli, usual=SharingKind.BURST, rules=(rule,), guesses=(guess,), notes=(note,)
    )


def _read_environment(one: PodContainer) -> ContainerAsk:
    """xGPU under a plain container engine."""
    memory = one.env[_MEM]
    quota = one.env.get(_QUOTA)
    size = amounts.parse_mebibytes(memory)
    milli = (
        None if quota is None or quota.value is None else (amounts.parse_percent(quota, 0) or None)
    )
    guesses = () if milli else (NO_COMPUTE,)
    notes = (
        (f"{one.env[_IDX]} is ignored: an index is another card on each node",)
        if _IDX in one.env
        else ()
    )
    rules = list_rules("xgpu", memory, quota)
    return _apply_policy(
        one, ContainerAsk(1, milli, memory_bytes=size, rules=rules, guesses=guesses, notes=notes)
    )


def _apply_policy(one: PodContainer, ask: ContainerAsk) -> ContainerAsk:
    policy = one.env.get(_POLICY)
    priority = one.env.get(_PRIORITY)
    if policy is not None and policy.value is not None:
        sharing, why = _POLICIES[amounts.parse_integer(policy, 0, max(_POLICIES))]
        # Without compute there is no guarantee that a policy could divide.
        sharing = sharing if ask.gpu_milli is not None else SharingKind.BEST_EFFORT
        ask = replace(ask, sharing=sharing, rules=(*ask.rules, f"xgpu: {policy}: {why}"))
    if priority is not None and priority.value is not None:
        urgency = "high" if amounts.parse_integer(priority, 0, 1) else "low"
        ask = replace(ask, urgency=urgency, rules=(*ask.rules, f"xgpu: {priority} (1 is high)"))
    return ask


DIALECT = Dialect(
    "xgpu",
    "Huawei Cloud CCE (xGPU)",
    "https://support.huaweicloud.com/intl/en-us/usermanual-cce/cce_10_0965.html",
    (
        KnownWord(MEMORY, WordPlace.RESOURCE, "× 128 MiB", "memory over all its cards"),
        KnownWord(
            CORE,
            WordPlace.RESOURCE,
            "multiple of 5",
            "percent of compute over all its cards; not without memory",
        ),
        KnownWord(
            CARDS,
            WordPlace.LABEL,
            "integer",
            "over so many cards, in equal parts that come out even",
        ),
        KnownWord(
            DECIMAL,
            WordPlace.RESOURCE,
            "above 0, below 1",
            "a part of one card, as CCE's console writes it",
        ),
        KnownWord(_MEM, WordPlace.ENV, "MiB", "memory, under a plain container engine"),
        KnownWord(_QUOTA, WordPlace.ENV, "0-100", "percent of compute"),
        KnownWord(
            _POLICY, WordPlace.ENV, "0-6", "sharing: 1, 2 fixed; 4, 5, 6 burst; 0, 3 best-effort"
        ),
        KnownWord(
            _PRIORITY,
            WordPlace.ENV,
            "1 high, 0 low",
            "precedence on the card; the other way round than HAMi's",
        ),
        KnownWord(
            _IDX, WordPlace.ENV, "index", "ignored, aloud: an index is another card on each node"
        ),
    ),
    read_words,
    prefixes=("volcano.sh/gpu-mem.", "volcano.sh/gpu-core."),
)
