"""Every public error has a status and reads as a problem; a defect tells its number and nothing
else."""

import asyncio
import logging
import threading
from pathlib import Path

import pytest
from fastapi import Depends, Request

from gpupool import __version__
from gpupool.allocations.routes.dependencies import wait_while_connected
from gpupool.base import errors
from gpupool.model.tenant import Permission
from gpupool.server.http.problems import problem_response, shorten_text, status_of
from gpupool.tenancy.access import require_caller
from gpupool.wire.common import Problem
from tests.support.api import running_app

EXPECTED = {
    "GP-1001": 400, "GP-1010": 422, "GP-1011": 413, "GP-1020": 400, "GP-2001": 409, "GP-2008": 409, "GP-3001": 401,
    "GP-3002": 403, "GP-3003": 404, "GP-3004": 404, "GP-3005": 404, "GP-3006": 405, "GP-4000": 409, "GP-4001": 412,
    "GP-4002": 409, "GP-5001": 503, "GP-5005": 503, "GP-5006": 507, "GP-5900": 500,
}  # fmt: skip


@pytest.mark.parametrize(("code", "status"), EXPECTED.items())
def test_a_code_has_its_status(code: str, status: int) -> None:
    assert status_of(errors.list_error_classes()[code]) == status


@pytest.mark.parametrize("kind", errors.list_error_classes().values(), ids=lambda kind: kind.code)
def test_every_error_reads_as_a_problem_and_back(kind: type[errors.GpupoolError]) -> None:
    response = problem_response(kind("it happened", hint="do this", number=3))
    problem = Problem.model_validate_json(response.body)
    assert response.media_type == "application/problem+json"
    assert (problem.code, problem.status, problem.numbers) == (
        kind.code,
        response.status_code,
        {"number": 3},
    )
    assert type(errors.from_code(problem.code, problem.detail, problem.hint)) is kind


def test_a_client_that_leaves_while_its_answer_waits_writes_nothing_to_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    entered = threading.Event()
    with running_app(tmp_path) as pool:

        @pool.app.get("/api/v1/test", dependencies=[Depends(require_caller(Permission.READ))])
        async def wait(request: Request) -> None:
            entered.set()
            await wait_while_connected(request, asyncio.Event().wait())

        with pool.client().stream("test") as exchange:
            assert entered.wait(30)
    assert exchange.answer().status == 499
    assert not [record for record in caplog.records if record.exc_info]


def test_a_defect_answers_with_a_number_that_the_log_has_and_nothing_of_its_text(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with running_app(tmp_path) as pool:

        @pool.app.get("/api/v1/test", dependencies=[Depends(require_caller(Permission.READ))])
        def fail() -> None:
            raise ZeroDivisionError("the password is swordfish")

        with caplog.at_level(logging.ERROR):
            answer = pool.client().get("test")
    assert (answer.status, answer.code) == (500, "GP-5900")
    assert "swordfish" not in answer.body.decode()
    assert answer.json()["detail"].split("defect ")[1].rstrip(")") in caplog.text
    assert "swordfish" in caplog.text


def test_every_answer_names_the_version(tmp_path: Path) -> None:
    with running_app(tmp_path) as pool:
        for client, path in (
            (pool.client(), "whoami"),
            (pool.client(None), "whoami"),
            (pool.client(), "/nothing"),
        ):
            assert client.get(path).headers["gpupool-version"] == __version__


def test_a_route_that_is_not_there_and_a_method_that_is_not_offered(tmp_path: Path) -> None:
    with running_app(tmp_path) as pool:
        missing = pool.client().get("nothing")
        assert (missing.status, missing.code) == (404, "GP-3005")
        wrong = pool.client().delete("whoami")
        assert (wrong.status, wrong.code) == (405, "GP-3006")
        assert wrong.headers["allow"] == "GET"
        assert pool.client().get("whoami/").code == "GP-3005"


def test_a_piece_of_what_was_sent_is_printable_and_short() -> None:
    assert shorten_text("a\nb\x1b[31m\ud800") == "a�b�[31m?"
    assert len(shorten_text("x" * 10_000)) == 200


def test_a_body_that_cannot_be_read_for_want_of_memory_is_no_fault_of_the_caller(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An agent drops a report that is refused: the end of a job would be lost."""

    async def no_memory(_request: Request) -> None:
        raise MemoryError

    monkeypatch.setattr(Request, "json", no_memory)
    with running_app(tmp_path) as pool:
        answer = pool.client().post("jobs", {})
    assert (answer.status, answer.code) == (500, "GP-5900")
