"""HAMi: distinct cards, each cut by memory and compute; which cards; precedence on a card.

Source: Project-HAMi/HAMi, examples/nvidia and pkg/device/nvidia/device.go.
"""

from __future__ import annotations

from gpupool.base.errors import NotExpressible
from gpupool.base.units import WHOLE
from gpupool.dialects import amounts, hami_core, models
from gpupool.dialects.contract import Ask, Dialect, Hints, Name, Reading, Select, Where
from gpupool.dialects.facts import NodeFacts
from gpupool.dialects.hami_core import HAMI
from gpupool.dialects.pod import Container, Pod, Word
from gpupool.model.claim import Within

IGNORE = "hami.io/webhook"
_USE, _NOT_USE = "nvidia.com/use-gputype", "nvidia.com/nouse-gputype"
_UUIDS, _NOT_UUIDS = "nvidia.com/use-gpuuuid", "nvidia.com/nouse-gpuuuid"
_MODE, _NUMA = "nvidia.com/vgpu-mode", "nvidia.com/numa-bind"
_NODE_RULE, _CARD_RULE = "hami.io/node-scheduler-policy", "hami.io/gpu-scheduler-policy"
_OVER, _OFF = "CUDA_OVERSUBSCRIBE", "CUDA_DISABLE_CONTROL"
_NEAR = {"topology-aware": Within(preferred="nvlink"), "numa": Within(preferred="numa")}


def opts_out(pod: Pod) -> bool:
    """Whether HAMi was told to leave the pod alone, which we honour too."""
    word = pod.label(IGNORE)
    return word is not None and word.value == "ignore"


def read(pod: Pod, facts: NodeFacts) -> Reading:
    mode = hami_core.slices(pod.annotation(_MODE))
    asks = {one.name: ask for one in pod.containers if (ask := _ask(one, facts, mode)) is not None}
    near, rules, notes = _placing(pod)
    return Reading(asks, _select(pod), hints=Hints(within=near), rules=tuple(rules), notes=tuple(notes))


def _ask(one: Container, facts: NodeFacts, mode: Word | None) -> Ask | None:
    if hami_core.speaks(one):
        found = hami_core.ask(one, HAMI, facts.hami_memory_factor, facts.hami_core_policy)
        if mode is not None:
            return _switches(one, hami_core.sliced(one, found, mode, facts.hami_mig_profiles))
    elif mode is not None and one.asks(HAMI.count):
        return hami_core.sliced(one, None, mode, facts.hami_mig_profiles)
    elif hami_core.limited(one) and one.asks(HAMI.count):
        found = Ask(amounts.integer(one.resources[HAMI.count]), WHOLE, rules=(f"hami: {one.resources[HAMI.count]}",))
    else:
        return None
    return _switches(one, hami_core.urgent(one, hami_core.from_environment(one, found)))


def _switches(one: Container, ask: Ask) -> Ask:
    """Two switches that would open the fence from inside."""
    for key, why in (
        (_OVER, "memory that is not there is lent to nobody"),
        (_OFF, "a fence is not switched off from inside"),
    ):
        word = one.env.get(key)
        if word is not None and str(word.value).lower() in ("true", "1"):
            raise NotExpressible(f"{word}: {why}", hint="leave it out, and ask for what is needed", path=word.path)
    return ask


def _select(pod: Pod) -> Select:
    def listed(key: str) -> tuple[str, ...]:
        word = pod.annotation(key)
        return () if word is None else amounts.words(word)

    return Select(models.meant(listed(_USE)), models.meant(listed(_NOT_USE)), listed(_UUIDS), listed(_NOT_UUIDS))


def _placing(pod: Pod) -> tuple[Within | None, list[str], list[str]]:
    near = None
    rules: list[str] = []
    notes: list[str] = []
    numa, cards, nodes = pod.annotation(_NUMA), pod.annotation(_CARD_RULE), pod.annotation(_NODE_RULE)
    if cards is not None:
        near = _NEAR.get(amounts.text(cards, "binpack", "spread", "mutex", *_NEAR))
        told = rules if near is not None else notes
        told.append(f"hami: {cards}" if near is not None else f"{cards}: cards are chosen by the pool's own rule")
    if numa is not None and amounts.truth(numa):
        near = Within(required="numa")
        rules.append(f"hami: {numa}: cards of one NUMA node")
    if nodes is not None:
        amounts.text(nodes, "binpack", "spread")
        notes.append(f"{nodes}: nodes are chosen by the pool's own rule")
    return near, rules, notes


DIALECT = Dialect(
    "hami",
    "HAMi",
    "https://github.com/Project-HAMi/HAMi",
    (
        Name(
            HAMI.count,
            Where.RESOURCE,
            "integer",
            "so many distinct cards, each with the share below; 1 where it is left out",
        ),
        Name(
            HAMI.memory,
            Where.RESOURCE,
            "MiB × `hami_memory_factor`",
            "memory on each card; below 64 MiB and above 4 TiB refused",
        ),
        Name(HAMI.part, Where.RESOURCE, "0-100", "part of each card's memory; not beside gpumem"),
        Name(
            HAMI.cores,
            Where.RESOURCE,
            "0-100",
            "percent of each card's compute; 100 is the whole card, 0 or none guarantees none",
        ),
        Name(hami_core.PRIORITY, Where.RESOURCE, "0 high, 1 low", "precedence beside the tenants of the same card"),
        Name(_USE, Where.ANNOTATION, "list", "only cards whose product has one of these words"),
        Name(_NOT_USE, Where.ANNOTATION, "list", "no card whose product has one of these words"),
        Name(_UUIDS, Where.ANNOTATION, "list", "only these cards"),
        Name(_NOT_UUIDS, Where.ANNOTATION, "list", "not these cards"),
        Name(
            _MODE,
            Where.ANNOTATION,
            "`hami-core`, `mig`",
            "`mig`: the smallest of `hami_mig_profiles` that holds the memory; without that fact refused",
        ),
        Name(_NUMA, Where.ANNOTATION, "bool", "cards of one NUMA node"),
        Name(
            _CARD_RULE,
            Where.ANNOTATION,
            "`binpack`, `spread`, `mutex`, `topology-aware`, `numa`",
            "the last two: near together, as a wish",
        ),
        Name(_NODE_RULE, Where.ANNOTATION, "`binpack`, `spread`", "noted: the pool's own rule places"),
        Name("hami.io/device-scoring-weights", Where.ANNOTATION, "JSON", "noted: the pool's own rule places"),
        Name(IGNORE, Where.LABEL, "`ignore`", "the pod is left alone"),
        Name(hami_core.LIMIT, Where.ENV, "`4g`", "memory, where no resource says it"),
        Name(f"{hami_core.LIMIT}_<i>", Where.ENV, "`4g`", "as above"),
        Name(hami_core.SM, Where.ENV, "1-100", "compute, where no resource says it"),
        Name(hami_core.TASK, Where.ENV, "0 high, 1 low", "as nvidia.com/priority"),
        Name(hami_core.POLICY, Where.ENV, "`default`, `force`, `disable`", "sharing burst, fixed, best-effort"),
        Name(_OVER, Where.ENV, "bool", "refused: memory that is not there is lent to nobody"),
        Name(_OFF, Where.ENV, "bool", "refused: a fence is not switched off from inside"),
    ),
    read,
    prefixes=("hami.io/", "nvidia.com/gpumem", "nvidia.com/gpucore"),
    schedulers=("hami-scheduler",),
)
