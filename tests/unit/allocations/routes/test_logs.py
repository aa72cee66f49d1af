"""Routes of jobs' output: pieces of a log, its end, and jobs that have none."""

from __future__ import annotations

import asyncio
import base64
from dataclasses import dataclass, field

import pytest

from gpupool.allocations.routes import streaming
from gpupool.allocations.routes.logs import LogChunk, logs
from gpupool.base.errors import NotFound, OutputIsPrivate
from gpupool.model.tenant import Principal
from gpupool.tenancy.access import RECHECK_KEY
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

    async def wait_for_change(self, _job: str, _known: int, _seconds: float) -> None:
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
    answer = asyncio.run(asyncio.wait_for(asking, LONG))
    assert isinstance(answer, LogOut)
    return answer


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


def test_a_job_whose_output_went_to_its_client_has_no_log(house: House) -> None:
    house.submit(name="a", attached=True)
    with pytest.raises(NotFound, match="its output went to its client"):
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


@dataclass
class EndingLog(GrowingLog):
    """A log whose job ends with its last piece."""

    house: House | None = None

    async def wait_for_change(self, job: str, known: int, seconds: float) -> None:
        if not self.later:
            assert self.house is not None
            self.house.finish("a")
            return
        await super().wait_for_change(job, known, seconds)


def stream(
    house: House, log: GrowingLog, position: str | None = None, most: int = 100
) -> list[dict[str, str]]:
    """The frames of a stream, at most so many: its browser goes away then."""

    async def caller() -> Principal:
        return house.admin

    async def read_frames() -> list[dict[str, str]]:
        scope = {RECHECK_KEY: caller, "headers": [(b"accept", b"text/event-stream")]}
        request = make_request(house, **scope)
        request.app.state.logs = log
        answer = await logs(request, "a", house.allocations, house.admin, 0, 4, 0, position)
        found: list[dict[str, str]] = []
        async for text in answer.body_iterator:  # type: ignore[union-attr]
            pairs = (line.partition(": ") for line in str(text).strip().splitlines())
            found.append({name: value for name, _, value in pairs})
            if len(found) == most:
                break
        return found

    return asyncio.run(asyncio.wait_for(read_frames(), LONG))


def decode(frame: dict[str, str]) -> bytes:
    return base64.b64decode(LogOut.model_validate_json(frame["data"]).data)


def test_a_stream_gives_the_output_as_it_grows_and_says_that_it_ended(house: House) -> None:
    house.submit(name="a")
    frames = stream(house, EndingLog(b"abcdef", [b"gh\n"], house))
    pieces = [frame for frame in frames if frame.get("event") == "message"]
    assert b"".join(map(decode, pieces)) == b"abcdefgh\n"
    assert [frame["id"] for frame in pieces][:3] == ["4", "6", "9"]
    assert frames[-1] == {"event": "end", "data": "{}"}


def test_a_stream_goes_on_at_the_byte_that_its_browser_had(house: House) -> None:
    house.submit(name="a")
    [frame] = stream(house, GrowingLog(b"abcdef"), position="4", most=1)
    assert (decode(frame), frame["id"]) == (b"ef", "6")


def test_a_silent_stream_has_comments(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streaming, "HEARTBEAT_SECONDS", 0.01)
    house.submit(name="a")
    first, second = stream(house, GrowingLog(b""), most=2)
    assert (first["event"], first["id"]) == ("message", "0")
    assert second == {":": ""}


def test_a_stream_of_a_colleagues_output_does_not_begin(house: House) -> None:
    house.submit(name="a")
    colleague = house.member("bob", "default")
    request = make_request(house, headers=[(b"accept", b"text/event-stream")])
    request.app.state.logs = GrowingLog(b"secret")
    with pytest.raises(OutputIsPrivate):
        asyncio.run(logs(request, "a", house.allocations, colleague))
