"""Every dialect there is. A new one is a file and a line here."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator

from gpupool.dialects import groups
from gpupool.dialects.contract import Dialect, KnownWord, WordPlace
from gpupool.dialects.kubernetes import (
    bitfusion,
    cgpu,
    hami,
    kai,
    koordinator,
    native,
    nvidia,
    orionx,
    qgpu,
    tensor_fusion,
    vcuda,
    vendors,
    vgpu_manager,
    volcano,
    xgpu,
)
from gpupool.dialects.pod import PlacedWord, PodView

#: In the order in which they are asked; our own words come first.
DIALECTS: tuple[Dialect, ...] = tuple(
    module.DIALECT
    for module in (
        native, nvidia, hami, volcano, vgpu_manager, qgpu, vcuda, cgpu, xgpu, kai, koordinator, orionx, bitfusion,
        tensor_fusion, vendors, groups,
    )
)  # fmt: skip
#: Schedulers of other systems, whose place we take.
SCHEDULERS = {scheduler: one.name for one in DIALECTS for scheduler in one.schedulers}
#: Annotations that those systems write themselves: in a pod that was exported, and of no meaning
#: here.
_WRITTEN_BY_OTHERS = (
    "hami.io/vgpu-", "hami.io/bind-", "volcano.sh/vgpu-node", "volcano.sh/vgpu-time", "volcano.sh/vgpu-ids-",
    "kai.scheduler/last-", "kai.scheduler/stale-",
)  # fmt: skip


def find_word(key: str, where: WordPlace) -> KnownWord | None:
    """The word of any dialect with that key, at that place."""
    return _EXACT.get((key, where)) or next(
        (name for name in _PATTERNS if name.where is where and name.matches_key(key)), None
    )


def iterate_words(pod: PodView) -> Iterator[tuple[PlacedWord, WordPlace]]:
    """Every word of the pod, with the kind of place."""
    for place, where in (
        (pod.annotations, WordPlace.ANNOTATION),
        (pod.labels, WordPlace.LABEL),
        (pod.selector, WordPlace.SELECTOR),
    ):
        for word in place.values():
            yield word, where
    for one in pod.containers:
        for word in one.resources.values():
            yield word, WordPlace.RESOURCE
        for word in one.env.values():
            yield word, WordPlace.ENV


def list_unknown_words(pod: PodView) -> list[tuple[PlacedWord, str]]:
    """Words that begin as only one system's do, and that it does not have; each with the nearest it
    has, or ''."""
    found = []
    for word, where in iterate_words(pod):
        prefix = next((prefix for prefix in _PREFIXES if word.key.startswith(prefix)), None)
        if (
            prefix is None
            or where in (WordPlace.ENV, WordPlace.SELECTOR)
            or word.key.startswith(_WRITTEN_BY_OTHERS)
        ):
            continue
        if find_word(word.key, where) is None:
            keys = _list_keys(where)
            near = difflib.get_close_matches(
                word.key, [key for key in keys if key.startswith(prefix)] or keys, n=1, cutoff=0.7
            )
            found.append((word, near[0] if near else ""))
    return found


#: What the name of a resource or of a class of devices looks like, in small letters, if it means
#: cards.
CARD_WORDS = (
    r"(?:^|[^a-z0-9])[vqs]?(?:gpu|npu|tpu|mlu|dcu|gcu|xpu|ppu|ipu|vpu|neuron|gaudi[0-9]?|ascend[a-z0-9]*|i915|xe|mig"
    r"|accelerator)(?:s|num|number|mem|memory|cores?|counts?|devices?)?(?:[^a-z]|$)"
)
_CARD = re.compile(CARD_WORDS)


def is_probably_card(name: str) -> bool:
    """Whether a resource of that name probably is a card, of any vendor.

    >>> is_probably_card("huawei.com/npu-core"), is_probably_card("cloud-tpus.google.com/v3")
    (True, True)
    >>> is_probably_card("a.io/output")
    False
    """
    return _CARD.search(name.lower()) is not None


def list_unread_resources(pod: PodView) -> list[PlacedWord]:
    """Resources that seem to be cards and that no dialect knows."""
    found = []
    for one in pod.containers:
        for word in one.resources.values():
            if not one.asks_for(word.key) or find_word(word.key, WordPlace.RESOURCE) is not None:
                continue
            if is_probably_card(word.key):
                found.append(word)
    return found


def _list_keys(where: WordPlace) -> list[str]:
    return [key for key, place in _EXACT if place is where]


_EXACT = {
    (name.key, name.where): name
    # The first dialect of the list wins where two have one word.
    for one in reversed(DIALECTS)
    for name in one.names
    if "<" not in name.key
}
_PATTERNS = tuple(name for one in DIALECTS for name in one.names if "<" in name.key)
_PREFIXES = tuple(prefix for one in DIALECTS for prefix in one.prefixes)
