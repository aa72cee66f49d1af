"""Previews: what would become of a submission, the same as what becomes of it, and nothing written."""

from __future__ import annotations

from typing import Any

import pytest
import sqlalchemy as sa

from gpupool.allocations.services.job_preview import PricedRequest
from gpupool.allocations.submission.validate import IMPOSSIBLE
from gpupool.base.errors import GpupoolError, NameTaken, NoRoomNow, TooManyCards, UnknownProject
from gpupool.base.units import GIB
from gpupool.store.tables import metadata
from gpupool.wire.submissions import JobIn, LaunchIn, ShapeIn
from gpupool.wire.views.previews import EvenGangOut, PreviewCost, PreviewOut
from tests.support.house import House
from tests.support.written_rows import written_rows


def request(gpu_milli: int = 300, memory_gib: int | None = 8, **more: Any) -> JobIn:
    count = more.pop("count", 1)
    memory = None if memory_gib is None else memory_gib * GIB
    shape = ShapeIn(gpu_milli=gpu_milli, memory_bytes=memory, count=count)
    return JobIn(shape=shape, launch=LaunchIn(argv=["true"]), **more)


def preview(house: House, body: JobIn) -> PreviewOut:
    previews = house.allocations.previews
    try:
        return previews.preview_job(body, house.admin, None)
    except IMPOSSIBLE as error:
        return previews.describe_refusal(body, house.admin, error)


def read_database(house: House) -> dict[str, list[Any]]:
    with house.store.read() as connection:
        return {
            table.name: connection.execute(sa.select(table)).all()
            for table in metadata.sorted_tables
        }


@pytest.mark.parametrize(
    "body",
    [
        request(),
        request(array=5),
        request(1000, None, count=2),
        request(gang={"name": "gang", "parts": [{"name": "member", "count": 2}]}),
        request(1000, None, name="behind"),
        request(500, 400),
    ],
    ids=["share", "array", "cards", "gang", "waits", "never"],
)
def test_a_preview_writes_no_row_and_no_event_and_changes_no_cache(
    body: JobIn, house: House
) -> None:
    house.submit(600, 8, name="first")
    house.submit(1000, None, name="waiting", count=2)
    before = read_database(house)
    generation = house.allocations.cache.generation
    with written_rows(house.store.engine) as written:
        preview(house, body)
    assert written == []
    assert read_database(house) == before
    assert house.allocations.cache.generation == generation
    assert house.allocations.cache.count_waiting() == 1


def test_what_fits_names_the_cards_that_the_submission_gets(house: House) -> None:
    house.submit(600, 8, name="first")
    found = preview(house, request(500, 8))
    assert (found.outcome, found.starts_now, found.count) == ("fits", 1, 1)
    placed = house.submit(500, 8, name="second")
    assert [seat.device for seat in found.on] == [seat.device for seat in placed.seats]
    assert found.reason == placed.why


def test_what_waits_says_so_in_the_words_of_explain(house: House) -> None:
    house.submit(1000, None, name="one", max_seconds=3600)
    house.submit(1000, None, name="two", max_seconds=7200)
    found = preview(house, request(500, 8, max_seconds=600))
    assert found.outcome == "waits"
    assert found.on == []
    house.submit(500, 8, name="three", max_seconds=600)
    explained = house.allocations.jobs.explain_job("three", house.admin)
    assert found.reason == explained.sentence
    assert found.hints[: len(explained.hints)] == explained.hints[: len(found.hints)]
    assert found.ahead == explained.ahead == 0
    assert (found.start_promised, explained.start_promised) == (True, True)
    assert found.start_ns is not None
    assert explained.start_ns is not None
    assert abs(found.start_ns - explained.start_ns) < 60 * 10**9


def test_what_may_not_wait_would_be_refused_while_there_is_no_room(house: House) -> None:
    house.submit(1000, None, name="one")
    house.submit(1000, None, name="two")
    found = preview(house, request(500, 8, wait=False))
    assert (found.outcome, found.code) == ("never", "GP-2003")
    with pytest.raises(NoRoomNow):
        house.allocations.jobs.submit_job(request(500, 8, wait=False), house.admin, None)


def test_jobs_of_the_same_kind_that_wait_come_before_it(house: House) -> None:
    house.submit(1000, None, name="one")
    house.submit(1000, None, name="two")
    for number in range(3):
        house.submit(500, 8, name=f"behind-{number}")
    assert preview(house, request(500, 8)).ahead == 3


@pytest.mark.parametrize(
    "body",
    [
        request(500, 400),
        request(1000, None, count=64),
        request(500, 8).model_copy(
            update={"shape": ShapeIn(gpu_milli=500, memory_bytes=8 * GIB, model="B999")}
        ),
    ],
    ids=["memory", "cards", "model"],
)
def test_what_can_never_fit_has_the_code_and_words_of_the_refusal(
    body: JobIn, house: House
) -> None:
    found = preview(house, body)
    with pytest.raises(GpupoolError) as refused:
        house.allocations.jobs.submit_job(body, house.admin, None)
    assert found.outcome == "never"
    assert (found.code, found.reason) == (refused.value.code, refused.value.message)


def test_more_cards_than_a_node_has_are_previewed_with_the_gang_that_would_have_them(
    house: House,
) -> None:
    wide = request(1000, None, count=4)
    assert preview(house, wide).gang is None
    house.register(2, "node-2")
    found = preview(house, wide)
    assert (found.outcome, found.code) == ("never", "GP-2004")
    assert found.gang == EvenGangOut(members=2, count=2)
    with pytest.raises(TooManyCards) as refused:
        house.allocations.jobs.submit_job(wide, house.admin, None)
    assert refused.value.details["gang"] == {"members": 2, "count": 2}


def test_a_name_that_is_taken_and_an_unknown_project_are_refused(house: House) -> None:
    house.submit(100, 1, name="train")
    with pytest.raises(NameTaken):
        preview(house, request(name="train"))
    with pytest.raises(UnknownProject):
        preview(house, request(project="none-such"))


def test_the_members_of_an_array_that_start_now_are_counted(house: House) -> None:
    found = preview(house, request(1000, None, array=5))
    assert (found.outcome, found.count) == ("fits", 5)
    assert 1 <= found.starts_now <= 2


def test_a_price_is_asked_for_the_models_of_the_cards(house: House) -> None:
    asked: list[PricedRequest] = []

    def price(request: PricedRequest) -> PreviewCost:
        asked.append(request)
        return PreviewCost(currency="CNY", per_hour_micro=5_000_000)

    house.allocations.previews.estimate_cost = price
    found = preview(house, request())
    assert found.cost is not None
    assert found.cost.per_hour_micro == 5_000_000
    assert asked[0].models == {"H200"}


def test_without_a_price_list_the_cost_is_unknown(house: House) -> None:
    assert preview(house, request()).cost is None
