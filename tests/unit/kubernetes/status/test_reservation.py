"""A Reservation object is read as the scheduler's reservation."""

from __future__ import annotations

from gpupool.kubernetes.status.reservations import (
    reservation_of,
)
from tests.support.reservation_objects import HOUR, NOW, made


def test_what_the_object_asks() -> None:
    found = reservation_of(
        made(
            gpus=2, gpuMilli=300, memory="8Gi", model="l40s", replicas=3, duration="2h", every="1d"
        )
    )
    assert (found.shape.count, found.shape.gpu_milli, found.shape.memory_bytes) == (2, 300, 8 << 30)
    assert (found.shape.model, found.replicas, found.name, found.tenant) == (
        "L40S",
        3,
        "demo",
        "default",
    )
    assert (found.start_ns, found.end_ns, found.every_ns) == (NOW, NOW + 2 * HOUR, 24 * HOUR)
