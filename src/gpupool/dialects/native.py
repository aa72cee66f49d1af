"""Our own words on Kubernetes: resources per container, annotations of the pod or of one container, a queue.

`limits: {gpupool.dev/gpus: 2, gpupool.dev/gpu-milli: 300, gpupool.dev/memory: 8Gi}` is two cards, 0.3 and 8 GiB of
each. An annotation of one container has the container's name before it: `trainer.gpupool.dev/sharing: burst`.
"""

from __future__ import annotations

from dataclasses import replace

from gpupool.base.errors import ForeignValue
from gpupool.base.units import WHOLE
from gpupool.dialects import amounts, lws, ray
from gpupool.dialects.contract import NVIDIA, Ask, Dialect, GangHint, Hints, Name, Reading, Select, Where
from gpupool.dialects.facts import NodeFacts
from gpupool.dialects.pod import Container, Pod, Word
from gpupool.model.catalogue import CATALOGUE, find_model, vendor_of
from gpupool.model.claim import Sharing, Within

DOMAIN = "gpupool.dev"
GPUS, MILLI, MEMORY, MEMORY_MILLI, SLOT = (
    f"{DOMAIN}/{name}" for name in ("gpus", "gpu-milli", "memory", "memory-milli", "slot")
)
QUEUE, TOPOLOGY, PREEMPTIBLE = f"{DOMAIN}/queue", f"{DOMAIN}/topology", f"{DOMAIN}/preemptible"
GANG, GANG_MIN, GANG_SIZE = f"{DOMAIN}/gang", f"{DOMAIN}/gang-min", f"{DOMAIN}/gang-size"
CLAIM, TYPED = f"{DOMAIN}/claim", f"{DOMAIN}/typed"
PER_CONTAINER = (
    "sharing", "profile", "compute-cap", "urgency", "vendor", "model", "not-model", "cards", "not-cards",
)  # fmt: skip


def read(pod: Pod, _facts: NodeFacts) -> Reading:
    asks = {one.name: ask for one in pod.containers if (ask := _ask(pod, one)) is not None}
    sharing = pod.annotation(f"{DOMAIN}/sharing")
    chosen = None if sharing is None else Sharing(amounts.text(sharing, *Sharing))
    return Reading(asks, _select(pod, DOMAIN), chosen, _hints(pod))


def _ask(pod: Pod, one: Container) -> Ask | None:
    profile = _own(pod, one, "profile")
    if not one.asks(GPUS, MILLI, MEMORY, MEMORY_MILLI):
        return None
    gpus, milli, memory, part = (one.resource(key) for key in (GPUS, MILLI, MEMORY, MEMORY_MILLI))
    count = 1 if gpus is None else amounts.integer(gpus)
    rules = tuple(f"native: {word}" for word in (gpus, milli, memory, part) if word is not None)
    if memory is not None and part is not None:
        raise ForeignValue(
            f"{memory} and {part}: memory in one way only", hint=f"leave out {MEMORY_MILLI}", path=part.path
        )
    if profile is not None:
        return _worded(pod, one, Ask(count, profile=amounts.name(profile), rules=(*rules, f"native: {profile}")))
    found = Ask(
        count,
        None if milli is None else amounts.integer(milli, 1, WHOLE, what="thousandths of a card"),
        memory_bytes=None if memory is None else amounts.size(memory),
        memory_milli=None if part is None else amounts.integer(part, 1, WHOLE, what="thousandths of a card's memory"),
        rules=rules,
    )
    return _worded(pod, one, _compute(pod, one, found, memory or part))


def _compute(pod: Pod, one: Container, ask: Ask, memory: Word | None) -> Ask:
    """`gpus` alone means whole cards; memory without compute is best-effort's alone."""
    if ask.gpu_milli is not None:
        return ask
    if memory is None:
        return replace(ask, gpu_milli=WHOLE)
    sharing = _own(pod, one, "sharing")
    if sharing is None or sharing.value != Sharing.BEST_EFFORT:
        raise ForeignValue(
            f"{memory} without a share of the compute",
            hint=f"add {MILLI}, or {DOMAIN}/sharing: best-effort",
            path=memory.path,
        )
    return ask


def _worded(pod: Pod, one: Container, ask: Ask) -> Ask:
    """With what the annotations say of this container."""
    sharing, cap, urgency, vendor = (_own(pod, one, key) for key in ("sharing", "compute-cap", "urgency", "vendor"))
    return replace(
        ask,
        sharing=None if sharing is None else Sharing(amounts.text(sharing, *Sharing)),
        cap_milli=None if cap is None else amounts.integer(cap, 1, WHOLE, what="thousandths of a card"),
        urgency=None if urgency is None else amounts.text(urgency, "high", "low"),
        vendor=_vendor(pod, one) if vendor is None else amounts.name(vendor).lower(),
        select=_select(pod, f"{one.name}.{DOMAIN}"),
    )


def _vendor(pod: Pod, one: Container) -> str:
    """The vendor of the models that are named, where the catalogue knows one for all of them; else NVIDIA."""
    models = _own(pod, one, "model")
    named = () if models is None else amounts.words(models)
    vendors = {vendor_of(find_model(name, CATALOGUE) or name) for name in named}
    (only,) = vendors if len(vendors) == 1 else ("",)
    return only or NVIDIA


def _own(pod: Pod, one: Container, key: str) -> Word | None:
    return pod.annotation(f"{one.name}.{DOMAIN}/{key}") or pod.annotation(f"{DOMAIN}/{key}")


def _select(pod: Pod, domain: str) -> Select:
    def listed(key: str) -> tuple[str, ...]:
        word = pod.annotation(f"{domain}/{key}")
        return () if word is None else amounts.words(word)

    return Select(listed("model"), listed("not-model"), listed("cards"), listed("not-cards"))


def _hints(pod: Pod) -> Hints:
    queue, near, yields = pod.label(QUEUE), pod.annotation(TOPOLOGY), pod.annotation(PREEMPTIBLE)
    name, least, size = pod.label(GANG), pod.annotation(GANG_MIN), pod.annotation(GANG_SIZE)
    gang = None
    if name is not None:
        group = lws.group_of(pod)
        size = pod.annotation(lws.SIZE) if size is None and least is None and group else size
        group = group or ray.cluster_of(pod)
        numbers = (None if word is None else amounts.integer(word) for word in (least, size))
        gang = GangHint(f"{amounts.text(name)}-{group}" if group else amounts.text(name), *numbers)
    return Hints(
        queue=None if queue is None else amounts.text(queue),
        gang=gang,
        within=None if near is None else _within(near),
        preemptible=None if yields is None else amounts.truth(yields),
    )


def _within(word: Word) -> Within:
    """`rack`, `rack,preferred`, or one of each."""
    found: dict[str, str] = {}
    for part in amounts.text(word).split(";"):
        level, _, how = part.strip().partition(",")
        if not level or how not in ("", "required", "preferred") or (how or "required") in found:
            raise ForeignValue(f"{word} is not understood", hint="write rack or rack,preferred", path=word.path)
        found[how or "required"] = level
    return Within(**found)


def _annotation(key: str, values: str, meaning: str) -> tuple[Name, Name]:
    return (
        Name(f"{DOMAIN}/{key}", Where.ANNOTATION, values, meaning),
        Name(f"<container>.{DOMAIN}/{key}", Where.ANNOTATION, values, "the same, of one container"),
    )


DIALECT = Dialect(
    "native",
    "gpupool",
    "docs/how-to/bring-your-manifests.md",
    (
        Name(GPUS, Where.RESOURCE, "integer", "so many cards of one node (default 1); alone: whole ones"),
        Name(MILLI, Where.RESOURCE, "1-1000", "thousandths of each card's compute"),
        Name(MEMORY, Where.RESOURCE, "quantity", "memory on each card; left out: the same part as of the compute"),
        Name(MEMORY_MILLI, Where.RESOURCE, "1-1000", "thousandths of each card's memory, known when the card is"),
        Name(SLOT, Where.RESOURCE, "1", "written on admission, beside totals"),
        *_annotation("sharing", "`fixed`, `burst`, `best-effort`", "how the share behaves beside its neighbours"),
        *_annotation("profile", "`1g.10gb`", "each card is a partition of that profile"),
        *_annotation("compute-cap", "1-1000", "of a burst: thousandths it should not exceed"),
        *_annotation("urgency", "`high`, `low`", "precedence beside the tenants of the same card"),
        *_annotation("vendor", "name", "cards of this vendor; default: of the named models, else nvidia"),
        *_annotation("model", "list", "only cards of these models"),
        *_annotation("not-model", "list", "no card of these models"),
        *_annotation("cards", "UUIDs", "only these cards"),
        *_annotation("not-cards", "UUIDs", "not these cards"),
        Name(TOPOLOGY, Where.ANNOTATION, "`rack`, `rack,preferred`", "within one such domain"),
        Name(PREEMPTIBLE, Where.ANNOTATION, "bool", "may be preempted"),
        Name(QUEUE, Where.LABEL, "name", "queue"),
        Name(GANG, Where.LABEL, "name", "the gang the pod belongs to"),
        Name(GANG_MIN, Where.ANNOTATION, "integer", "so many start together"),
        Name(GANG_SIZE, Where.ANNOTATION, "integer", "so many there are in all"),
        Name(CLAIM, Where.ANNOTATION, "JSON", "written on admission: the normal form"),
        Name(TYPED, Where.ANNOTATION, "JSON", "written on admission: the words as they were typed"),
    ),
    read,
    prefixes=(f"{DOMAIN}/",),
)
