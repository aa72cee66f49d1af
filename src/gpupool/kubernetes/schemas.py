"""The CustomResourceDefinitions of gpupool: shapes, limits, rules for the API server, and columns for `kubectl get`.

Field names are those of `objects`; a test reads what `objects` writes against these schemas. Rules are CEL, as
`x-kubernetes-validations` takes them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpupool.base.errors import BadOption
from gpupool.kubernetes import names, settings
from gpupool.kubernetes.objects import EntryState, Mode
from gpupool.model.claim import Sharing
from gpupool.model.device import Health
from gpupool.scheduling.policies import POLICIES

Schema = dict[str, Any]

MOST_ENTRIES = 1024
MOST_CARDS = 128


def crds() -> list[Schema]:
    """Every definition, in the order in which they are installed."""
    return [gpu_node(), tenant(), pool_settings()]


def gpu_node() -> Schema:
    """`GpuNode`: one per node, named like it."""
    spec = _object(
        {
            "mode": _words(Mode, default=Mode.OBSERVE.value),
            "allocations": _list(_entry(), MOST_ENTRIES, keys=("uid", "container"), default=[]),
        },
        required=("mode",),
    )
    status = _object(
        {
            "observedGeneration": _whole(),
            "slotCount": _whole(),
            "cards": _list(_card(), MOST_CARDS, keys=("uuid",)),
            "slots": _list(_slot(), MOST_ENTRIES, keys=("uid", "container")),
            "others": _others(),
            "topology": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
            "agent": _text(64),
            "conditions": _list(_condition(), 8, keys=("type",)),
        }
    )
    columns = (
        ("Mode", "string", ".spec.mode", 0),
        ("Ready", "string", ".status.conditions[?(@.type=='Ready')].status", 0),
        ("Models", "string", ".status.cards[*].model", 0),
        ("Slots", "integer", ".status.slotCount", 1),
        ("Age", "date", ".metadata.creationTimestamp", 0),
    )
    return _definition("GpuNode", "gpunodes", ("gn",), spec, status, columns)


def tenant() -> Schema:
    """`Tenant`: a node of the quota tree, and the namespaces that are its own."""
    limit = _object({"nominal": _quantity(), "borrowing": _quantity(), "lending": _quantity()})
    parts = {
        "parent": {**_text(63), "description": "the Tenant above this one"},
        "namespaces": {
            **_list(_text(63), 256),
            "x-kubernetes-list-type": "set",
            "description": "a namespace that no Tenant lists belongs to the Tenant of its own name, if there is one",
        },
        "weight": {"type": "number", "minimum": 0.001, "maximum": 1000, "default": 1},
        "limits": {
            "type": "object",
            "maxProperties": 64,
            "additionalProperties": limit,
            "description": 'by resource: gpu and gpu:MODEL in cards ("2.5"), memory in bytes, node and nvlink in whole'
            " ones; nominal is guaranteed, borrowing how far over it and lending how much of it others may use"
            " meanwhile, both without end where they are left out",
        },
    }
    spec = _object(parts)
    rules = [{"rule": "!has(self.parent) || size(self.parent) > 0", "message": "a parent has a name"}]
    status = _object(
        {
            "observedGeneration": _whole(),
            "held": {"type": "object", "additionalProperties": _quantity()},
            "waiting": _whole(),
            "inForce": _object(parts),
            "conditions": _list(_condition(), 8, keys=("type",)),
        }
    )
    columns = (
        ("Parent", "string", ".spec.parent", 0),
        ("Nominal", "string", ".spec.limits.gpu.nominal", 0),
        ("Held", "string", ".status.held.gpu", 0),
        ("Waiting", "integer", ".status.waiting", 0),
        ("In force", "string", ".status.conditions[?(@.type=='InForce')].status", 0),
    )
    return _definition("Tenant", "tenants", (), {**spec, "x-kubernetes-validations": rules}, status, columns)


def pool_settings() -> Schema:
    """`PoolSettings`: one, called `pool`. What is left out is as the programs were started."""
    native = {
        "rule": f"self.exists(name, name in ['{settings.NATIVE}', '{settings.ALL}'])",
        "message": f"{BadOption.code}: gpupool's own words have nobody else to read them: add {settings.NATIVE}",
    }
    words: Schema = {"type": "string", "enum": list(settings.WORDS)}
    parts: dict[str, Schema] = {
        "policy": {"type": "string", "enum": list(POLICIES), "description": "the rule of placement"},
        "direct": {
            "type": "boolean",
            "description": "pods with nothing but cards, processors and memory to be placed by are bound by gpupool",
        },
        "dialects": {
            **_list(words, len(settings.WORDS)),
            "x-kubernetes-list-type": "set",
            "x-kubernetes-validations": [native],
            "description": "whose words admission takes; pods that ask in others are left alone",
        },
        "preemption": _object(
            {
                "enabled": {"type": "boolean", "description": "whether anybody is evicted for anybody"},
                "reclaim": {"type": "boolean", "description": "whether borrowed quota is taken back by evicting"},
                "protectedSeconds": {**_whole(settings.DAY), "description": "who runs for less is left alone"},
                "perHour": {**_whole(100_000), "description": "so many of one tenant's pods at most"},
            }
        ),
        "replaceSeconds": {
            **_whole(settings.DAY),
            "description": "a pod with cards that no node takes is deleted then, if it has an owner; 0: never",
        },
    }
    status = _object(
        {
            "observedGeneration": _whole(),
            "inUse": _object(parts),
            "conditions": _list(_condition(), 8, keys=("type",)),
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
    return _definition("PoolSettings", "poolsettings", (), _object(parts), status, columns, (only,))


# --- parts of ours ----------------------------------------------------------------------------


def _entry() -> Schema:
    seat = _object(
        {"uuid": _text(63), "gpuMilli": {**_whole(), "maximum": 1000}, "memoryBytes": _whole()},
        required=("uuid", "gpuMilli", "memoryBytes"),
    )
    return _object(
        {
            "uid": _text(253),
            "namespace": _text(63),
            "pod": _text(253),
            "container": _text(63),
            "cards": {**_list(seat, MOST_CARDS), "minItems": 1},
            "tenant": _text(63),
            "sharing": _words(Sharing),
            "priority": {"type": "integer", "format": "int32"},
            "gang": _text(253),
            "leavingFor": _text(320),
            "state": _words(EntryState),
            "generation": {**_whole(), "minimum": 1},
        },
        required=("uid", "namespace", "pod", "container", "cards", "tenant", "state", "generation"),
    )


def _card() -> Schema:
    return _object(
        {
            "uuid": _text(63),
            "index": _whole(),
            "model": _text(63),
            "product": _text(128),
            "memoryBytes": _whole(),
            "health": _words(Health),
            "healthReason": _text(200),
            "simulated": {"type": "boolean"},
        },
        required=("uuid", "index", "model", "memoryBytes"),
    )


def _others() -> Schema:
    port = _object({"number": _whole(), "protocol": _text(8), "address": _text(64)}, required=("number",))
    one = _object({"key": _text(317), "operator": _text(16), "values": _list(_text(63), 256)}, required=("key",))
    matches = _list(one, 64)
    apart = _object(
        {"key": _text(317), "namespaces": _list(_text(63), 256), "selector": matches, "spaces": matches},
        required=("key",),
    )
    return _object(
        {
            "cpuMilli": _whole(),
            "memoryBytes": _whole(),
            "pods": _whole(),
            "ports": _list(port, MOST_ENTRIES),
            "resources": {"type": "object", "maxProperties": 128, "additionalProperties": _whole()},
            "apart": _list(apart, 256),
        }
    )


def _slot() -> Schema:
    return _object(
        {
            "uid": _text(128),
            "container": _text(63),
            "slot": _text(63),
            "generation": _whole(),
            "released": {"type": "boolean"},
        },
        required=("uid", "container"),
    )


def _condition() -> Schema:
    return _object(
        {
            "type": _text(63),
            "status": {"type": "string", "enum": ["True", "False", "Unknown"]},
            "reason": _text(63),
            "message": _text(1024),
            "lastTransitionTime": {"type": "string", "format": "date-time"},
        },
        required=("type", "status"),
    )


# --- words of the schema language -------------------------------------------------------------


def _definition(
    kind: str,
    plural: str,
    short: tuple[str, ...],
    spec: Schema,
    status: Schema,
    columns: tuple[tuple[str, str, str, int], ...],
    rules: tuple[Schema, ...] = (),
) -> Schema:
    shown = [{"name": n, "type": t, "jsonPath": path, "priority": rank} for n, t, path, rank in columns]
    whole: Schema = {"type": "object", "properties": {"spec": spec, "status": status}}
    if rules:
        whole["x-kubernetes-validations"] = list(rules)
    version = {
        "name": names.VERSION,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": whole},
        "subresources": {"status": {}},
        "additionalPrinterColumns": shown,
    }
    called = {"kind": kind, "plural": plural, "singular": kind.lower(), "shortNames": list(short)}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{names.GROUP}"},
        "spec": {
            "group": names.GROUP,
            "scope": "Cluster",
            "names": {**called, "categories": ["gpupool"]},
            "versions": [version],
        },
    }


def _object(properties: Mapping[str, Schema], required: tuple[str, ...] = ()) -> Schema:
    found: Schema = {"type": "object", "properties": dict(properties)}
    return {**found, "required": list(required)} if required else found


def _list(items: Schema, most: int, keys: tuple[str, ...] = (), default: Any = None) -> Schema:
    found: Schema = {"type": "array", "items": items, "maxItems": most}
    if keys:
        found |= {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": list(keys)}
    return found if default is None else {**found, "default": default}


def _words(kind: Any, default: str | None = None) -> Schema:
    found: Schema = {"type": "string", "enum": [one.value for one in kind]}
    return found if default is None else {**found, "default": default}


def _text(longest: int) -> Schema:
    return {"type": "string", "maxLength": longest}


def _whole(most: int | None = None) -> Schema:
    found: Schema = {"type": "integer", "format": "int64", "minimum": 0}
    return found if most is None else {**found, "maximum": most}


def _quantity() -> Schema:
    return {"x-kubernetes-int-or-string": True}
