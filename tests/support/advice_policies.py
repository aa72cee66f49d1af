"""Advice policies in a pool of tests: what they give, and what they did."""

from __future__ import annotations

from typing import Any

from gpupool.base.units import GIB, MIB
from gpupool.wire.jobs import JobOut
from gpupool.wire.rightsizing.policies import AdvicePolicyIn
from tests.support.idle_house import IdleHouse

#: What five runs with 0.1 of a card and 1 GiB are advised.
ADVISED = (150, 1536 * MIB)
ASKED = (500, 16 * GIB)
KINDS = (
    "job.advised",
    "job.advice-proposed",
    "job.advice-applied",
    "job.advice-returned",
    "job.advice-return-waits",
    "advice.family-paused",
)


def set_policy(house: IdleHouse, **body: Any) -> None:
    usual = {"mode": "apply", "confidence": "low", "most_cut_percent": 95}
    made = AdvicePolicyIn.model_validate({**usual, **body})
    house.allocations.rightsizing.policies.put(house.admin, made)


def look(house: IdleHouse) -> None:
    house.metering.write_due_samples()
    house.allocations.rightsizing.watch.look()


def read_size(job: JobOut) -> tuple[int, int | None]:
    return job.gpu_milli, job.memory_bytes


def list_kinds(house: IdleHouse) -> list[str]:
    return [kind for kind, _ in house.list_events(*KINDS)]
