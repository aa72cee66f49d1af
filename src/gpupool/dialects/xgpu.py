"""Huawei Cloud's CCE: xGPU shares, several cards with equal parts, and decimals of `nvidia.com/gpu`.

Sources: support.huaweicloud.com/usermanual-cce: cce_10_0742 (decimals), cce_10_0965 (equal parts), GPU virtualization
(opentelekomcloud-docs keeps the same pages); HCE xGPU for the environment.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from gpupool.base.errors import ForeignValue
from gpupool.base.units import MIB
from gpupool.dialects import amounts
from gpupool.dialects.contract import NO_COMPUTE, Ask, Dialect, Name, Reading, Where
from gpupool.dialects.facts import NodeFacts
from gpupool.dialects.pod import Container, Pod, Word
from gpupool.model.claim import Sharing

MEMORY, CORE, CARDS, DECIMAL = (
    "volcano.sh/gpu-mem.128Mi", "volcano.sh/gpu-core.percentage", "volcano.sh/gpu-num", "nvidia.com/gpu",
)  # fmt: skip
_MEM, _QUOTA, _POLICY, _PRIORITY, _IDX = (
    "GPU_CONTAINER_MEM", "GPU_CONTAINER_QUOTA_PERCENT", "GPU_POLICY", "GPU_CONTAINER_PRIORITY", "GPU_IDX",
)  # fmt: skip
PIECE_MIB, STEP = 128, 5
_POLICIES: Mapping[int, tuple[Sharing, str]] = {
    0: (Sharing.BEST_EFFORT, "native: the driver decides"),
    1: (Sharing.FIXED, "fixed"),
    2: (Sharing.FIXED, "average, nearest to fixed"),
    3: (Sharing.BEST_EFFORT, "preemptive, so best-effort"),
    4: (Sharing.BURST, "weights, nearest to burst"),
    5: (Sharing.BURST, "hybrid, nearest to burst"),
    6: (Sharing.BURST, "weak isolation, nearest to burst"),
}


def read(pod: Pod, _facts: NodeFacts) -> Reading:
    asks = {}
    for one in pod.containers:
        if one.asks(MEMORY, CORE):
            asks[one.name] = _ask(one, pod.label(CARDS))
        elif one.asks(DECIMAL) and amounts.number(one.resources[DECIMAL]).denominator != 1:
            asks[one.name] = _decimal(one.resources[DECIMAL])
        elif _MEM in one.env and one.env[_MEM].value is not None:
            asks[one.name] = _environment(one)
    return Reading(asks)


def _ask(one: Container, label: Word | None) -> Ask:
    memory, core = one.resource(MEMORY), one.resource(CORE)
    if memory is None:
        assert core is not None
        raise ForeignValue(
            f"{core} without {MEMORY}: compute is not had without memory", hint=f"add {MEMORY}", path=core.path
        )
    cards = 1 if label is None else amounts.integer(label, 1, 64)
    pieces = amounts.split(amounts.integer(memory, 1, 1 << 40), cards, memory)
    size = amounts.mebibytes(Word(memory.key, pieces, memory.path), PIECE_MIB)
    rules: tuple[str, ...] = (f"xgpu: {memory} × {PIECE_MIB} MiB{_over(cards)} = {size // MIB} MiB on each",)
    if core is None:
        return _policy(one, Ask(cards, memory_bytes=size, rules=rules, guesses=(NO_COMPUTE,)))
    milli = amounts.split(amounts.percent(core, STEP, 100 * cards, STEP), cards, core, STEP * 10)
    rules = (*rules, f"xgpu: {core} %{_over(cards)} = {milli // 10} % of each card's compute")
    return _policy(one, Ask(cards, milli, memory_bytes=size, rules=rules))


def _over(cards: int) -> str:
    return f" over {cards} cards" if cards > 1 else ""


def _decimal(word: Word) -> Ask:
    """A decimal of `nvidia.com/gpu`: the vanilla API server refuses it, and CCE fences memory alone."""
    milli = amounts.fraction(word)
    note = "written so it is refused by Kubernetes itself; there only the memory is fenced"
    guess = f"compute is not promised there: here {milli / 10:g} % of it, and what is idle"
    rule = f"xgpu: {word}: {milli / 10:g} % of one card's memory"
    return Ask(1, milli, usual=Sharing.BURST, rules=(rule,), guesses=(guess,), notes=(note,))


def _environment(one: Container) -> Ask:
    """xGPU under a plain container engine."""
    memory, quota = one.env[_MEM], one.env.get(_QUOTA)
    size = amounts.mebibytes(memory)
    milli = None if quota is None or quota.value is None else (amounts.percent(quota, 0) or None)
    guesses = () if milli else (NO_COMPUTE,)
    notes = (f"{one.env[_IDX]} is ignored: an index is another card on each node",) if _IDX in one.env else ()
    rules = tuple(f"xgpu: {word}" for word in (memory, quota) if word is not None)
    return _policy(one, Ask(1, milli, memory_bytes=size, rules=rules, guesses=guesses, notes=notes))


def _policy(one: Container, ask: Ask) -> Ask:
    policy, priority = one.env.get(_POLICY), one.env.get(_PRIORITY)
    if policy is not None and policy.value is not None:
        sharing, why = _POLICIES[amounts.integer(policy, 0, max(_POLICIES))]
        sharing = sharing if ask.gpu_milli is not None else Sharing.BEST_EFFORT
        ask = replace(ask, sharing=sharing, rules=(*ask.rules, f"xgpu: {policy}: {why}"))
    if priority is not None and priority.value is not None:
        urgency = "high" if amounts.integer(priority, 0, 1) else "low"
        ask = replace(ask, urgency=urgency, rules=(*ask.rules, f"xgpu: {priority} (1 is high)"))
    return ask


DIALECT = Dialect(
    "xgpu",
    "Huawei Cloud CCE (xGPU)",
    "https://support.huaweicloud.com/intl/en-us/usermanual-cce/cce_10_0965.html",
    (
        Name(MEMORY, Where.RESOURCE, "× 128 MiB", "memory over all its cards"),
        Name(CORE, Where.RESOURCE, "multiple of 5", "percent of compute over all its cards; not without memory"),
        Name(CARDS, Where.LABEL, "integer", "over so many cards, in equal parts that come out even"),
        Name(DECIMAL, Where.RESOURCE, "above 0, below 1", "a part of one card, as CCE's console writes it"),
        Name(_MEM, Where.ENV, "MiB", "memory, under a plain container engine"),
        Name(_QUOTA, Where.ENV, "0-100", "percent of compute"),
        Name(_POLICY, Where.ENV, "0-6", "sharing: 1, 2 fixed; 4, 5, 6 burst; 0, 3 best-effort"),
        Name(_PRIORITY, Where.ENV, "1 high, 0 low", "precedence on the card; the other way round than HAMi's"),
        Name(_IDX, Where.ENV, "index", "ignored, aloud: an index is another card on each node"),
    ),
    read,
    prefixes=("volcano.sh/gpu-mem.", "volcano.sh/gpu-core."),
)
