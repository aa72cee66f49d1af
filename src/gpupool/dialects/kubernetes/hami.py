"""HAMi: distinct cards, each cut by memory and compute; which cards; precedence on a card.

Source: Project-HAMi/HAMi, examples/nvidia and pkg/device/nvidia/device.go.
"""

from __future__ import annotations

from gpupool.base.errors import NotExpressible
from gpupool.base.units import WHOLE
from gpupool.dialects import amounts, models
from gpupool.dialects.contract import (
    CardFilter,
    ContainerAsk,
    Dialect,
    KnownWord,
    PodHints,
    PodReading,
    WordPlace,
)
from gpupool.dialects.facts import NodeFacts
from gpupool.dialects.kubernetes import hami_core
from gpupool.dialects.kubernetes.hami_core import HAMI
from gpupool.dialects.pod import PlacedWord, PodContainer, PodView
from gpupool.model.claim import TopologyConstraint

#: The label by which HAMi's own webhook skips a pod.
IGNORE = "hami.io/webhook"
_USE = "nvidia.com/use-gputype"
_NOT_USE = "nvidia.com/nouse-gputype"
_UUIDS = "nvidia.com/use-gpuuuid"
_NOT_UUIDS = "nvidia.com/nouse-gpuuuid"
_MODE = "nvidia.com/vgpu-mode"
_NUMA = "nvidia.com/numa-bind"
_NODE_RULE = "hami.io/node-scheduler-policy"
_CARD_RULE = "hami.io/gpu-scheduler-policy"
_OVER = "CUDA_OVERSUBSCRIBE"
_OFF = "CUDA_DISABLE_CONTROL"
#: Values of the card policy that say how near together cards are; the others only spread or pack
#: them.
_NEAR = {
    "topology-aware": TopologyConstraint(preferred="nvlink"),
    "numa": TopologyConstraint(preferred="numa"),
}


def opts_out(pod: PodView) -> bool:
    """Whether HAMi was told to leave the pod alone, which we honour too."""
    word = pod.find_label(IGNORE)
    return word is not None and word.value == "ignore"


def read_words(pod: PodView, facts: NodeFacts) -> PodReading:
    mode = hami_core.find_mig_mode(pod.find_annotation(_MODE))
    asks = {}
    for one in pod.containers:
        if (ask := _read_ask(one, facts, mode)) is not None:
            asks[one.name] = ask
    near, rules, notes = _read_placing(pod)
    return PodReading(
        asks, _read_filter(pod), hints=PodHints(within=near), rules=tuple(rules), notes=tuple(notes)
    )


def _read_ask(one: PodContainer, facts: NodeFacts, mode: PlacedWord | None) -> ContainerAsk | None:
    if hami_core.has_hami_words(one):
        # Variables count only where no resource says the same (`hami_core.from_environment`).
        found = hami_core.read_ask(one, HAMI, facts.hami_memory_factor, facts.hami_core_policy)
        if mode is not None:
            return _check_switches(
                one, hami_core.choose_slice(one, found, mode, facts.hami_mig_profiles)
            )
    elif mode is not None and one.asks_for(HAMI.count):
        return hami_core.choose_slice(one, None, mode, facts.hami_mig_profiles)
    elif hami_core.has_own_limits(one) and one.asks_for(HAMI.count):
        found = ContainerAsk(
            amounts.parse_integer(one.resources[HAMI.count]),
            WHOLE,
            rules=(f"hami: {one.resources[HAMI.count]}",),
        )
    else:
        return None
    return _check_switches(one, hami_core.add_urgency(one, hami_core.from_environment(one, found)))


def _check_switches(one: PodContainer, ask: ContainerAsk) -> ContainerAsk:
    """Two switches that would open the fence from inside."""
    for key, why in (
        (_OVER, "memory that is not there is lent to nobody"),
        (_OFF, "a fence is not switched off from inside"),
    ):
        word = one.env.get(key)
        if word is not None and str(word.value).lower() in ("true", "1"):
            raise NotExpressible(
                f"{word}: {why}", hint="leave it out, and ask for what is needed", path=word.path
            )
    return ask


def _read_filter(pod: PodView) -> CardFilter:
    def read_listed(key: str) -> tuple[str, ...]:
        word = pod.find_annotation(key)
        return () if word is None else amounts.read_list(word)

    return CardFilter(
        models.list_models(read_listed(_USE)),
        models.list_models(read_listed(_NOT_USE)),
        read_listed(_UUIDS),
        read_listed(_NOT_UUIDS),
    )


def _read_placing(pod: PodView) -> tuple[TopologyConstraint | None, list[str], list[str]]:
    near = None
    rules: list[str] = []
    notes: list[str] = []
    numa = pod.find_annotation(_NUMA)
    cards = pod.find_annotation(_CARD_RULE)
    nodes = pod.find_annotation(_NODE_RULE)
    if cards is not None:
        near = _NEAR.get(amounts.read_text(cards, "binpack", "spread", "mutex", *_NEAR))
        told = rules if near is not None else notes
        told.append(
            f"hami: {cards}"
            if near is not None
            else f"{cards}: cards are chosen by the pool's own rule"
        )
    if numa is not None and amounts.read_truth(numa):
        near = TopologyConstraint(required="numa")
        rules.append(f"hami: {numa}: cards of one NUMA node")
    if nodes is not None:
        amounts.read_text(nodes, "binpack", "spread")
        notes.append(f"{nodes}: nodes are chosen by the pool's own rule")
    return near, rules, notes


DIALECT = Dialect(
    "hami",
    "HAMi",
    "https://github.com/Project-HAMi/HAMi",
    (
        KnownWord(
            HAMI.count,
            WordPlace.RESOURCE,
            "integer",
            "so many distinct cards, each with the share below; 1 where it is left out",
        ),
        KnownWord(
            HAMI.memory,
            WordPlace.RESOURCE,
            "MiB × `hami_memory_factor`",
            "memory on each card; below 64 MiB and above 4 TiB refused",
        ),
        KnownWord(
            HAMI.part, WordPlace.RESOURCE, "0-100", "part of each card's memory; not beside gpumem"
        ),
        KnownWord(
            HAMI.cores,
            WordPlace.RESOURCE,
            "0-100",
            "percent of each card's compute; 100 is the whole card, 0 or none guarantees none",
        ),
        KnownWord(
            hami_core.PRIORITY,
            WordPlace.RESOURCE,
            "0 high, 1 low",
            "precedence beside the tenants of the same card",
        ),
        KnownWord(
            _USE, WordPlace.ANNOTATION, "list", "only cards whose product has one of these words"
        ),
        KnownWord(
            _NOT_USE, WordPlace.ANNOTATION, "list", "no card whose product has one of these words"
        ),
        KnownWord(_UUIDS, WordPlace.ANNOTATION, "list", "only these cards"),
        KnownWord(_NOT_UUIDS, WordPlace.ANNOTATION, "list", "not these cards"),
        KnownWord(
            _MODE,
            WordPlace.ANNOTATION,
            "`hami-core`, `mig`",
            "`mig`: the smallest of `hami_mig_profiles` that holds the memory; without that fact refused",
        ),
        KnownWord(_NUMA, WordPlace.ANNOTATION, "bool", "cards of one NUMA node"),
        KnownWord(
            _CARD_RULE,
            WordPlace.ANNOTATION,
            "`binpack`, `spread`, `mutex`, `topology-aware`, `numa`",
            "the last two: near together, as a wish",
        ),
        KnownWord(
            _NODE_RULE,
            WordPlace.ANNOTATION,
            "`binpack`, `spread`",
            "noted: the pool's own rule places",
        ),
        KnownWord(
            "hami.io/device-scoring-weights",
            WordPlace.ANNOTATION,
            "JSON",
            "noted: the pool's own rule places",
        ),
        KnownWord(IGNORE, WordPlace.LABEL, "`ignore`", "the pod is left alone"),
        KnownWord(hami_core.LIMIT, WordPlace.ENV, "`4g`", "memory, where no resource says it"),
        KnownWord(f"{hami_core.LIMIT}_<i>", WordPlace.ENV, "`4g`", "as above"),
        KnownWord(hami_core.SM, WordPlace.ENV, "1-100", "compute, where no resource says it"),
        KnownWord(hami_core.TASK, WordPlace.ENV, "0 high, 1 low", "as nvidia.com/priority"),
        KnownWord(
            hami_core.POLICY,
            WordPlace.ENV,
            "`default`, `force`, `disable`",
            "sharing burst, fixed, best-effort",
        ),
        KnownWord(
            _OVER, WordPlace.ENV, "bool", "refused: memory that is not there is lent to nobody"
        ),
        KnownWord(_OFF, WordPlace.ENV, "bool", "refused: a fence is not switched off from inside"),
    ),
    read_words,
    prefixes=("hami.io/", "nvidia.com/gpumem", "nvidia.com/gpucore"),
    schedulers=("hami-scheduler",),
)
