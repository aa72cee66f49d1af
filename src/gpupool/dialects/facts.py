"""Facts about the nodes that a manifest was written for: some words have a meaning only with them.

Facts come from a file, from node labels, or from a pod's own node selector. An unknown fact stays
None; a dialect that needs it raises FactMissing or reports its guess.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from gpupool.base.errors import BadManifest, GpupoolError
from gpupool.base.units import parse_memory


@dataclass(frozen=True)
class NodeFacts:
    """One field per fact; the names are those of the file."""

    #: Bytes of each card.
    card_memory: int | None = None
    hami_memory_factor: int | None = None
    hami_core_policy: str | None = None
    #: Slices that HAMi, or Volcano's vGPU, may cut the cards into.
    hami_mig_profiles: tuple[str, ...] | None = None
    volcano_memory_factor: int | None = None
    qgpu_policy: str | None = None
    aliyun_gpu_mem_unit: str | None = None
    replicas: int | None = None
    replicas_by: str | None = None
    #: Of the plugin's single strategy: each `nvidia.com/gpu` is one such slice.
    mig_profile: str | None = None
    slurm_shards_per_card: int | None = None
    slurm_mps_per_card: int | None = None
    #: Schedulers, beside Kubernetes' own, that may bind our pods.
    schedulers: tuple[str, ...] = ()


UNKNOWN = NodeFacts()
_POLICIES = {"be": "best-effort", "fs": "fixed-share", "bs": "burst-share"}
MEANINGS: Mapping[str, str] = {
    "card_memory": "memory of each card, as `80GiB`: turns parts of a card's memory into bytes",
    "hami_memory_factor": "HAMi's `memoryFactor`: how many MiB one `nvidia.com/gpumem` is",
    "hami_core_policy": "HAMi's `gpuCorePolicy`: `default`, `force` or `disable`",
    "hami_mig_profiles": "list of slices, as `[1g.5gb, 2g.10gb]`: what HAMi may cut the cards into (its geometries)",
    "volcano_memory_factor": "Volcano vGPU's `gpuMemoryFactor`: how many MiB one `volcano.sh/vgpu-memory` is",
    "qgpu_policy": "node label `tke.cloud.tencent.com/qgpu-schedule-policy`: `fs`, `bs`, `be` or the long names",
    "aliyun_gpu_mem_unit": "what one `aliyun.com/gpu-mem` is: `GiB` or `MiB`",
    "replicas": "how many replicas the device plugin makes of one card",
    "replicas_by": "`mps` or `time-slicing`",
    "mig_profile": "of the single MIG strategy: the slice that each `nvidia.com/gpu` is",
    "slurm_shards_per_card": "`Count` of `shard` per card in gres.conf",
    "slurm_mps_per_card": "`Count` of `mps` per card in gres.conf",
    "schedulers": "names of schedulers, beside default-scheduler, that may bind our pods",
}


def read_facts(given: object) -> NodeFacts:
    """Facts from a mapping, as a file has them; `labels` may hold a node's labels. Raises
    BadManifest."""
    if given is None:
        return UNKNOWN
    if not isinstance(given, Mapping):
        raise BadManifest("node facts are a mapping", hint=f"known: {', '.join(MEANINGS)}")
    known = [*MEANINGS, "labels"]
    for key in given:
        if key not in known:
            near = difflib.get_close_matches(str(key), known, n=1)
            meant = f"did you mean {near[0]}?  " if near else ""
            raise BadManifest(
                f"{key!r} is no fact about a node",
                hint=f"{meant}known: {', '.join(known)}",
                path=(str(key),),
            )
    found = {
        str(key): _read_fact(str(key), value)
        for key, value in given.items()
        if key != "labels" and value is not None
    }
    labels = given.get("labels") or {}
    if not isinstance(labels, Mapping):
        raise BadManifest("labels are a mapping of keys to values", path=("labels",))
    return replace(add_label_facts({str(k): str(v) for k, v in labels.items()}), **found)


def add_label_facts(labels: Mapping[str, str], known: NodeFacts = UNKNOWN) -> NodeFacts:
    """The facts with what a node's labels (or a selector of them) say."""
    said: dict[str, Any] = {}
    for key, (fact, read) in _LABELS.items():
        # A fact that was given wins over a label.
        if key in labels and getattr(known, fact) is None:
            said[fact] = read(labels[key])
    return replace(known, **{fact: value for fact, value in said.items() if value is not None})


def _parse_replicas(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and 0 < int(text) <= 1000 else None


#: Labels that the clouds set on their nodes; a pod's node selector that names one says the same of
#: every node it can run on.
_LABELS: Mapping[str, tuple[str, Callable[[str], Any]]] = {
    "tke.cloud.tencent.com/qgpu-schedule-policy": (
        "qgpu_policy",
        lambda text: _POLICIES.get(text, text),
    ),
    "cloud.google.com/gke-gpu-sharing-strategy": (
        "replicas_by",
        lambda text: {"time-sharing": "time-slicing", "mps": "mps"}.get(text),
    ),
    "cloud.google.com/gke-max-shared-clients-per-gpu": ("replicas", _parse_replicas),
    "cloud.google.com/gke-gpu-partition-size": ("mig_profile", lambda text: text.strip() or None),
}
#: What each fact may be; a fact that is not listed takes any text.
_CHOICES: Mapping[str, tuple[str, ...]] = {
    "hami_core_policy": ("default", "force", "disable"),
    "qgpu_policy": ("best-effort", "fixed-share", "burst-share"),
    "aliyun_gpu_mem_unit": ("GiB", "MiB"),
    "replicas_by": ("mps", "time-slicing"),
}
_NUMBERS = tuple(
    f.name for f in fields(NodeFacts) if f.type == "int | None" and f.name != "card_memory"
)


def _read_fact(name: str, value: object) -> Any:
    if name == "card_memory":
        return _read_memory(value)
    if name == "schedulers":
        return tuple(map(str, value)) if isinstance(value, (list, tuple)) else (str(value),)
    if name == "hami_mig_profiles":
        return _read_slices(value)
    if name in _NUMBERS:
        if isinstance(value, bool) or not isinstance(value, int) or not 0 < value <= 1_000_000:
            raise BadManifest(f"{name}: {value!r} is no number from 1 to 1000000", path=(name,))
        return value
    text = _POLICIES.get(str(value), str(value))
    if text not in _CHOICES.get(name, (text,)):
        raise BadManifest(
            f"{name}: {text!r} is not known",
            hint=f"one of: {', '.join(_CHOICES[name])}",
            path=(name,),
        )
    return text


def _read_slices(value: object) -> tuple[str, ...]:
    named = tuple(map(str, value)) if isinstance(value, (list, tuple)) else (str(value),)
    wrong = []
    for name in named:
        if not re.fullmatch(r"[1-9]g\.[1-9][0-9]{0,3}gb", name):
            wrong.append(name)
    if wrong or not named:
        told = repr(wrong[0]) if wrong else "an empty list"
        raise BadManifest(
            f"hami_mig_profiles: {told} is no slice",
            hint="write it like [1g.5gb, 2g.10gb]",
            path=("hami_mig_profiles",),
        )
    return named


def _read_memory(value: object) -> int:
    try:
        return parse_memory(str(value))
    except GpupoolError as error:
        raise BadManifest(
            f"card_memory: {error.message}", hint="write it like 80GiB", path=("card_memory",)
        ) from None
