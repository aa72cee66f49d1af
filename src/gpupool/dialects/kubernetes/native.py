"""Our own words on Kubernetes: resources per container, annotations of the pod or of one container,
a queue.

`limits: {gpupool.dev/gpus: 2, gpupool.dev/gpu-milli: 300, gpupool.dev/memory: 8Gi}` is two cards,
0.3 and 8 GiB of each. An annotation of one container has the container's name before it:
`trainer.gpupool.dev/sharing: burst`.
"""

from __future__ import annotations

from dataclasses import replace

from gpupool.base.errors import ForeignValue, NotExpressible
from gpupool.base.units import WHOLE
from gpupool.dialects import amounts
from gpupool.dialects.contract import (
    NVIDIA,
    POD_KINDS,
    CardFilter,
    ContainerAsk,
    Dialect,
    GangHint,
    KnownWord,
    PodHints,
    PodReading,
    WordPlace,
    list_rules,
)
from gpupool.dialects.facts import NodeFacts
from gpupool.dialects.kubernetes import lws, ray
from gpupool.dialects.pod import PlacedWord, PodContainer, PodView
from gpupool.model.catalogue import CATALOGUE, find_model, vendor_of
from gpupool.model.claim import SharingKind, TopologyConstraint
from gpupool.model.isolation.claim_needs import ClaimGoal, ClaimNeeds, IsolationKind
from gpupool.model.isolation.host_kind import HostKind

DOMAIN = "gpupool.dev"
GPUS = f"{DOMAIN}/gpus"
MILLI = f"{DOMAIN}/gpu-milli"
MEMORY = f"{DOMAIN}/memory"
MEMORY_MILLI = f"{DOMAIN}/memory-milli"
#: Written by admission: one slot for each container with cards, which the device plugin serves.
SLOT = f"{DOMAIN}/slot"
QUEUE = f"{DOMAIN}/queue"
TOPOLOGY = f"{DOMAIN}/topology"
PREEMPTIBLE = f"{DOMAIN}/preemptible"
ISOLATION = f"{DOMAIN}/isolation"
GOAL = f"{DOMAIN}/goal"
HOST = f"{DOMAIN}/host"
GANG = f"{DOMAIN}/gang"
GANG_MIN = f"{DOMAIN}/gang-min"
GANG_SIZE = f"{DOMAIN}/gang-size"
CLAIM = f"{DOMAIN}/claim"
TYPED = f"{DOMAIN}/typed"
#: Words that a container may have for itself, with its name before the domain.
PER_CONTAINER = (
    "sharing", "profile", "compute-cap", "urgency", "vendor", "model", "not-model", "cards", "not-cards",
)  # fmt: skip


def read_words(pod: PodView, _facts: NodeFacts) -> PodReading:
    asks = {}
    for one in pod.containers:
        if (ask := _read_ask(pod, one)) is not None:
            asks[one.name] = ask
    sharing = pod.find_annotation(f"{DOMAIN}/sharing")
    chosen = None if sharing is None else _read_sharing(sharing)
    return PodReading(asks, _read_filter(pod, DOMAIN), chosen, _read_hints(pod))


def _read_ask(pod: PodView, one: PodContainer) -> ContainerAsk | None:
    profile = _find_own(pod, one, "profile")
    if not one.asks_for(GPUS, MILLI, MEMORY, MEMORY_MILLI):
        return None
    gpus = one.find_resource(GPUS)
    milli = one.find_resource(MILLI)
    memory = one.find_resource(MEMORY)
    part = one.find_resource(MEMORY_MILLI)
    count = 1 if gpus is None else amounts.parse_integer(gpus)
    rules = list_rules("native", gpus, milli, memory, part)
    if memory is not None and part is not None:
        raise ForeignValue(
            f"{memory} and {part}: memory in one way only",
            hint=f"leave out {MEMORY_MILLI}",
            path=part.path,
        )
    if profile is not None:
        return _apply_annotations(
            pod,
            one,
            ContainerAsk(
                count, profile=amounts.read_name(profile), rules=(*rules, f"native: {profile}")
            ),
        )
    found = ContainerAsk(
        count,
        None
        if milli is None
        else amounts.parse_integer(milli, 1, WHOLE, what="thousandths of a card"),
        memory_bytes=None if memory is None else amounts.parse_size(memory),
        memory_milli=None
        if part is None
        else amounts.parse_integer(part, 1, WHOLE, what="thousandths of a card's memory"),
        rules=rules,
    )
    return _apply_annotations(pod, one, _complete_compute(pod, one, found, memory or part))


def _complete_compute(
    pod: PodView, one: PodContainer, ask: ContainerAsk, memory: PlacedWord | None
) -> ContainerAsk:
    """`gpus` alone means whole cards; memory alone is for shares without a promise."""
    if ask.gpu_milli is not None:
        return ask
    if memory is None:
        return replace(ask, gpu_milli=WHOLE)
    sharing = _find_own(pod, one, "sharing")
    if sharing is None or sharing.value not in (SharingKind.BEST_EFFORT, SharingKind.OFFLINE):
        raise ForeignValue(
            f"{memory} without a share of the compute",
            hint=f"add {MILLI}, or {DOMAIN}/sharing: best-effort (or offline)",
            path=memory.path,
        )
    return ask


def _read_sharing(word: PlacedWord) -> SharingKind:
    if word.value == SharingKind.MPS:
        raise NotExpressible(
            f"{word}: a container has a /dev/shm of its own, and MPS clients need the daemon's",
            hint="use another sharing, or submit a job: gpupool submit --sharing mps",
            path=word.path,
        )
    return SharingKind(amounts.read_text(word, *POD_KINDS))


def _apply_annotations(pod: PodView, one: PodContainer, ask: ContainerAsk) -> ContainerAsk:
    """With what the annotations say of this container."""
    sharing = _find_own(pod, one, "sharing")
    cap = _find_own(pod, one, "compute-cap")
    urgency = _find_own(pod, one, "urgency")
    vendor = _find_own(pod, one, "vendor")
    return replace(
        ask,
        sharing=None if sharing is None else _read_sharing(sharing),
        cap_milli=None
        if cap is None
        else amounts.parse_integer(cap, 1, WHOLE, what="thousandths of a card"),
        urgency=None if urgency is None else amounts.read_text(urgency, "high", "low"),
        vendor=_choose_vendor(pod, one) if vendor is None else amounts.read_name(vendor).lower(),
        select=_read_filter(pod, f"{one.name}.{DOMAIN}"),
    )


def _choose_vendor(pod: PodView, one: PodContainer) -> str:
    """The vendor of the models that are named, where the catalogue knows one for all of them; else
    NVIDIA."""
    models = _find_own(pod, one, "model")
    named = () if models is None else amounts.read_list(models)
    vendors = {vendor_of(find_model(name, CATALOGUE) or name) for name in named}
    # Models of two vendors leave no one vendor to choose: then the default counts.
    (only,) = vendors if len(vendors) == 1 else ("",)
    return only or NVIDIA


def _find_own(pod: PodView, one: PodContainer, key: str) -> PlacedWord | None:
    return pod.find_annotation(f"{one.name}.{DOMAIN}/{key}") or pod.find_annotation(
        f"{DOMAIN}/{key}"
    )


def _read_filter(pod: PodView, domain: str) -> CardFilter:
    def read_listed(key: str) -> tuple[str, ...]:
        word = pod.find_annotation(f"{domain}/{key}")
        return () if word is None else amounts.read_list(word)

    return CardFilter(
        read_listed("model"),
        read_listed("not-model"),
        read_listed("cards"),
        read_listed("not-cards"),
    )


def _read_hints(pod: PodView) -> PodHints:
    queue = pod.find_label(QUEUE)
    near = pod.find_annotation(TOPOLOGY)
    yields = pod.find_annotation(PREEMPTIBLE)
    name = pod.find_label(GANG)
    least = pod.find_annotation(GANG_MIN)
    size = pod.find_annotation(GANG_SIZE)
    gang = None
    if name is not None:
        group = lws.find_group(pod)
        # A LeaderWorkerSet knows its size; a gang of it without numbers of its own takes that one.
        size = pod.find_annotation(lws.SIZE) if size is None and least is None and group else size
        group = group or ray.find_cluster(pod)
        numbers = (None if word is None else amounts.parse_integer(word) for word in (least, size))
        gang = GangHint(
            f"{amounts.read_text(name)}-{group}" if group else amounts.read_text(name), *numbers
        )
    return PodHints(
        queue=None if queue is None else amounts.read_text(queue),
        gang=gang,
        within=None if near is None else _read_topology(near),
        preemptible=None if yields is None else amounts.read_truth(yields),
        needs=_read_needs(pod),
    )


def _read_needs(pod: PodView) -> ClaimNeeds | None:
    """What the pod demands of the way its cards are shared; None where it says nothing."""
    isolation = pod.find_annotation(ISOLATION)
    goal = pod.find_annotation(GOAL)
    host = pod.find_annotation(HOST)
    if host is not None:
        # Every pod is one, so nothing is demanded by it.
        amounts.read_text(host, str(HostKind.CONTAINER))
    if isolation is None and goal is None:
        return None
    return ClaimNeeds(
        None if isolation is None else IsolationKind(amounts.read_text(isolation, *IsolationKind)),
        None if goal is None else ClaimGoal(amounts.read_text(goal, *ClaimGoal)),
    )


def _read_topology(word: PlacedWord) -> TopologyConstraint:
    """`rack`, `rack,preferred`, or one of each."""
    found: dict[str, str] = {}
    for part in amounts.read_text(word).split(";"):
        level, _, how = part.strip().partition(",")
        if not level or how not in ("", "required", "preferred") or (how or "required") in found:
            raise ForeignValue(
                f"{word} is not understood", hint="write rack or rack,preferred", path=word.path
            )
        found[how or "required"] = level
    return TopologyConstraint(**found)


def _describe_annotation(key: str, values: str, meaning: str) -> tuple[KnownWord, KnownWord]:
    return (
        KnownWord(f"{DOMAIN}/{key}", WordPlace.ANNOTATION, values, meaning),
        KnownWord(
            f"<container>.{DOMAIN}/{key}",
            WordPlace.ANNOTATION,
            values,
            "the same, of one container",
        ),
    )


DIALECT = Dialect(
    "native",
    "gpupool",
    "docs/how-to/bring-your-manifests.md",
    (
        KnownWord(
            GPUS,
            WordPlace.RESOURCE,
            "integer",
            "so many cards of one node (default 1); alone: whole ones",
        ),
        KnownWord(MILLI, WordPlace.RESOURCE, "1-1000", "thousandths of each card's compute"),
        KnownWord(
            MEMORY,
            WordPlace.RESOURCE,
            "quantity",
            "memory on each card; left out: the same part as of the compute",
        ),
        KnownWord(
            MEMORY_MILLI,
            WordPlace.RESOURCE,
            "1-1000",
            "thousandths of each card's memory, known when the card is",
        ),
        KnownWord(SLOT, WordPlace.RESOURCE, "1", "written on admission, beside totals"),
        *_describe_annotation(
            "sharing",
            "`fixed`, `burst`, `best-effort`, `offline`",
            "how the share behaves beside its neighbours",
        ),
        *_describe_annotation("profile", "`1g.10gb`", "each card is a partition of that profile"),
        *_describe_annotation(
            "compute-cap", "1-1000", "of a burst: thousandths it should not exceed"
        ),
        *_describe_annotation(
            "urgency", "`high`, `low`", "precedence beside the tenants of the same card"
        ),
        *_describe_annotation(
            "vendor", "name", "cards of this vendor; default: of the named models, else nvidia"
        ),
        *_describe_annotation("model", "list", "only cards of these models"),
        *_describe_annotation("not-model", "list", "no card of these models"),
        *_describe_annotation("cards", "UUIDs", "only these cards"),
        *_describe_annotation("not-cards", "UUIDs", "not these cards"),
        KnownWord(
            TOPOLOGY, WordPlace.ANNOTATION, "`rack`, `rack,preferred`", "within one such domain"
        ),
        KnownWord(PREEMPTIBLE, WordPlace.ANNOTATION, "bool", "may be preempted"),
        KnownWord(
            ISOLATION,
            WordPlace.ANNOTATION,
            "`none`, `soft`, `hard`, `fault`",
            "least isolation; refused where no card's node says that it reaches it",
        ),
        KnownWord(
            GOAL,
            WordPlace.ANNOTATION,
            "`latency`, `throughput`, `density`",
            "preferred among what isolates well enough",
        ),
        KnownWord(HOST, WordPlace.ANNOTATION, "`container`", "what every pod is"),
        KnownWord(QUEUE, WordPlace.LABEL, "name", "queue"),
        KnownWord(GANG, WordPlace.LABEL, "name", "the gang the pod belongs to"),
        KnownWord(GANG_MIN, WordPlace.ANNOTATION, "integer", "so many start together"),
        KnownWord(GANG_SIZE, WordPlace.ANNOTATION, "integer", "so many there are in all"),
        KnownWord(CLAIM, WordPlace.ANNOTATION, "JSON", "written on admission: the normal form"),
        KnownWord(
            TYPED,
            WordPlace.ANNOTATION,
            "JSON",
            "written on admission: the words as they were typed",
        ),
    ),
    read_words,
    prefixes=(f"{DOMAIN}/",),
)
