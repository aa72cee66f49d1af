"""Streams that are prepared at the same time are all there, and each is opened once."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from gpupool.base.errors import JobUnreachable, NotFound, TooManyRequests
from gpupool.model.tenant import Principal
from gpupool.wire.workspaces import StreamIn, StreamOut
from gpupool.workspaces.service import PREPARED_AT_MOST, Entrance, WorkspaceService
from tests.support.house import House
from tests.support.resizing import running

EXEC = StreamIn(kind="exec", argv=["true"])
PORT = StreamIn(kind="port", port=80)


class MeetingService(WorkspaceService):
    """The service, whose calls meet between the look at what is prepared and the answer."""

    def __init__(self, house: House, callers: int) -> None:
        super().__init__(house.store, house.allocations, house.fleet)
        self.meeting = threading.Barrier(callers)

    def _record_entry(self, entrance: Entrance, principal: Principal, how: str) -> None:
        super()._record_entry(entrance, principal, how)
        self.meeting.wait(20)


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    made = House(tmp_path)
    running(made, "job")
    yield made
    made.close()


def is_known(service: WorkspaceService, stream: StreamOut, caller: Principal) -> bool:
    """Open a stream; whether the service knew it: it looks for the job's agent, which is away."""
    try:
        asyncio.run(service.open_prepared(stream.stream, caller))
    except NotFound:
        return False
    except JobUnreachable:
        return True
    raise AssertionError("no agent is connected")


def test_streams_that_are_prepared_at_once_are_all_kept_and_opened_once(house: House) -> None:
    service = MeetingService(house, 3)
    with ThreadPoolExecutor(3) as threads:
        asked = [threads.submit(service.prepare_stream, "job", EXEC, house.admin) for _ in range(3)]
        streams = [one.result() for one in asked]
    assert [is_known(service, one, house.admin) for one in streams] == [True] * 3
    assert [is_known(service, one, house.admin) for one in streams] == [False] * 3


def test_streams_that_no_client_opens_are_bounded(house: House) -> None:
    service = WorkspaceService(house.store, house.allocations, house.fleet)
    streams = [service.prepare_stream("job", PORT, house.admin) for _ in range(PREPARED_AT_MOST)]
    with pytest.raises(TooManyRequests, match=str(PREPARED_AT_MOST)):
        service.prepare_stream("job", PORT, house.admin)
    assert is_known(service, streams[0], house.admin)
    service.prepare_stream("job", PORT, house.admin)
