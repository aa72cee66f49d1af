"""Reservation objects as people write them."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from tests.support.kube_builders import CREATED

NS = 10**9


HOUR = 3600 * NS


NOW = int(datetime.fromisoformat(CREATED).timestamp()) * NS


def made(
    name: str = "demo", *, status: dict[str, Any] | None = None, **spec: Any
) -> dict[str, Any]:
    meta = {"name": name, "uid": f"uid-{name}", "creationTimestamp": CREATED, "generation": 1}
    return {"metadata": meta, "spec": {"tenant": "default", **spec}, "status": status or {}}
