"""The definition of `Reservation`: cards held for a tenant, once or again and again. Only admins
write them."""

from __future__ import annotations

from gpupool.base.errors import BadOption
from gpupool.kubernetes.manifests.openapi import (
    Schema,
    array_of,
    condition,
    definition,
    quantity,
    record,
    text,
    whole,
)

_DURATION = {"type": "string", "maxLength": 32, "pattern": "^([0-9]+[smhdw])+$"}
_INSTANT = {"type": "string", "format": "date-time"}


def reservation() -> Schema:
    """`Reservation`: what is asked cannot be changed, since others were judged beside it."""
    spec = record(
        {
            "tenant": {
                **text(63),
                "minLength": 1,
                "description": "a Tenant, or a namespace that none lists",
            },
            "replicas": {
                **whole(10_000),
                "minimum": 1,
                "default": 1,
                "description": "so many times the cards below",
            },
            "gpus": {
                **whole(128),
                "minimum": 1,
                "default": 1,
                "description": "cards, all on one node",
            },
            "gpuMilli": {
                **whole(1000),
                "minimum": 1,
                "default": 1000,
                "description": "of each card, in thousandths",
            },
            "memory": {
                **quantity(),
                "description": "of each card; left out, as much of it as of the compute",
            },
            "model": {**text(63), "description": "of cards; several are joined by |"},
            "start": {**_INSTANT, "description": "left out: from when it was made"},
            "end": _INSTANT,
            "duration": {**_DURATION, "description": "instead of an end: 4h, 1h30m"},
            "every": {**_DURATION, "description": "it comes again so much later each time: 1d, 1w"},
            "until": {**_INSTANT, "description": "no time of it begins after that"},
        },
        required=("tenant",),
    )
    rules = [
        _rule("self == oldSelf", "what is reserved cannot be changed: delete it and make another"),
        _rule("!(has(self.end) && has(self.duration))", "an end or a duration, not both"),
        _rule(
            "!has(self.every) || has(self.end) || has(self.duration)",
            "what comes again needs an end or a duration",
        ),
        _rule(
            "!has(self.until) || has(self.every)", "until is the end of what comes again: add every"
        ),
    ]
    status = record(
        {
            "observedGeneration": whole(),
            "state": text(16),
            "share": text(128),
            "start": _INSTANT,
            "end": _INSTANT,
            "conditions": array_of(condition(), 8, keys=("type",)),
        }
    )
    columns = (
        ("Tenant", "string", ".spec.tenant", 0),
        ("State", "string", ".status.state", 0),
        ("Share", "string", ".status.share", 0),
        ("Model", "string", ".spec.model", 0),
        ("Start", "string", ".status.start", 0),
        ("End", "string", ".status.end", 0),
        ("Every", "string", ".spec.every", 1),
        ("Why", "string", ".status.conditions[?(@.type=='Accepted')].message", 1),
    )
    called = _rule("size(self.metadata.name) <= 63", "pods name it in a label: 63 letters at most")
    spec["x-kubernetes-validations"] = rules
    return definition("Reservation", "reservations", ("gres",), spec, status, columns, (called,))


def _rule(rule: str, message: str) -> Schema:
    return {"rule": rule, "message": f"{BadOption.code}: {message}"}
