"""Standing by: what is answered and prepared until the lease is over, and when it ends."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

from gpupool.host.leadership.front import ListenerFront
from gpupool.host.leadership.standby import LeaderLookout, LeaderView, stand_by
from gpupool.server.http.connections import OpenConnections
from gpupool.server.http.listeners import BoundSocket, UnixListener
from gpupool.store.leadership import LeaderRecord


class Seen(LeaderLookout):
    """A lookout that sees these leases one after the other, and stays at the last."""

    def __init__(self, *left_seconds: float) -> None:
        self._left = list(left_seconds)
        self.view = LeaderView()
        self.looks = 0

    def query_leader(self) -> LeaderView:
        left = self._left[min(self.looks, len(self._left) - 1)]
        self.looks += 1
        self.view = LeaderView(LeaderRecord("holder", "instance", 3, "https://a:8443", left))
        return self.view


class Standing:
    """One standby: what it told, and how far it came with preparing itself."""

    def __init__(self, socket: Path, lookout: Seen) -> None:
        self.front = ListenerFront([UnixListener(socket)], OpenConnections())
        self.lookout = lookout
        self.told: list[str | None] = []
        self.warmed: list[str] = []

    def ready(self, _bound: Sequence[BoundSocket], view: LeaderView) -> None:
        self.told.append(None if view.leader is None else view.leader.address)

    async def keep_warm(self) -> None:
        self.warmed.append("begun")
        try:
            await asyncio.Event().wait()
        finally:
            self.warmed.append("ended")

    async def run(self, stop: asyncio.Event) -> bool:
        """Whether it listens when it may lead or was told to stop."""
        await stand_by(self.lookout, self.front, stop, self.ready, self.keep_warm)
        await asyncio.sleep(0)
        listens = self.front.listening
        await self.front.close()
        return listens


def test_a_standby_returns_when_the_lease_is_over_and_listens_on(tmp_path: Path) -> None:
    standing = Standing(tmp_path / "s.sock", Seen(0.05, 0.01, -0.01))

    async def run() -> bool:
        return await standing.run(asyncio.Event())

    assert asyncio.run(run())
    assert standing.told == ["https://a:8443"]
    assert standing.warmed == ["begun", "ended"]
    assert standing.lookout.looks == 3


def test_a_server_that_may_lead_at_once_does_not_listen_before_it_does(tmp_path: Path) -> None:
    standing = Standing(tmp_path / "s.sock", Seen(-1.0))

    async def run() -> bool:
        return await standing.run(asyncio.Event())

    assert not asyncio.run(run())
    assert (standing.told, standing.warmed) == ([], [])


def test_a_standby_that_is_told_to_stop_ends(tmp_path: Path) -> None:
    standing = Standing(tmp_path / "s.sock", Seen(60.0))

    async def run() -> bool:
        stop = asyncio.Event()
        running = asyncio.create_task(standing.run(stop))
        while not standing.told:
            await asyncio.sleep(0)
        stop.set()
        return await running

    assert asyncio.run(run())
