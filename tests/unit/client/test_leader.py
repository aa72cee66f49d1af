"""Which of a pool's servers is tried, in what order, and for how long."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpupool.base.client_settings import ClientSettings
from gpupool.base.errors import PoolNotRunning, StandbyServer
from gpupool.client import leader
from gpupool.client.connection import BrokenConnectionError
from gpupool.client.endpoints import list_endpoints
from gpupool.client.leader import LeaderSearch, ServerCandidates
from tests.unit.client.scripted_pool import Request, ScriptedPool, reply


def candidates(*folders: Path) -> ServerCandidates:
    url = ",".join(f"unix://{one}/gpupool.sock" for one in folders)
    return ServerCandidates(list_endpoints(ClientSettings(url=url)))


def answer_role(role: str) -> bytes:
    return reply({"role": role})


def test_connect_puts_the_first_server_that_listens_first(tmp_path: Path) -> None:
    with ScriptedPool(tmp_path / "b", lambda _: reply({})):
        servers = candidates(tmp_path / "a", tmp_path / "b")
        while str(tmp_path / "a") not in str(servers.first):
            servers.turn()
        servers.connect().close()
        assert str(tmp_path / "b") in str(servers.first)
        # The other server of the pool stays a candidate: it may lead later.
        assert len(servers) == 2


def test_connect_where_no_server_listens_raises(tmp_path: Path) -> None:
    servers = candidates(tmp_path / "a", tmp_path / "b")
    with pytest.raises(PoolNotRunning):
        servers.connect()
    assert len(servers) == 2


def test_copy_turns_alone(tmp_path: Path) -> None:
    servers = candidates(tmp_path / "a", tmp_path / "b")
    before = str(servers.first)
    twin = servers.copy()
    twin.turn()
    assert str(servers.first) == before
    assert str(twin.first) != before
    assert str(twin) == str(servers)
    assert twin.are_one_pool


@pytest.mark.parametrize("role", ["leader", "standby"])
def test_silent_connection_breaks_only_if_another_server_leads(tmp_path: Path, role: str) -> None:
    roles = {"a": "standby", "b": "standby"}

    def health(name: str, asked: Request) -> bytes:
        assert asked.target == "/healthz"
        return answer_role(roles[name])

    with (
        ScriptedPool(tmp_path / "a", lambda asked: health("a", asked)),
        ScriptedPool(tmp_path / "b", lambda asked: health("b", asked)),
    ):
        servers = candidates(tmp_path / "a", tmp_path / "b")
        connection = servers.connect()
        other = "a" if str(tmp_path / "b") in str(servers.first) else "b"
        roles[other] = role
        assert connection.on_silence is not None
        if role == "standby":
            connection.on_silence()
            assert str(tmp_path / other) not in str(servers.first)
        else:
            with pytest.raises(BrokenConnectionError, match="leads now"):
                connection.on_silence()
            assert str(tmp_path / other) in str(servers.first)
        connection.close()


def test_search_turns_to_the_next_server_until_its_time_is_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [100.0]
    pauses: list[float] = []
    monkeypatch.setattr(leader.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(leader.time, "sleep", pauses.append)
    servers = candidates(tmp_path / "a", tmp_path / "b")
    search = LeaderSearch(servers, follow=True)
    error = StandbyServer("not me")
    first = str(servers.first)
    search.next(error)
    assert str(servers.first) != first
    assert pauses == []
    search.next(error)
    # A pause after each round, not after each server.
    assert len(pauses) == 1
    now[0] += leader.TAKEOVER_SECONDS
    with pytest.raises(StandbyServer):
        search.next(error)


def test_search_that_does_not_follow_turns_once_and_raises(tmp_path: Path) -> None:
    servers = candidates(tmp_path / "a", tmp_path / "b")
    first = str(servers.first)
    with pytest.raises(StandbyServer):
        LeaderSearch(servers, follow=False).next(StandbyServer("not me"))
    assert str(servers.first) != first


def test_search_among_one_server_raises_at_once(tmp_path: Path) -> None:
    with pytest.raises(StandbyServer):
        LeaderSearch(candidates(tmp_path / "a"), follow=True).next(StandbyServer("not me"))
