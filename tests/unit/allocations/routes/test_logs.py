"""Routes of jobs' output: pieces of a log, its end, and jobs that have none."""

from __future__ import annotations

import asyncio
import base64
from dataclasses import dataclass, field

import pytest

from gpupool.allocations.routes.logs import LogChunk, logs
from gpupool.base.errors import NotFound, OutputIsPrivate
from gpupool.model.tenant import Principal
from gpupool.wire.jobs import LogOut
from tests.support.house import House
from tests.support.route_requests import make_request

LONG = 30.0


@dataclass
class GrowingLog:
    """A log in memory that has more to give each time it is waited for."""

    text: bytes | None
    later: list[bytes] = field(default_factory=list)

    def read(self, _job: str, offset: int, limit: int) -> LogChunk | None:
        if self.text is None:
            return None
        data = self.text[offset : offset + limit]
        return LogChunk(data, offset, offset + len(data), 0)

    async def wait_for_change(self, _job: str, _seconds: float) -> None:
        if not self.later:
            await asyncio.Event().wait()
        self.text = (self.text or b"") + self.later.pop(0)


def read(
    house: House,
    log: GrowingLog,
    offset: int = 0,
    limit: int = 4,
    wait_seconds: float = 0,
    caller: Principal | None = None,
) -> LogOut:
    request = make_request(house)
    request.app.state.logs = log
    who = caller or house.admin
    asking = logs(request, "a", house.allocations, who, offset, limit, wait_seconds)
    return asyncio.run(asyncio.wait_for(asking, LONG))


def test_the_last_piece_of_an_ended_job_says_so_and_a_full_one_does_not(house: House) -> None:
    house.submit(name="a")
    house.finish("a")
    log = GrowingLog(b"abcdef")
    first = read(house, log)
    assert (base64.b64decode(first.data), first.next_offset, first.ended) == (b"abcd", 4, False)
    last = read(house, log, first.next_offset)
    assert (base64.b64decode(last.data), last.next_offset, last.ended) == (b"ef", 6, True)


def test_a_piece_of_a_job_that_runs_is_not_its_last(house: House) -> None:
    house.submit(name="a")
    assert not read(house, GrowingLog(b"ab")).ended


def test_a_request_that_waits_is_answered_when_the_log_grows(house: House) -> None:
    house.submit(name="a")
    found = read(house, GrowingLog(None, [b"", b"new"]), wait_seconds=LONG)
    assert base64.b64decode(found.data) == b"new"


def test_a_job_whose_output_went_to_a_terminal_has_no_log(house: House) -> None:
    house.submit(name="a", attached=True)
    with pytest.raises(NotFound, match="its output went to its client's terminal"):
        read(house, GrowingLog(None))


def test_a_job_that_wrote_nothing_yet_has_an_empty_log(house: House) -> None:
    house.submit(1000, None, name="a")
    found = read(house, GrowingLog(None), offset=-5)
    assert (found.data, found.offset, found.next_offset, found.ended) == ("", 0, 0, False)


def test_the_output_of_a_colleague_is_not_shown(house: House) -> None:
    house.submit(name="a")
    colleague = house.member("bob", "default")
    with pytest.raises(OutputIsPrivate, match="belongs to"):
        read(house, GrowingLog(b"secret"), caller=colleague)
