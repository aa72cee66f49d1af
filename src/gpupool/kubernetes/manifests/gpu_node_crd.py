"""The CustomResourceDefinition `GpuNode`: the ledger of a node's cards, and its agent's report.

Field names are those of `resources.gpu_node`; a test reads what that writes against this schema.
"""

from __future__ import annotations

from gpupool.dialects.contract import POD_KINDS
from gpupool.kubernetes.manifests.openapi import (
    Schema,
    array_of,
    condition,
    definition,
    opaque,
    record,
    text,
    whole,
    words,
)
from gpupool.kubernetes.resources.gpu_node import EntryState, Mode
from gpupool.kubernetes.resources.gpu_node_status import (
    MOST_NAMES,
    MOST_PIECES,
    MOST_PORTS,
    MOST_REQUIREMENTS,
    MOST_RESOURCES,
    MOST_RULES,
)
from gpupool.kubernetes.resources.gpu_time import MOST_MS
from gpupool.model.device import DeviceHealth
from gpupool.model.enforcement import FenceLevel
from gpupool.model.isolation.claim_needs import IsolationKind
from gpupool.model.sharing_default import DEFAULTS, SHARING_LABEL

_ALONE = "gpupool's controller alone writes it"
#: Entries of one ledger, in its schema.
MOST_ENTRIES = 1024
#: Cards of one node, in its schema.
MOST_CARDS = 128
#: Profiles of a card, and places of a profile on it; the largest known card has 11 and 8.
MOST_PROFILES = 64
MOST_UNITS = 64
#: Closed intervals of one ledger: those that are kept there (`billing_intervals.MOST_ENDED`), those
#: of one write, and those of a journal that is refused.
MOST_ENDED = 2 * MOST_ENTRIES


def gpu_node() -> Schema:
    """`GpuNode`: one per node, named like it."""
    spec = record(
        {
            "mode": words(Mode, default=Mode.OBSERVE.value),
            "allocations": {
                **array_of(_entry(), MOST_ENTRIES, default=[]),
                "description": f"who has which card; {_ALONE}",
            },
            "ledgerNs": {
                **whole(),
                "description": "the ledger's clock: the instant of its latest write",
            },
            "ended": {
                **array_of(opaque(ended_schema()), MOST_ENDED),
                "description": f"what was held and may not be in the books yet; empty where nobody meters; {_ALONE}",
            },
        },
        required=("mode",),
    )
    status = record(
        {
            "observedGeneration": whole(),
            "slotCount": whole(),
            "cards": array_of(_card(), MOST_CARDS),
            "slots": array_of(_slot(), MOST_ENTRIES),
            "others": _others(),
            "topology": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
            "agent": text(64),
            "sharingDefault": {
                **words(DEFAULTS),
                "description": f"sharing of pods that name none; the Node's label {SHARING_LABEL} sets it",
            },
            "readsText": {
                "type": "boolean",
                "description": "the agent reads entries that are lines of one text; without it they are records",
            },
            "conditions": array_of(condition(), 8, keys=("type",)),
        }
    )
    columns = (
        ("Mode", "string", ".spec.mode", 0),
        ("Ready", "string", ".status.conditions[?(@.type=='Ready')].status", 0),
        ("Models", "string", ".status.cards[*].model", 0),
        ("Slots", "integer", ".status.slotCount", 1),
        ("Sharing", "string", ".status.sharingDefault", 1),
        ("Age", "date", ".metadata.creationTimestamp", 0),
    )
    return definition("GpuNode", "gpunodes", ("gn",), spec, status, columns)


def _held_schema() -> dict[str, Schema]:
    """Return the fields of an interval: a container, its seats, and from when it holds them."""
    seat = record(
        {
            "uuid": text(63),
            "gpuMilli": {**whole(), "maximum": 1000},
            "memoryBytes": whole(),
            "profile": {**text(63), "description": "of a partition, with its start and size"},
            "start": whole(),
            "size": whole(),
        },
        required=("uuid", "gpuMilli", "memoryBytes"),
    )
    return {
        "uid": text(253),
        "namespace": text(63),
        "pod": text(253),
        "container": text(63),
        "cards": {**array_of(seat, MOST_CARDS), "minItems": 1},
        "tenant": text(63),
        "account": text(253),
        "heldNs": whole(),
    }


def ended_schema() -> Schema:
    """Return the schema of a closed interval."""
    held = _held_schema()
    return record({**held, "endedNs": whole(), **_spent_schema()}, required=(*held, "endedNs"))


def entry_schema() -> Schema:
    """Return the schema of an entry."""
    return record(
        {
            **_held_schema(),
            "sharing": words(POD_KINDS),
            "priority": {"type": "integer", "format": "int32"},
            "gang": text(253),
            "leavingFor": text(320),
            "leavingAt": text(64),
            "reservation": text(63),
            "isolation": words(IsolationKind),
            "state": words(EntryState),
            "generation": {**whole(), "minimum": 1},
        },
        required=("uid", "namespace", "pod", "container", "cards", "tenant", "state", "generation"),
    )


def _entry() -> Schema:
    """A record, or a text with a line for each entry (`entry_text`): so its type is left open."""
    found = opaque(entry_schema())
    del found["type"]
    found["description"] += (
        "; a record, or a text with a line an entry: NAME=VALUE, cards=UUID:MILLI:BYTES,...; "
        "a partition's card ends in :PROFILE:START:SIZE"
    )
    return found


def _card() -> Schema:
    return record(
        {
            "uuid": text(63),
            "index": whole(),
            "model": text(63),
            "product": text(128),
            "memoryBytes": whole(),
            "health": words(DeviceHealth),
            "healthReason": text(200),
            "simulated": {"type": "boolean"},
            "vendor": text(63),
            "profiles": {
                **array_of(_profile(), MOST_PROFILES),
                "description": "what a card in partition mode can be cut into; absent: not in it",
            },
            "foreign": {
                **array_of(_foreign(), MOST_PIECES),
                "description": "what other tools have made of the card, such as MIG instances",
            },
            "share": {
                **record(
                    {"fence": words(FenceLevel), "noMemoryLimit": text(200)}, required=("fence",)
                ),
                "description": "the level of the fence in a share of the card, and why its driver "
                "does not limit the memory of containers; absent: shares isolate nothing",
            },
        },
        required=("uuid", "index", "model", "memoryBytes"),
    )


def _foreign() -> Schema:
    return record(
        {
            "text": text(200),
            "profile": {**text(63), "description": "of a partition, with its start and size"},
            "start": whole(),
            "size": whole(),
        },
        required=("text",),
    )


def _profile() -> Schema:
    return record(
        {
            "name": text(63),
            "size": whole(),
            "memoryBytes": whole(),
            "starts": array_of(whole(), MOST_UNITS),
            "maxCount": whole(),
            "gpuMilli": {**whole(), "maximum": 1000},
            "media": {"type": "boolean"},
        },
        required=("name", "size", "memoryBytes", "starts", "maxCount", "gpuMilli"),
    )


def _others() -> Schema:
    port = record(
        {"number": whole(), "protocol": text(8), "address": text(64)}, required=("number",)
    )
    one = record(
        {"key": text(317), "operator": text(16), "values": array_of(text(63), MOST_NAMES)},
        required=("key",),
    )
    matches = array_of(one, MOST_REQUIREMENTS)
    apart = record(
        {
            "key": text(317),
            "namespaces": array_of(text(63), MOST_NAMES),
            "selector": matches,
            "spaces": matches,
        },
        required=("key",),
    )
    return record(
        {
            "cpuMilli": whole(),
            "memoryBytes": whole(),
            "pods": whole(),
            "ports": array_of(port, MOST_PORTS),
            "resources": {
                "type": "object",
                "maxProperties": MOST_RESOURCES,
                "additionalProperties": whole(),
            },
            "apart": array_of(apart, MOST_RULES),
        }
    )


def _spent_schema() -> dict[str, Schema]:
    """Return the fields of a container's GPU time."""
    return {
        "gpuMs": {
            **whole(MOST_MS),
            "description": "GPU time it has used, reported every ten minutes and at its end",
        },
        "borrowedMs": {**whole(MOST_MS), "description": "the part of it beyond the promise"},
        "deniedMs": {**whole(MOST_MS), "description": "promised time lost in waiting for a card"},
    }


def _slot() -> Schema:
    return record(
        {
            "uid": text(128),
            "container": text(63),
            "slot": text(63),
            "generation": whole(),
            "memoryLevel": {
                **words((FenceLevel.HARD,)),
                "description": "the card's driver holds the memory of the container; absent: the fence alone",
            },
            "released": {"type": "boolean"},
            **_spent_schema(),
        },
        required=("uid", "container"),
    )
