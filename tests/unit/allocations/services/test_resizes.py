"""Answers to resizes: what is in force, what is in use, and who may ask."""

from __future__ import annotations

import pytest

from gpupool.base.errors import (
    NoPermission,
    NotFound,
)
from gpupool.base.units import GIB
from gpupool.model.tenant import UserRole
from tests.support.house import House
from tests.support.resizing import resize, running, work_of


def test_resized_after_another_resize_answers_with_the_size_that_it_gave(house: House) -> None:
    running(house, "train")
    first = resize(house, "train", 400)
    second = resize(house, "train", 600)
    told = house.allocations.resizes.read_resize_effect(first)
    assert told.job.gpu_milli == 400
    assert told.note == f"another resize followed: train has {second.job.share} now"


def test_another_tenants_job_does_not_exist_and_a_colleagues_may_not_be_touched(
    house: House,
) -> None:
    for name in ("physics", "rivals"):
        house.tenancy.tenants.create(house.admin, name, None)
    ada, bob = house.member("ada", "physics"), house.member("bob", "physics")
    stranger, boss = (
        house.member("eve", "rivals"),
        house.member("kim", "physics", UserRole.TENANT_ADMIN),
    )
    job = running(house, "train", principal=ada)
    for name in ("train", job.id):
        with pytest.raises(NotFound):
            resize(house, name, 100, who=stranger)
        with pytest.raises(NoPermission):
            resize(house, name, 100, who=bob)
    assert resize(house, "train", 100, who=boss).changed


def test_the_answer_says_what_is_in_use_beyond_the_new_memory(house: House) -> None:
    running(house, "train")
    told = resize(house, "train", gib=2)
    assert "gets nothing more until" in told.note or "fence: none" in told.note
    house.report(work_of(house, "train"), "resized", fence="soft", gpu_memory_bytes=6 * GIB)
    answer = house.allocations.resizes.read_resize_effect(told)
    assert (answer.applied, answer.used_bytes) == (True, 6 * GIB)
    assert answer.note == (
        "6144 MiB are in use, 4096 MiB more than it now has: what it holds stays, it gets nothing more until it has "
        "given that back"
    )
