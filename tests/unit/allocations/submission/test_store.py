"""Rows of a submission: names that live jobs have, and what is kept of a command."""

from __future__ import annotations

from typing import Any

import pytest
import sqlalchemy as sa

from gpupool.allocations.submission import store
from gpupool.allocations.submission.submission import Submission, SubmissionPart
from gpupool.base.errors import NameTaken
from gpupool.model.claim import Shape
from tests.support.house import House

#: Of one submission that is placed at once; BEGIN counts. Planes are asked for beside others.
MOST_STATEMENTS = 24


def test_a_live_jobs_name_is_taken_and_free_again_when_it_ended(house: House) -> None:
    house.submit(name="a")
    with pytest.raises(NameTaken):
        house.submit(name="a")
    house.finish("a")
    assert house.submit(name="a").state == "starting"


def test_a_name_that_a_waiting_array_or_its_member_has_is_taken(house: House) -> None:
    house.submit(1000, None, name="sweep", array=9)
    for name in ("sweep", "sweep.8"):
        with pytest.raises(NameTaken, match=f"a job named {name} is"):
            house.submit(1000, None, name=name)
    house.submit(1000, None, name="sweep.9")


def test_a_job_of_a_process_is_written_and_placed_in_few_statements(house: House) -> None:
    house.submit(300, 8, name="first")
    statements = list[str]()

    def note(*event: Any) -> None:
        statements.append(event[2])

    sa.event.listen(house.store.engine, "before_cursor_execute", note)
    house.submit(300, 8, name="second")
    sa.event.remove(house.store.engine, "before_cursor_execute", note)
    assert house.job("second").state == "starting"
    # `gpupool run` waits for each of them.
    assert sum("FROM networks" in one for one in statements) == 1
    assert sum("FROM plane_demands" in one for one in statements) == 2
    assert sum("FROM jobs" in one and "UNION ALL" in one for one in statements) == 1
    assert not any("FROM arrays" in one and "UNION ALL" not in one for one in statements)
    assert sum("FROM budgets" in one for one in statements) <= 1
    assert len(statements) <= MOST_STATEMENTS


@pytest.mark.parametrize(
    ("launch", "image"),
    [
        ({"container": {"image": "registry.example/llama:3"}}, "registry.example/llama:3"),
        ({"container": None}, None),
        ({}, None),
    ],
)
def test_the_image_of_a_job_stays_with_its_claim_for_searches(
    launch: dict[str, Any], image: str | None, house: House
) -> None:
    part = SubmissionPart(Shape(300, None, 1), ["true"], 0, 1)
    submission = Submission(
        tenant_id=1,
        tenant="default",
        project="default",
        user_id=1,
        parts=(part,),
        priority=0,
        max_seconds=None,
        seconds=None,
        names=("one",),
        array=None,
        public_ids=("j-1",),
        attached=False,
        launch=launch,
    )
    with house.store.write() as write:
        assert store._build_claim_row(write, submission, part)["image"] == image
        assert store._build_job_row(write, submission, part, 0)["total_milli"] == 300
