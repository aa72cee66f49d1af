"""Answers of a later server, and requests of an earlier agent."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

from gpupool.wire.answers import format_path, read_answer, read_demanding_answer
from gpupool.wire.containers import ContainerIn
from gpupool.wire.fleet import NodeIn, ReportsIn, ReportsOut, RunAs, WorkOut, WorkPage, WorkSeat
from gpupool.wire.modes import ModeWork
from gpupool.wire.network.engine import NetworkEngineWork
from tests.support.dedicated_lines import make_work as make_line
from tests.support.recorded_releases import RELEASE_0_1_0

LATER = "added_later"


def make_page() -> WorkPage:
    seat = WorkSeat(uuid="GPU-1", index=0, model="T4", gpu_milli=500, memory_bytes=8 << 30)
    work = WorkOut(
        allocation="a-4k9x2m7q8w",
        generation=3,
        job="j-4k9x2m7q8w",
        job_name="train",
        want="run",
        tenant="nlp",
        user="ana",
        sharing="fixed",
        seats=[seat],
        argv=["true"],
        cwd="/",
        env={"A": "b"},
        umask=18,
        limits={"nofile": (1024, 4096)},
        run_as=RunAs(uid=1000, gid=1000, groups=[1000], name="ana"),
        attached=False,
        container=ContainerIn(image="busybox"),
        max_seconds=None,
        started=False,
    )
    return WorkPage(
        cursor=12,
        work=[work],
        live=[work.allocation],
        modes=[ModeWork(uuid="GPU-1", mode="mig")],
        network=NetworkEngineWork(want="run", lines=[make_line()]),
    )


def add_everywhere(value: Any, content: object) -> Any:
    """The JSON of a shape with one more field in it and in each shape inside of it."""
    if isinstance(value, BaseModel):
        fields = {name: add_everywhere(part, content) for name, part in value}
        return {**fields, LATER: content}
    if isinstance(value, list):
        return [add_everywhere(part, content) for part in value]
    return value


def test_a_reader_leaves_out_later_fields_at_every_depth() -> None:
    page = make_page()
    assert read_answer(WorkPage, add_everywhere(page, {"a": 1})) == page
    found, unknown = read_demanding_answer(WorkPage, add_everywhere(page, "on"))
    assert found == page
    assert {format_path(path) for path in unknown} == {
        LATER,
        f"work.{LATER}",
        f"work.seats.{LATER}",
        f"work.run_as.{LATER}",
        f"work.container.{LATER}",
        f"modes.{LATER}",
        f"network.{LATER}",
        f"network.lines.{LATER}",
    }
    assert ("work", 0, "seats", 0, LATER) in unknown


@pytest.mark.parametrize("empty", [None, False, 0, "", [], {}])
def test_a_later_field_that_is_empty_demands_nothing(empty: object) -> None:
    page = make_page()
    assert read_demanding_answer(WorkPage, add_everywhere(page, empty)) == (page, [])


def test_an_answer_with_a_wrong_field_is_refused() -> None:
    wrong = {**RELEASE_0_1_0["WorkPage"], "cursor": "no number", LATER: "on"}
    with pytest.raises(ValidationError, match="cursor"):
        read_demanding_answer(WorkPage, wrong)
    # A word that came later says what to do: it is refused, since leaving it out would do another.
    page = json.loads(make_page().model_dump_json())
    page["work"][0]["want"] = LATER
    with pytest.raises(ValidationError, match="want"):
        read_answer(WorkPage, page)


def test_an_agent_of_an_earlier_release_is_understood() -> None:
    reports = ReportsIn.model_validate(RELEASE_0_1_0["ReportsIn"])
    assert [report.state for report in reports.reports] == ["running", "ended"]
    assert reports.ready
    assert NodeIn.model_validate(RELEASE_0_1_0["NodeIn"]).devices[0].model == "T4"


def test_a_page_of_an_earlier_release_is_understood() -> None:
    page, unknown = read_demanding_answer(WorkPage, RELEASE_0_1_0["WorkPage"])
    assert (page.work[0].job_name, page.work[0].network, page.modes) == ("train", None, [])
    assert unknown == []
    assert read_answer(ReportsOut, RELEASE_0_1_0["ReportsOut"]).stale == []


@pytest.mark.parametrize("empty", [None, "on"])
def test_a_request_with_an_unknown_field_is_refused(empty: object) -> None:
    for name, shape in (("ReportsIn", ReportsIn), ("NodeIn", NodeIn)):
        with pytest.raises(ValidationError, match=LATER):
            shape.model_validate({**RELEASE_0_1_0[name], LATER: empty})
