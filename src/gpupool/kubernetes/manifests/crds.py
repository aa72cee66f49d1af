"""The CustomResourceDefinitions of gpupool: shapes, limits, rules for the API server, and columns
for `kubectl get`.

Field names are those of `objects`; a test reads what `objects` writes against these schemas. Rules
are CEL, as `x-kubernetes-validations` takes them.
"""

from __future__ import annotations

from gpupool.base.errors import BadOption
from gpupool.kubernetes.manifests.gpu_node_crd import MOST_CARDS, gpu_node
from gpupool.kubernetes.manifests.openapi import (
    Schema,
    array_of,
    condition,
    definition,
    opaque,
    quantity,
    record,
    text,
    whole,
)
from gpupool.kubernetes.manifests.reservation_crd import reservation
from gpupool.kubernetes.manifests.tenant_network_crd import tenant_network
from gpupool.kubernetes.resources import pool_settings as settings
from gpupool.scheduling import POLICIES

#: Starts without an outcome that are kept for the next leader: those that are due first.
MOST_WORDS = 512


def crds() -> list[Schema]:
    """Every definition, in the order in which they are installed."""
    return [gpu_node(), tenant(), reservation(), pool_settings()]


def tenant() -> Schema:
    """`Tenant`: a node of the quota tree, and the namespaces that are its own."""
    limit = record({"nominal": quantity(), "borrowing": quantity(), "lending": quantity()})
    parts = {
        "parent": {**text(63), "description": "the Tenant above this one"},
        "namespaces": {
            **array_of(text(63), 256),
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
    spec = record({**parts, "network": tenant_network()})
    rules = [
        {"rule": "!has(self.parent) || size(self.parent) > 0", "message": "a parent has a name"}
    ]
    status = record(
        {
            "observedGeneration": whole(),
            "held": {"type": "object", "additionalProperties": quantity()},
            "waiting": whole(),
            "inForce": record(parts),
            "conditions": array_of(condition(), 8, keys=("type",)),
        }
    )
    columns = (
        ("Parent", "string", ".spec.parent", 0),
        ("Nominal", "string", ".spec.limits.gpu.nominal", 0),
        ("Held", "string", ".status.held.gpu", 0),
        ("Waiting", "integer", ".status.waiting", 0),
        ("In force", "string", ".status.conditions[?(@.type=='InForce')].status", 0),
    )
    return definition(
        "Tenant", "tenants", (), {**spec, "x-kubernetes-validations": rules}, status, columns
    )


def pool_settings() -> Schema:
    """`PoolSettings`: one, called `pool`. What is left out is as the programs were started."""
    native = {
        "rule": f"self.exists(name, name in ['{settings.NATIVE}', '{settings.ALL}'])",
        "message": f"{BadOption.code}: gpupool's own words have nobody else to read them: add {settings.NATIVE}",
    }
    dialects: Schema = {"type": "string", "enum": list(settings.WORDS)}
    parts: dict[str, Schema] = {
        "policy": {
            "type": "string",
            "enum": list(POLICIES),
            "description": "the rule of placement",
        },
        "direct": {
            "type": "boolean",
            "description": "pods with nothing but cards, processors and memory to be placed by are bound by gpupool",
        },
        "dialects": {
            **array_of(dialects, len(settings.WORDS)),
            "x-kubernetes-list-type": "set",
            "x-kubernetes-validations": [native],
            "description": "whose words admission takes; pods that ask in others are left alone",
        },
        "preemption": record(
            {
                "enabled": {
                    "type": "boolean",
                    "description": "whether anybody is evicted for anybody",
                },
                "reclaim": {
                    "type": "boolean",
                    "description": "whether borrowed quota is taken back by evicting",
                },
                "protectedSeconds": {
                    **whole(settings.DAY),
                    "description": "who runs for less is left alone",
                },
                "perHour": {
                    **whole(100_000),
                    "description": "so many of one tenant's pods at most",
                },
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
            "conditions": array_of(condition(), 8, keys=("type",)),
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
    counts = {
        "leftOut": {**whole(), "description": "starts that are not in open, which has the first"},
        "withoutCards": {
            **whole(),
            "description": "promises in open whose cards are too many for this object: the next"
            " leader plans them again",
        },
    }
    return record({**found, "open": array_of(word, MOST_WORDS), **counts})


def _admits() -> Schema:
    limit = record({"gpuMilli": whole(), "memoryBytes": whole(), "others": {"type": "boolean"}})
    cards = array_of(record({"count": whole(), "memoryBytes": whole()}), MOST_CARDS)
    # Atomic, or `managedFields` would have each limit once more.
    limits = {
        "type": "object",
        "additionalProperties": limit,
        "x-kubernetes-map-type": "atomic",
    }
    found = record({"cards": cards, "limits": limits})
    return {**found, "description": "by what the API server itself admits plain native pods"}
