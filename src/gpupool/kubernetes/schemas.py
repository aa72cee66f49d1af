"""The CustomResourceDefinitions of gpupool: shapes, limits, rules for the API server, and columns for `kubectl get`.

Field names are those of `objects`; a test reads what `objects` writes against these schemas. Rules are CEL, as
`x-kubernetes-validations` takes them.
"""

from __future__ import annotations

from gpupool.base.errors import BadOption
from gpupool.kubernetes import settings
from gpupool.kubernetes.objects import EntryState, Mode
from gpupool.kubernetes.reported import MOST_MS
from gpupool.kubernetes.reservation_schema import reservation
from gpupool.kubernetes.schema_words import (
    Schema,
    condition,
    definition,
    listed,
    opaque,
    quantity,
    record,
    text,
    whole,
    words,
)
from gpupool.model.claim import Sharing
from gpupool.model.device import Health
from gpupool.scheduling.policies import POLICIES

_ALONE = "gpupool's controller alone writes it"
MOST_ENTRIES = 1024
MOST_CARDS = 128
MOST_WORDS = 512
"""Of starts that nothing came of yet, so many are kept for the next leader: those that are due first."""
MOST_ENDED = 2 * MOST_ENTRIES
"""More than are kept there (stretches.MOST_ENDED), by those of one write and of a journal that is refused."""


def crds() -> list[Schema]:
    """Every definition, in the order in which they are installed."""
    return [gpu_node(), tenant(), reservation(), pool_settings()]


def gpu_node() -> Schema:
    """`GpuNode`: one per node, named like it."""
    spec = record(
        {
            "mode": words(Mode, default=Mode.OBSERVE.value),
            "allocations": {
                **listed(_entry(), MOST_ENTRIES, default=[]),
                "description": f"who has which card; {_ALONE}",
            },
            "ledgerNs": {**whole(), "description": "the ledger's clock: the instant of its latest write"},
            "ended": {
                **listed(opaque(ended_schema()), MOST_ENDED),
                "description": f"what was held and may not be in the books yet; empty where nobody meters; {_ALONE}",
            },
        },
        required=("mode",),
    )
    status = record(
        {
            "observedGeneration": whole(),
            "slotCount": whole(),
            "cards": listed(_card(), MOST_CARDS),
            "slots": listed(_slot(), MOST_ENTRIES),
            "others": _others(),
            "topology": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
            "agent": text(64),
            "readsText": {
                "type": "boolean",
                "description": "the agent reads entries that are lines of one text; without it they are records",
            },
            "conditions": listed(condition(), 8, keys=("type",)),
        }
    )
    columns = (
        ("Mode", "string", ".spec.mode", 0),
        ("Ready", "string", ".status.conditions[?(@.type=='Ready')].status", 0),
        ("Models", "string", ".status.cards[*].model", 0),
        ("Slots", "integer", ".status.slotCount", 1),
        ("Age", "date", ".metadata.creationTimestamp", 0),
    )
    return definition("GpuNode", "gpunodes", ("gn",), spec, status, columns)


def tenant() -> Schema:
    """`Tenant`: a node of the quota tree, and the namespaces that are its own."""
    limit = record({"nominal": quantity(), "borrowing": quantity(), "lending": quantity()})
    parts = {
        "parent": {**text(63), "description": "the Tenant above this one"},
        "namespaces": {
            **listed(text(63), 256),
            "x-kubernetes-list-type": "set",
            "description": "a namespace that no Tenant lists belongs to the Tenant of its own name, if there is one",
        },
        "weight": {
            "type": "number",
            "minimum": 0,
            "maximum": 1000,
            "default": 1,
            "description": "its part beside its siblings of what no Tenant is guaranteed; with 0 they come first",
        },
        "limits": {
            "type": "object",
            "maxProperties": 64,
            "additionalProperties": limit,
            "description": 'by resource: gpu, gpu:MODEL and gpu:VENDOR in cards ("2.5"), memory in bytes, node and'
            " nvlink in whole ones; nominal is guaranteed, borrowing how far over it and lending how much of it others"
            " may use meanwhile, both without end where they are left out",
        },
    }
    spec = record(parts)
    rules = [{"rule": "!has(self.parent) || size(self.parent) > 0", "message": "a parent has a name"}]
    status = record(
        {
            "observedGeneration": whole(),
            "held": {"type": "object", "additionalProperties": quantity()},
            "waiting": whole(),
            "inForce": record(parts),
            "conditions": listed(condition(), 8, keys=("type",)),
        }
    )
    columns = (
        ("Parent", "string", ".spec.parent", 0),
        ("Nominal", "string", ".spec.limits.gpu.nominal", 0),
        ("Held", "string", ".status.held.gpu", 0),
        ("Waiting", "integer", ".status.waiting", 0),
        ("In force", "string", ".status.conditions[?(@.type=='InForce')].status", 0),
    )
    return definition("Tenant", "tenants", (), {**spec, "x-kubernetes-validations": rules}, status, columns)


def pool_settings() -> Schema:
    """`PoolSettings`: one, called `pool`. What is left out is as the programs were started."""
    native = {
        "rule": f"self.exists(name, name in ['{settings.NATIVE}', '{settings.ALL}'])",
        "message": f"{BadOption.code}: gpupool's own words have nobody else to read them: add {settings.NATIVE}",
    }
    dialects: Schema = {"type": "string", "enum": list(settings.WORDS)}
    parts: dict[str, Schema] = {
        "policy": {"type": "string", "enum": list(POLICIES), "description": "the rule of placement"},
        "direct": {
            "type": "boolean",
            "description": "pods with nothing but cards, processors and memory to be placed by are bound by gpupool",
        },
        "dialects": {
            **listed(dialects, len(settings.WORDS)),
            "x-kubernetes-list-type": "set",
            "x-kubernetes-validations": [native],
            "description": "whose words admission takes; pods that ask in others are left alone",
        },
        "preemption": record(
            {
                "enabled": {"type": "boolean", "description": "whether anybody is evicted for anybody"},
                "reclaim": {"type": "boolean", "description": "whether borrowed quota is taken back by evicting"},
                "protectedSeconds": {**whole(settings.DAY), "description": "who runs for less is left alone"},
                "perHour": {**whole(100_000), "description": "so many of one tenant's pods at most"},
            }
        ),
        "placing": {
            "type": "boolean",
            "description": "whether pods get cards; uninstalling turns it off first",
        },
        "forgetFieldManagers": {
            "type": "boolean",
            "description": "managedFields of pods and ledgers that gpupool writes are cleared: cheaper writes",
        },
        "replaceSeconds": {
            **whole(settings.DAY),
            "description": "a pod with cards that no node takes is deleted then, if it has an owner; 0: never",
        },
    }
    status = record(
        {
            "observedGeneration": whole(),
            "inUse": record(parts),
            "admits": _admits(),
            "starts": _starts(),
            "conditions": listed(condition(), 8, keys=("type",)),
        }
    )
    columns = (
        ("Policy", "string", ".status.inUse.policy", 0),
        ("Direct", "boolean", ".status.inUse.direct", 0),
        ("Dialects", "string", ".status.inUse.dialects", 0),
        ("Preemption", "boolean", ".status.inUse.preemption.enabled", 0),
        ("In force", "string", ".status.conditions[?(@.type=='InForce')].status", 0),
    )
    only = {
        "rule": f"self.metadata.name == '{settings.NAME}'",
        "message": f"{BadOption.code}: there is one PoolSettings, and it is called {settings.NAME}",
    }
    return definition("PoolSettings", "poolsettings", (), record(parts), status, columns, (only,))


def _starts() -> Schema:
    """What was told of starts: totals for people, and what the next leader goes on from."""
    numbers = ("promisesKept", "promisesBroken", "estimatesTrue", "estimatesFalse")
    memory = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    word = opaque(record(dict.fromkeys(("claim", "at", "sort", "chance", "kept"), memory)))
    found = {**{name: whole() for name in numbers}, "sorts": memory, "tenths": memory}
    return record({**found, "open": listed(word, MOST_WORDS)})


# --- parts of ours ----------------------------------------------------------------------------


def _held() -> dict[str, Schema]:
    """Who has which seats, and since when."""
    seat = record(
        {"uuid": text(63), "gpuMilli": {**whole(), "maximum": 1000}, "memoryBytes": whole()},
        required=("uuid", "gpuMilli", "memoryBytes"),
    )
    return {
        "uid": text(253),
        "namespace": text(63),
        "pod": text(253),
        "container": text(63),
        "cards": {**listed(seat, MOST_CARDS), "minItems": 1},
        "tenant": text(63),
        "account": text(253),
        "heldNs": whole(),
    }


def ended_schema() -> Schema:
    """What was held, and is over."""
    held = _held()
    return record({**held, "endedNs": whole(), "gpuMs": whole(MOST_MS)}, required=(*held, "endedNs"))


def entry_schema() -> Schema:
    """What is held now."""
    return record(
        {
            **_held(),
            "sharing": words(Sharing),
            "priority": {"type": "integer", "format": "int32"},
            "gang": text(253),
            "leavingFor": text(320),
            "leavingAt": text(64),
            "reservation": text(63),
            "state": words(EntryState),
            "generation": {**whole(), "minimum": 1},
        },
        required=("uid", "namespace", "pod", "container", "cards", "tenant", "state", "generation"),
    )


def _entry() -> Schema:
    """A record, or a text with a line for each entry (`entry_text`): so its type is left open."""
    found = opaque(entry_schema())
    del found["type"]
    found["description"] += "; a record, or a text with a line an entry: NAME=VALUE, cards=UUID:MILLI:BYTES,..."
    return found


def _card() -> Schema:
    return record(
        {
            "uuid": text(63),
            "index": whole(),
            "model": text(63),
            "product": text(128),
            "memoryBytes": whole(),
            "health": words(Health),
            "healthReason": text(200),
            "simulated": {"type": "boolean"},
            "vendor": text(63),
        },
        required=("uuid", "index", "model", "memoryBytes"),
    )


def _others() -> Schema:
    port = record({"number": whole(), "protocol": text(8), "address": text(64)}, required=("number",))
    one = record({"key": text(317), "operator": text(16), "values": listed(text(63), 256)}, required=("key",))
    matches = listed(one, 64)
    apart = record(
        {"key": text(317), "namespaces": listed(text(63), 256), "selector": matches, "spaces": matches},
        required=("key",),
    )
    return record(
        {
            "cpuMilli": whole(),
            "memoryBytes": whole(),
            "pods": whole(),
            "ports": listed(port, MOST_ENTRIES),
            "resources": {"type": "object", "maxProperties": 128, "additionalProperties": whole()},
            "apart": listed(apart, 256),
        }
    )


def _slot() -> Schema:
    return record(
        {
            "uid": text(128),
            "container": text(63),
            "slot": text(63),
            "generation": whole(),
            "released": {"type": "boolean"},
            "gpuMs": {**whole(MOST_MS), "description": "GPU time it has used, told every ten minutes and at its end"},
        },
        required=("uid", "container"),
    )


def _admits() -> Schema:
    limit = record({"gpuMilli": whole(), "memoryBytes": whole(), "others": {"type": "boolean"}})
    cards = listed(record({"count": whole(), "memoryBytes": whole()}), MOST_CARDS)
    found = record({"cards": cards, "limits": {"type": "object", "additionalProperties": limit}})
    return {**found, "description": "by what the API server itself admits plain native pods"}
