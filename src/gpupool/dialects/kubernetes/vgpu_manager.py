"""vgpu-manager: distinct cards, each cut by memory and compute, under names of its own.

Source: coldzerofear/vgpu-manager README, docs and pkg/util/consts.go.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from gpupool.dialects import amounts, models
from gpupool.dialects.contract import (
    CardFilter,
    Dialect,
    KnownWord,
    PodHints,
    PodReading,
    WordPlace,
)
from gpupool.dialects.facts import NodeFacts
from gpupool.dialects.kubernetes import hami_core
from gpupool.dialects.kubernetes.hami_core import ResourceKeys
from gpupool.dialects.pod import PodView
from gpupool.model.claim import SharingKind, TopologyConstraint

KEYS = ResourceKeys(
    "vgpu-manager", "nvidia.com/vgpu-number", "nvidia.com/vgpu-memory", "-", "nvidia.com/vgpu-cores"
)
_TYPES = "nvidia.com/include-gpu-type"
_NOT_TYPES = "nvidia.com/exclude-gpu-type"
_UUIDS = "nvidia.com/include-gpu-uuid"
_NOT_UUIDS = "nvidia.com/exclude-gpu-uuid"
_NEAR = "nvidia.com/device-topology-mode"
_COMPUTE = "nvidia.com/vgpu-compute-policy"
#: Placement rules of its scheduler, whose place the pool takes.
_RULES = ("nvidia.com/node-scheduler-policy", "nvidia.com/device-scheduler-policy")
_WITHIN: Mapping[str, TopologyConstraint | None] = {
    "link": TopologyConstraint(preferred="nvlink"),
    "numa": TopologyConstraint(preferred="numa"),
}
_SHARING: Mapping[str, SharingKind] = {
    "fixed": SharingKind.FIXED,
    "balance": SharingKind.BURST,
    "none": SharingKind.BEST_EFFORT,
}


def read_words(pod: PodView, _facts: NodeFacts) -> PodReading:
    asks = {}
    for one in pod.containers:
        if one.asks_for(KEYS.count, KEYS.memory, KEYS.cores):
            found = hami_core.read_ask(one, KEYS, None, None)
            asks[one.name] = replace(
                found, usual=SharingKind.FIXED, guesses=_without_policy(found.guesses)
            )
    if not asks:
        return PodReading()
    near = pod.find_annotation(_NEAR)
    compute = pod.find_annotation(_COMPUTE)
    notes = (pod.find_annotation(key) for key in _RULES)
    return PodReading(
        asks,
        _read_filter(pod),
        None if compute is None else _SHARING[amounts.read_text(compute, *_SHARING)],
        PodHints(
            within=None if near is None else _WITHIN.get(amounts.read_text(near, "none", *_WITHIN))
        ),
        notes=tuple(
            f"{word}: nodes and cards are chosen by the pool's own rule"
            for word in notes
            if word is not None
        ),
    )


def _without_policy(guesses: tuple[str, ...]) -> tuple[str, ...]:
    """Without the guess of HAMi's own core policy: here the limit is fixed unless the pod says
    otherwise."""
    return tuple(text for text in guesses if "core policy" not in text)


def _read_filter(pod: PodView) -> CardFilter:
    def read_listed(key: str) -> tuple[str, ...]:
        word = pod.find_annotation(key)
        return () if word is None else amounts.read_list(word)

    types = models.list_models(read_listed(_TYPES))
    not_types = models.list_models(read_listed(_NOT_TYPES))
    return CardFilter(types, not_types, read_listed(_UUIDS), read_listed(_NOT_UUIDS))


DIALECT = Dialect(
    "vgpu-manager",
    "vgpu-manager",
    "https://github.com/coldzerofear/vgpu-manager",
    (
        KnownWord(
            KEYS.count,
            WordPlace.RESOURCE,
            "integer",
            "so many distinct cards, each with the share below",
        ),
        KnownWord(
            KEYS.memory, WordPlace.RESOURCE, "MiB", "memory on each card; left out: all of it"
        ),
        KnownWord(
            KEYS.cores,
            WordPlace.RESOURCE,
            "0-100",
            "percent of each card's compute; 100 is the whole card",
        ),
        KnownWord(
            _TYPES, WordPlace.ANNOTATION, "list", "only cards whose product has one of these words"
        ),
        KnownWord(
            _NOT_TYPES, WordPlace.ANNOTATION, "list", "no card whose product has one of these words"
        ),
        KnownWord(_UUIDS, WordPlace.ANNOTATION, "list", "only these cards"),
        KnownWord(_NOT_UUIDS, WordPlace.ANNOTATION, "list", "not these cards"),
        KnownWord(
            _COMPUTE,
            WordPlace.ANNOTATION,
            "`fixed`, `balance`, `none`",
            "sharing fixed, burst, best-effort",
        ),
        KnownWord(
            _NEAR, WordPlace.ANNOTATION, "`link`, `numa`, `none`", "cards near together, as a wish"
        ),
        *(
            KnownWord(
                key,
                WordPlace.ANNOTATION,
                "`binpack`, `spread`",
                "noted: the pool's own rule places",
            )
            for key in _RULES
        ),
    ),
    read_words,
    prefixes=("nvidia.com/vgpu-",),
    schedulers=("vgpu-scheduler",),
)
