"""A client that is given the addresses of two servers, of which one leads."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from gpupool.base.client_settings import ClientSettings
from gpupool.base.errors import ExpiredLease, PoolLost, StandbyServer
from gpupool.client import connection, leader
from gpupool.client.transport import Api
from tests.unit.client.scripted_pool import HANG_UP, Request, ScriptedPool, reply


def problem(code: str) -> bytes:
    return reply({"code": code, "detail": "no"}, 503)


def standby(_: Request) -> bytes:
    return problem("GP-5035")


def leads(_: Request) -> bytes:
    return reply({"role": "leader"})


def expired(_: Request) -> bytes:
    return problem("GP-5036")


def both(first: ScriptedPool, second: ScriptedPool) -> Api:
    return Api(
        ClientSettings(
            url=",".join(f"unix://{one.state_dir}/gpupool.sock" for one in (first, second))
        )
    )


def paths(pool: ScriptedPool) -> list[str]:
    return [asked.target for asked in pool.requests]


def test_a_submission_refused_by_a_standby_goes_to_the_leader_and_stays_there(
    tmp_path: Path,
) -> None:
    with (
        ScriptedPool(tmp_path / "a", standby) as first,
        ScriptedPool(tmp_path / "b", leads) as second,
    ):
        api = both(first, second)
        assert api.request("POST", "jobs", {}) == {"role": "leader"}
        api.request("GET", "pool")
        assert (len(first.requests), len(second.requests)) == (1, 2)


def test_a_server_that_is_gone_is_passed_over(tmp_path: Path) -> None:
    with (
        ScriptedPool(tmp_path / "a", standby) as first,
        ScriptedPool(tmp_path / "b", leads) as second,
    ):
        api = both(first, second)
        (tmp_path / "a" / "gpupool.sock").unlink()
        assert api.request("GET", "pool") == {"role": "leader"}


def test_a_broken_request_under_a_key_is_repeated_at_the_other_server(tmp_path: Path) -> None:
    def dies(_: Request) -> bytes:
        (tmp_path / "a" / "gpupool.sock").unlink(missing_ok=True)
        return HANG_UP

    with ScriptedPool(tmp_path / "a", dies) as first, ScriptedPool(tmp_path / "b", leads) as second:
        both(first, second).request("POST", "jobs", {}, idempotency_key="k")
        assert second.requests[0].headers["idempotency-key"] == "k"


def test_an_answer_that_the_lease_cut_off_is_asked_for_again_only_under_a_key(
    tmp_path: Path,
) -> None:
    with (
        ScriptedPool(tmp_path / "a", expired) as first,
        ScriptedPool(tmp_path / "b", leads) as second,
    ):
        with pytest.raises(ExpiredLease):
            both(first, second).request("POST", "jobs", {})
        assert both(first, second).request("POST", "jobs", {}, idempotency_key="k") == {
            "role": "leader"
        }


def test_two_standbys_are_asked_until_the_time_of_a_takeover_is_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leader, "TAKEOVER_SECONDS", 0.3)
    with (
        ScriptedPool(tmp_path / "a", standby) as first,
        ScriptedPool(tmp_path / "b", standby) as second,
    ):
        with pytest.raises(StandbyServer):
            both(first, second).request("GET", "pool")
        assert min(len(first.requests), len(second.requests)) >= 1


def test_a_silent_server_is_given_up_once_another_leads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "LOOK_SECONDS", 0.05)

    def silent(_: Request) -> bytes:
        second.asked.wait(20)
        return HANG_UP

    class Second(ScriptedPool):
        def __init__(self, state_dir: Path) -> None:
            self.asked = threading.Event()
            super().__init__(state_dir, self._lead)

        def _lead(self, asked: Request) -> bytes:
            if asked.target != "/healthz":
                self.asked.set()
            return leads(asked)

    with Second(tmp_path / "b") as second, ScriptedPool(tmp_path / "a", silent) as first:
        assert both(first, second).request("GET", "pool") == {"role": "leader"}
        assert paths(second) == ["/healthz", "/api/v1/pool"]


def test_one_server_that_stands_by_is_said_at_once(tmp_path: Path) -> None:
    with ScriptedPool(tmp_path / "a", standby) as only:
        with pytest.raises(StandbyServer):
            Api(ClientSettings(state_dir=only.state_dir)).request("GET", "pool")
        assert len(only.requests) == 1


def test_addresses_are_all_of_them_in_any_order(tmp_path: Path) -> None:
    with (
        ScriptedPool(tmp_path / "a", standby) as first,
        ScriptedPool(tmp_path / "b", leads) as second,
    ):
        api = both(first, second)
        before = api.addresses
        api.request("GET", "pool")
        assert api.addresses == before


def test_an_agent_is_told_of_a_new_leader_before_it_asks_it(tmp_path: Path) -> None:
    with (
        ScriptedPool(tmp_path / "a", standby) as first,
        ScriptedPool(tmp_path / "b", leads) as second,
    ):
        settings = both(first, second).settings
        api = Api(settings, follow=False)
        with pytest.raises(StandbyServer):
            api.request("GET", "nodes/n/work")
        assert second.requests == []
        assert api.request("PUT", "nodes/n", {}, whole_state=True) == {"role": "leader"}


def test_an_agents_broken_poll_is_not_sent_on_to_another_server(tmp_path: Path) -> None:
    with (
        ScriptedPool(tmp_path / "a", lambda _: HANG_UP) as first,
        ScriptedPool(tmp_path / "b", leads) as second,
    ):
        with pytest.raises(PoolLost):
            Api(both(first, second).settings, follow=False).request("GET", "nodes/n/work")
        assert (len(first.requests), second.requests) == (1, [])
