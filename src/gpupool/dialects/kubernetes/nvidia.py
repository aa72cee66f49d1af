"""NVIDIA's own device plugin and GKE's use of it: whole cards, replicas (time-slicing, MPS), MIG
slices, selections.

Sources: NVIDIA/k8s-device-plugin README (sharing, `failRequestsGreaterThanOne`, MIG strategies);
its issues 990 and 491 (replicas fence nothing); docs.cloud.google.com/kubernetes-engine, "GPU
sharing strategies".
"""

from __future__ import annotations

import re
from dataclasses import replace

from gpupool.base.errors import FactMissing, ForeignValue, NotExpressible
from gpupool.base.units import WHOLE
from gpupool.dialects import amounts, models
from gpupool.dialects.contract import (
    CardFilter,
    ContainerAsk,
    Dialect,
    KnownWord,
    PodReading,
    WordPlace,
)
from gpupool.dialects.facts import NodeFacts
from gpupool.dialects.kubernetes import cgpu, hami_core
from gpupool.dialects.pod import PlacedWord, PodContainer, PodView, add_path
from gpupool.model.claim import SharingKind

GPU = "nvidia.com/gpu"
SHARED = "nvidia.com/gpu.shared"
#: Resources of the mixed MIG strategy: `.me` has the media engines, `.shared` is a replica.
_MIG = re.compile(r"nvidia\.com/mig-([1-9][0-9]?g\.[0-9]{1,4}gb)(\.me)?(\.shared)?")
#: `all` or an index in them opens cards that the pool did not give.
_VISIBLE = ("NVIDIA_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES")
#: Node labels with a card's product name: GPU feature discovery's and GKE's.
_PRODUCTS = ("nvidia.com/gpu.product", "cloud.google.com/gke-accelerator")
#: Limits that MPS reads in the client; docs.nvidia.com/deploy/mps.
_THREADS = "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"
_PINNED = "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"


def read_words(pod: PodView, facts: NodeFacts) -> PodReading:
    asks = {}
    notes = []
    for one in pod.containers:
        ask = _read_ask(one, facts)
        if ask is not None:
            asks[one.name] = _apply_visible(one, ask)
        elif (
            not hami_core.has_hami_words(one)
            and str(_read_variable(one, _VISIBLE[0])).lower() == "all"
        ):
            notes.append(
                f"{one.name}: {_VISIBLE[0]}=all asks for no card and opens every card of a node; here it gets none"
            )
    product = next((pod.selector[key] for key in _PRODUCTS if key in pod.selector), None)
    select = (
        CardFilter()
        if product is None
        else CardFilter(models=models.list_models([amounts.read_name(product)]))
    )
    return PodReading(asks, select, notes=tuple(notes))


def _read_variable(one: PodContainer, key: str) -> object:
    return one.env[key].value if key in one.env else None


def _read_ask(one: PodContainer, facts: NodeFacts) -> ContainerAsk | None:
    slices = [
        word for key, word in one.resources.items() if _MIG.fullmatch(key) and one.asks_for(key)
    ]
    kinds = [*slices, *(one.resources[key] for key in (GPU, SHARED) if one.asks_for(key))]
    # Beside words of HAMi `nvidia.com/gpu` counts HAMi's cards, and that dialect reads it.
    if hami_core.has_hami_words(one):
        kinds = slices
    if len(kinds) > 1:
        raise NotExpressible(
            f"container {one.name} asks for {' and '.join(map(str, kinds))}: one container has cards of one kind",
            hint="give each kind a container of its own",
            path=kinds[1].path,
        )
    if not kinds:
        return None
    word = kinds[0]
    if word.key == SHARED:
        return _read_replica(one, word, facts)
    return _read_slice(word) if slices else _read_whole(one, word, facts)


def _read_whole(one: PodContainer, word: PlacedWord, facts: NodeFacts) -> ContainerAsk | None:
    if amounts.parse_number(word).denominator != 1:
        return None  # CCE's way to write a share
    count = amounts.parse_integer(word)
    if facts.mig_profile is not None:
        rule = f"nvidia: {word} slices of the single MIG strategy"
        return ContainerAsk(count, profile=facts.mig_profile, rules=(rule,))
    if facts.replicas is not None:
        return _read_replica(one, word, facts)
    if hami_core.has_own_limits(one) or cgpu.is_egpu(one):
        return None
    return ContainerAsk(
        count, WHOLE, rules=(f"nvidia: {word} whole cards, nobody else's meanwhile",)
    )


def _read_slice(word: PlacedWord) -> ContainerAsk:
    found = _MIG.fullmatch(word.key)
    assert found is not None
    if found.group(3):
        raise NotExpressible(
            f"{word}: a replica of a MIG slice has no fence",
            hint=f"ask for the slice: nvidia.com/mig-{found.group(1)}, or for a share: gpupool.dev/gpu-milli",
            path=word.path,
        )
    profile = found.group(1) + ("+me" if found.group(2) else "")
    return ContainerAsk(
        amounts.parse_integer(word),
        profile=profile,
        rules=(f"nvidia: {word} slices cut by hardware",),
    )


def _read_replica(one: PodContainer, word: PlacedWord, facts: NodeFacts) -> ContainerAsk:
    """A replica is a ticket to a card, not a part of it; only how many there are says how large a
    part is fair."""
    if amounts.parse_integer(word) > 1:
        raise NotExpressible(
            f"{word}: a replica is a ticket to a card; {word.value} may be to the same one, and are not more power",
            hint="ask for one, or for so many cards: gpupool.dev/gpus with gpupool.dev/gpu-milli",
            path=word.path,
        )
    if facts.replicas is None:
        raise FactMissing(
            f"{word}: how large a part this is depends on how many replicas the plugin makes of a card",
            hint="say it in a file of facts: `replicas: 10`, `replicas_by: mps`",
            path=word.path,
            fact="replicas",
        )
    mps = facts.replicas_by == "mps"
    # Rounded down: all replicas together must fit on the card.
    milli = max(1, WHOLE // facts.replicas)
    usual = SharingKind.FIXED if mps else SharingKind.BURST
    told = f"{word} is one of {facts.replicas} replicas: 1/{facts.replicas} of compute and memory"
    kept = "as MPS gives it" if mps else "nothing fences it there; here both are kept"
    return _apply_mps_limits(
        one, ContainerAsk(1, milli, usual=usual, rules=(f"nvidia: {told}",), notes=(kept,))
    )


def _apply_mps_limits(one: PodContainer, ask: ContainerAsk) -> ContainerAsk:
    """MPS' own limits, which a program may set for itself: they can only make the share smaller."""
    threads = one.env.get(_THREADS)
    pinned = one.env.get(_PINNED)
    if threads is not None and threads.value is not None:
        milli = min(amounts.parse_percent(threads), ask.gpu_milli or WHOLE)
        ask = replace(
            ask,
            gpu_milli=milli,
            memory_milli=ask.memory_milli or ask.gpu_milli,
            sharing=SharingKind.FIXED,
        )
        ask = replace(ask, rules=(*ask.rules, f"nvidia: {threads} % of the card's threads"))
    if pinned is not None and pinned.value is not None:
        ask = replace(ask, memory_bytes=_parse_pinned_limit(pinned), memory_milli=None)
        ask = replace(ask, rules=(*ask.rules, f"nvidia: {pinned} of memory"))
    return ask


def _parse_pinned_limit(word: PlacedWord) -> int:
    """`0=8G,1=8G`: the same for every card, as a share is."""
    sizes = {part.partition("=")[2] for part in amounts.read_list(word)}
    if len(sizes) != 1 or "" in sizes:
        raise ForeignValue(
            f"{word}: a share has the same memory on each card",
            hint="write 0=8G,1=8G",
            path=word.path,
        )
    found = re.fullmatch(r"([0-9]{1,9})([MG])B?", sizes.pop().strip())
    if found is None:
        raise ForeignValue(
            f"{word}: this is no amount of memory", hint="write it like 0=8G", path=word.path
        )
    # MPS' suffixes are binary.
    unit = 1024 if found.group(2) == "G" else 1
    return amounts.parse_mebibytes(PlacedWord(word.key, found.group(1), word.path), unit)


def _apply_visible(one: PodContainer, ask: ContainerAsk) -> ContainerAsk:
    """A selection by UUID is kept; an index is another card on each node."""
    for key in _VISIBLE:
        word = one.env.get(key)
        if (
            word is None
            or word.value is None
            or str(word.value).strip().lower() in ("", "all", "none", "void")
        ):
            continue
        try:
            names = amounts.read_list(word)
        except ForeignValue as error:
            raise add_path(error, word.path) from None
        if all(name.startswith(("GPU-", "MIG-")) for name in names):
            select = replace(ask.select, uuids=names)
            ask = replace(ask, select=select, rules=(*ask.rules, f"nvidia: {key} names the cards"))
        else:
            ask = replace(
                ask, notes=(*ask.notes, f"{word} is ignored: an index is another card on each node")
            )
    return ask


DIALECT = Dialect(
    "nvidia",
    "NVIDIA device plugin, GKE",
    "https://github.com/NVIDIA/k8s-device-plugin",
    (
        KnownWord(
            GPU,
            WordPlace.RESOURCE,
            "integer",
            "so many whole cards; with the fact `replicas` one replica of a card",
        ),
        KnownWord(
            SHARED,
            WordPlace.RESOURCE,
            "1",
            "one replica (time-slicing, MPS): 1/`replicas` of compute and memory; above 1 refused",
        ),
        KnownWord(
            "nvidia.com/mig-<slice>",
            WordPlace.RESOURCE,
            "integer",
            "so many MIG slices of that profile; `.me` is `+me`",
        ),
        KnownWord(
            "nvidia.com/gpu.product", WordPlace.SELECTOR, "product name", "only cards of this model"
        ),
        KnownWord(
            "cloud.google.com/gke-accelerator",
            WordPlace.SELECTOR,
            "model",
            "only cards of this model",
        ),
        KnownWord(
            "cloud.google.com/gke-gpu-sharing-strategy",
            WordPlace.SELECTOR,
            "`time-sharing`, `mps`",
            "what makes the replicas",
        ),
        KnownWord(
            "cloud.google.com/gke-max-shared-clients-per-gpu",
            WordPlace.SELECTOR,
            "integer",
            "how many replicas of a card",
        ),
        KnownWord(
            "cloud.google.com/gke-gpu-partition-size",
            WordPlace.SELECTOR,
            "MIG profile",
            "each `nvidia.com/gpu` is such a slice",
        ),
        KnownWord(
            _VISIBLE[0],
            WordPlace.ENV,
            "UUIDs",
            "only these cards; an index or `all` is ignored, aloud",
        ),
        KnownWord(_VISIBLE[1], WordPlace.ENV, "UUIDs", "as above"),
        KnownWord(
            _THREADS,
            WordPlace.ENV,
            "1-100",
            "of a replica: at most so many percent of the card's threads",
            stays=True,
        ),
        KnownWord(_PINNED, WordPlace.ENV, "`0=8G`", "of a replica: memory per card", stays=True),
    ),
    read_words,
    prefixes=("nvidia.com/gpu", "nvidia.com/mig-"),
)
