"""Every dialect there is. A new one is a file and a line here."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator

from gpupool.dialects import (
    bitfusion,
    cgpu,
    groups,
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
from gpupool.dialects.contract import Dialect, Name, Where
from gpupool.dialects.pod import Pod, Word

DIALECTS: tuple[Dialect, ...] = tuple(
    module.DIALECT
    for module in (
        native, nvidia, hami, volcano, vgpu_manager, qgpu, vcuda, cgpu, xgpu, kai, koordinator, orionx, bitfusion,
        tensor_fusion, vendors, groups,
    )
)  # fmt: skip
SCHEDULERS = {scheduler: one.name for one in DIALECTS for scheduler in one.schedulers}
"""Schedulers of other systems, whose place we take."""
_WRITTEN_BY_OTHERS = (
    "hami.io/vgpu-", "hami.io/bind-", "volcano.sh/vgpu-node", "volcano.sh/vgpu-time", "volcano.sh/vgpu-ids-",
    "kai.scheduler/last-", "kai.scheduler/stale-",
)  # fmt: skip
"""Annotations that those systems write themselves: in a pod that was exported, and of no meaning here."""


def find(key: str, where: Where) -> Name | None:
    """The word of any dialect with that key, at that place."""
    return _EXACT.get((key, where)) or next(
        (name for name in _PATTERNS if name.where is where and name.matches(key)), None
    )


def words(pod: Pod) -> Iterator[tuple[Word, Where]]:
    """Every word of the pod, with the kind of place."""
    for place, where in (
        (pod.annotations, Where.ANNOTATION),
        (pod.labels, Where.LABEL),
        (pod.selector, Where.SELECTOR),
    ):
        yield from ((word, where) for word in place.values())
    for one in pod.containers:
        yield from ((word, Where.RESOURCE) for word in one.resources.values())
        yield from ((word, Where.ENV) for word in one.env.values())


def unknown(pod: Pod) -> list[tuple[Word, str]]:
    """Words that begin as only one system's do, and that it does not have; each with the nearest it has, or ''."""
    found = []
    for word, where in words(pod):
        prefix = next((prefix for prefix in _PREFIXES if word.key.startswith(prefix)), None)
        if prefix is None or where in (Where.ENV, Where.SELECTOR) or word.key.startswith(_WRITTEN_BY_OTHERS):
            continue
        if find(word.key, where) is None:
            keys = _keys(where)
            near = difflib.get_close_matches(
                word.key, [key for key in keys if key.startswith(prefix)] or keys, n=1, cutoff=0.7
            )
            found.append((word, near[0] if near else ""))
    return found


CARD_WORDS = (
    r"(?:^|[^a-z0-9])[vqs]?(?:gpu|npu|tpu|mlu|dcu|gcu|xpu|ppu|ipu|vpu|neuron|gaudi[0-9]?|ascend[a-z0-9]*|i915|xe|mig"
    r"|accelerator)(?:s|num|number|mem|memory|cores?|counts?|devices?)?(?:[^a-z]|$)"
)
"""What the name of a resource or of a class of devices looks like, in small letters, if it means cards."""
_CARD = re.compile(CARD_WORDS)


def seems_a_card(name: str) -> bool:
    """Whether a resource of that name probably is a card, whoever makes it.

    >>> seems_a_card("huawei.com/npu-core"), seems_a_card("cloud-tpus.google.com/v3"), seems_a_card("a.io/output")
    (True, True, False)
    """
    return _CARD.search(name.lower()) is not None


def unread(pod: Pod) -> list[Word]:
    """Resources that seem to be cards and that no dialect knows."""
    found = (word for one in pod.containers for word in one.resources.values() if one.asks(word.key))
    return [word for word in found if find(word.key, Where.RESOURCE) is None and seems_a_card(word.key)]


def _keys(where: Where) -> list[str]:
    return [key for key, place in _EXACT if place is where]


_EXACT = {(name.key, name.where): name for one in reversed(DIALECTS) for name in one.names if "<" not in name.key}
_PATTERNS = tuple(name for one in DIALECTS for name in one.names if "<" in name.key)
_PREFIXES = tuple(prefix for one in DIALECTS for prefix in one.prefixes)
