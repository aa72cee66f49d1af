"""vgpu-manager: distinct cards, each cut by memory and compute, under names of its own.

Source: coldzerofear/vgpu-manager README, docs and pkg/util/consts.go.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from gpupool.dialects import amounts, hami_core, models
from gpupool.dialects.contract import Dialect, Hints, Name, Reading, Select, Where
from gpupool.dialects.facts import NodeFacts
from gpupool.dialects.hami_core import Keys
from gpupool.dialects.pod import Pod
from gpupool.model.claim import Sharing, Within

KEYS = Keys("vgpu-manager", "nvidia.com/vgpu-number", "nvidia.com/vgpu-memory", "-", "nvidia.com/vgpu-cores")
_TYPES, _NOT_TYPES = "nvidia.com/include-gpu-type", "nvidia.com/exclude-gpu-type"
_UUIDS, _NOT_UUIDS = "nvidia.com/include-gpu-uuid", "nvidia.com/exclude-gpu-uuid"
_NEAR, _COMPUTE = "nvidia.com/device-topology-mode", "nvidia.com/vgpu-compute-policy"
_RULES = ("nvidia.com/node-scheduler-policy", "nvidia.com/device-scheduler-policy")
_WITHIN: Mapping[str, Within | None] = {"link": Within(preferred="nvlink"), "numa": Within(preferred="numa")}
_SHARING: Mapping[str, Sharing] = {"fixed": Sharing.FIXED, "balance": Sharing.BURST, "none": Sharing.BEST_EFFORT}


def read(pod: Pod, _facts: NodeFacts) -> Reading:
    asks = {}
    for one in pod.containers:
        if one.asks(KEYS.count, KEYS.memory, KEYS.cores):
            found = hami_core.ask(one, KEYS, None, None)
            asks[one.name] = replace(found, usual=Sharing.FIXED, guesses=_without_policy(found.guesses))
    if not asks:
        return Reading()
    near, compute = pod.annotation(_NEAR), pod.annotation(_COMPUTE)
    notes = (pod.annotation(key) for key in _RULES)
    return Reading(
        asks,
        _select(pod),
        None if compute is None else _SHARING[amounts.text(compute, *_SHARING)],
        Hints(within=None if near is None else _WITHIN.get(amounts.text(near, "none", *_WITHIN))),
        notes=tuple(f"{word}: nodes and cards are chosen by the pool's own rule" for word in notes if word is not None),
    )


def _without_policy(guesses: tuple[str, ...]) -> tuple[str, ...]:
    """Without the guess of HAMi's own core policy: here the limit is fixed unless the pod says otherwise."""
    return tuple(text for text in guesses if "core policy" not in text)


def _select(pod: Pod) -> Select:
    def listed(key: str) -> tuple[str, ...]:
        word = pod.annotation(key)
        return () if word is None else amounts.words(word)

    types, not_types = models.meant(listed(_TYPES)), models.meant(listed(_NOT_TYPES))
    return Select(types, not_types, listed(_UUIDS), listed(_NOT_UUIDS))


DIALECT = Dialect(
    "vgpu-manager",
    "vgpu-manager",
    "https://github.com/coldzerofear/vgpu-manager",
    (
        Name(KEYS.count, Where.RESOURCE, "integer", "so many distinct cards, each with the share below"),
        Name(KEYS.memory, Where.RESOURCE, "MiB", "memory on each card; left out: all of it"),
        Name(KEYS.cores, Where.RESOURCE, "0-100", "percent of each card's compute; 100 is the whole card"),
        Name(_TYPES, Where.ANNOTATION, "list", "only cards whose product has one of these words"),
        Name(_NOT_TYPES, Where.ANNOTATION, "list", "no card whose product has one of these words"),
        Name(_UUIDS, Where.ANNOTATION, "list", "only these cards"),
        Name(_NOT_UUIDS, Where.ANNOTATION, "list", "not these cards"),
        Name(_COMPUTE, Where.ANNOTATION, "`fixed`, `balance`, `none`", "sharing fixed, burst, best-effort"),
        Name(_NEAR, Where.ANNOTATION, "`link`, `numa`, `none`", "cards near together, as a wish"),
        *(Name(key, Where.ANNOTATION, "`binpack`, `spread`", "noted: the pool's own rule places") for key in _RULES),
    ),
    read,
    prefixes=("nvidia.com/vgpu-",),
    schedulers=("vgpu-scheduler",),
)
