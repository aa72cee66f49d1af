"""Submissions are checked completely before anything is written."""

from __future__ import annotations

import pytest

from gpupool.allocations.submission import validate
from gpupool.allocations.submission.validate import check_container
from gpupool.allocations.views.job_pages import JobFilter
from gpupool.base.errors import (
    BadFraction,
    BadOption,
    BeyondQuota,
    ContainerNotAllowed,
    LargerThanAnyCard,
    NoPermission,
    TooManyCards,
    UnknownModel,
)
from gpupool.model.container import ContainerPolicy
from gpupool.wire.people import QuotaIn
from gpupool.wire.submissions import JobIn
from tests.support.house import House


@pytest.mark.parametrize(
    ("asked", "error", "words"),
    [
        ({"memory_gib": 200, "memory_typed": "200Gi"}, LargerThanAnyCard, "200Gi"),
        ({"count": 16}, TooManyCards, "16 cards"),
        ({"model": "H20O"}, UnknownModel, "H20O"),
        ({"gpu_milli": 0}, BadFraction, "0 of a card"),
        ({"gpu_milli": 1500}, BadFraction, "1.5 of a card"),
        ({"count": 0}, BadOption, "a claim without a card names no compute"),
        (
            {"gpu_milli": 0, "memory_gib": None, "count": 0, "cpu_milli": 1000},
            BadOption,
            "is for virtual machines",
        ),
        ({"priority": "urgent"}, BadOption, "urgent"),
        ({"priority": "--5"}, BadOption, "--5"),
        ({"priority": "+-5"}, BadOption, "unknown"),
        ({"priority": "9" * 5000}, BadOption, "unknown"),
    ],
)
def test_what_can_never_be_placed_is_refused_with_the_numbers(
    house: House, asked: dict[str, object], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        house.submit(**asked)  # type: ignore[arg-type]
    assert (
        house.allocations.jobs.list_jobs(house.admin, JobFilter(everything=True), None, 10).items
        == []
    )


def test_beyond_the_tenants_maximum_is_refused_and_beyond_what_it_has_left_waits(
    house: House,
) -> None:
    house.tenancy.tenants.create(house.admin, "nlp", None)
    house.tenancy.put_quota(house.admin, "nlp", QuotaIn(nominal_milli=500, borrowing_milli=0))
    with pytest.raises(BeyondQuota, match=r"0\.50"):
        house.submit(900, 8, tenant="nlp")
    assert house.submit(400, 8, tenant="nlp", name="first").state == "starting"
    second = house.submit(400, 8, tenant="nlp", name="second")
    assert second.state == "pending"
    assert "nlp" in second.reason
    house.finish("first")
    house.allocations.placer.run_cycle()
    assert house.job("second").state == "starting"


def test_nobody_is_refused_for_a_name_that_the_pool_has_made(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = iter(["j-aaaaaa4444", "j-bbbbbb4444", "j-cccccc4444", "j-dddddd4445"])
    monkeypatch.setattr(validate, "new_id", lambda _kind: next(ids))
    assert (house.submit().name, house.submit().name) == ("true-4444", "true-bbbbb4444")
    first = house.submit(array=2)
    assert (first.name, first.array) == ("true-ccccc4444.0", "true-ccccc4444")


@pytest.mark.parametrize(
    ("text", "value"), [("-0000000000005", -5), ("+7", 7), ("-1000", -1000), ("low", -100)]
)
def test_a_priority_is_a_word_or_a_number(house: House, text: str, value: int) -> None:
    assert house.submit(priority=text).priority == value


def test_only_who_manages_a_tenant_asks_for_more_than_normal_priority(house: House) -> None:
    house.tenancy.tenants.create(house.admin, "nlp", None)
    ann = house.member("ann", "nlp")
    with pytest.raises(NoPermission):
        house.submit(priority="high", principal=ann)
    assert house.submit(priority="low", principal=ann).priority == -100


def test_an_image_that_the_pool_does_not_allow_is_refused_with_what_it_allows() -> None:
    launch = {"argv": ["true"], "container": {"image": "r.example/a:1", "pull": "missing"}}
    body = JobIn.model_validate({"shape": {"gpu_milli": 100}, "launch": launch})
    with pytest.raises(ContainerNotAllowed, match="may not be pulled; allowed here: local"):
        check_container(body, ContainerPolicy())
    assert check_container(body, ContainerPolicy(images=("r.example",))) is body


def test_a_job_without_a_container_asks_no_policy() -> None:
    body = JobIn.model_validate({"shape": {"gpu_milli": 100}, "launch": {"argv": ["true"]}})
    assert check_container(body, ContainerPolicy(images=())) is body
