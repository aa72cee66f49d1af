"""The transport against a peer on a real socket: what it sends, how it reads, what it says when the pool is gone."""

from __future__ import annotations

import json
import os
import stat
import threading
from pathlib import Path

import pytest

from gpupool.base.client_settings import ClientSettings, client_settings
from gpupool.base.errors import BadInput, NoRoomNow, NotAllowed, PoolLost, PoolNotRunning
from gpupool.client.transport import Api, Endpoint, endpoints, path_segment
from tests.unit.client.scripted_pool import HANG_UP, Request, ScriptedPool, chunked, reply


def api_of(pool: ScriptedPool) -> Api:
    return Api(ClientSettings(state_dir=pool.state_dir))


def test_a_request_names_route_query_body_and_key(tmp_path: Path) -> None:
    with ScriptedPool(tmp_path, lambda _: reply({"fine": True})) as pool:
        query = {"state": ["a b", "c&d"], "none": None, "all": True}
        assert api_of(pool).request("POST", "jobs", {"x": "ü"}, query=query, idempotency_key="k1") == {"fine": True}
        asked = pool.requests[0]
    assert (asked.method, asked.target) == ("POST", "/api/v1/jobs?state=a%20b&state=c%26d&all=true")
    assert (asked.json, asked.headers["idempotency-key"]) == ({"x": "ü"}, "k1")


def test_a_path_that_begins_with_a_slash_is_taken_as_it_is(tmp_path: Path) -> None:
    with ScriptedPool(tmp_path, lambda _: reply({})) as pool:
        api_of(pool).request("GET", "/healthz")
        assert pool.requests[0].target == "/healthz"


def test_one_connection_serves_many_requests(tmp_path: Path) -> None:
    with ScriptedPool(tmp_path, lambda asked: reply({"n": asked.connection})) as pool:
        api = api_of(pool)
        assert [api.request("GET", "pool")["n"] for _ in range(3)] == [1, 1, 1]


def test_a_connection_that_the_pool_closed_while_idle_is_replaced_even_for_a_submission(tmp_path: Path) -> None:
    gone = threading.Event()

    def answer(asked: Request) -> bytes:
        return reply({"n": asked.connection})

    with ScriptedPool(tmp_path, answer) as pool:
        api = api_of(pool)
        api.request("GET", "pool")
        pool._open[0].shutdown(2)
        gone.wait(0.05)
        assert api.request("POST", "jobs", {})["n"] == 2
        assert len(pool.requests) == 2


def test_a_socket_path_longer_than_sockaddr_un_is_reached(tmp_path: Path) -> None:
    deep = tmp_path / ("x" * 100) / ("y" * 100)
    with ScriptedPool(deep, lambda _: reply([1])) as pool:
        assert api_of(pool).request("GET", "pool") == [1]


def test_a_problem_becomes_the_error_of_its_code_with_hint_and_numbers(tmp_path: Path) -> None:
    problem = {"code": "GP-2003", "detail": "no room", "hint": "wait", "numbers": {"free": 3, "message": "m"}}
    with (
        ScriptedPool(tmp_path, lambda _: reply(problem, 409, kind="application/problem+json")) as pool,
        pytest.raises(NoRoomNow) as caught,
    ):
        api_of(pool).request("POST", "jobs", {})
    assert (caught.value.message, caught.value.hint, caught.value.details["free"]) == ("no room", "wait", 3)


def test_the_code_of_a_newer_pool_is_kept(tmp_path: Path) -> None:
    with (
        ScriptedPool(tmp_path, lambda _: reply({"code": "GP-7777", "detail": "new"}, 409)) as pool,
        pytest.raises(Exception, match="new") as caught,
    ):
        api_of(pool).request("GET", "pool")
    assert caught.value.code == "GP-7777"  # type: ignore[attr-defined]


@pytest.mark.parametrize(("status", "body"), [(502, b"<html>"), (404, b'{"detail": "Not Found"}')])
def test_an_answer_of_something_else_than_a_pool_is_said_to_be_one(tmp_path: Path, status: int, body: bytes) -> None:
    with (
        ScriptedPool(tmp_path, lambda _: reply(body, status)) as pool,
        pytest.raises(PoolLost, match=rf"{status}|broken JSON"),
    ):
        api_of(pool).request("GET", "pool")


def test_an_empty_answer_is_none(tmp_path: Path) -> None:
    with ScriptedPool(tmp_path, lambda _: reply(None, 204)) as pool:
        assert api_of(pool).request("DELETE", "tokens/t") is None


def test_text_that_is_no_json_comes_as_text(tmp_path: Path) -> None:
    with ScriptedPool(tmp_path, lambda _: reply(b"a 1\n", kind="text/plain")) as pool:
        assert api_of(pool).request("GET", "/metrics") == "a 1\n"


def test_a_chunked_answer_is_put_together(tmp_path: Path) -> None:
    with ScriptedPool(tmp_path, lambda _: chunked(b'{"a"', b": 1}", kind="application/json")) as pool:
        assert api_of(pool).request("GET", "pool") == {"a": 1}


def breaks_once(asked: Request) -> bytes:
    return HANG_UP if asked.connection == 1 else reply({"n": asked.connection})


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE"])
def test_what_may_be_repeated_is_sent_again_once(tmp_path: Path, method: str) -> None:
    with ScriptedPool(tmp_path, breaks_once) as pool:
        assert api_of(pool).request(method, "x") == {"n": 2}


def test_a_submission_with_a_key_is_sent_again_with_the_same_key(tmp_path: Path) -> None:
    with ScriptedPool(tmp_path, breaks_once) as pool:
        api_of(pool).request("POST", "jobs", {}, idempotency_key="same")
        assert [asked.headers["idempotency-key"] for asked in pool.requests] == ["same", "same"]


@pytest.mark.parametrize("method", ["PUT", "DELETE"])
def test_a_write_that_is_sent_again_carries_a_key_so_that_it_takes_effect_once(tmp_path: Path, method: str) -> None:
    with ScriptedPool(tmp_path, breaks_once) as pool:
        api_of(pool).request(method, "x", if_match='"3"')
        first, second = (asked.headers["idempotency-key"] for asked in pool.requests)
        assert first == second
        api_of(pool).request(method, "x", if_match='"3"')
        assert pool.requests[-1].headers["idempotency-key"] != first


def test_a_submission_without_a_key_is_never_sent_twice(tmp_path: Path) -> None:
    with ScriptedPool(tmp_path, breaks_once) as pool, pytest.raises(PoolLost, match="closed the connection"):
        api_of(pool).request("POST", "jobs", {})
    assert len(pool.requests) == 1


def test_a_pool_that_always_breaks_off_is_lost_and_not_asked_for_ever(tmp_path: Path) -> None:
    with ScriptedPool(tmp_path, lambda _: HANG_UP) as pool, pytest.raises(PoolLost):
        api_of(pool).request("GET", "pool")
    assert len(pool.requests) == 2


def test_an_answer_that_never_comes_is_given_up(tmp_path: Path) -> None:
    never = threading.Event()

    def answer(_: Request) -> bytes:
        never.wait(5)
        return HANG_UP

    with ScriptedPool(tmp_path, answer) as pool:
        with pytest.raises(PoolLost, match=r"no answer within 0\.1 s"):
            api_of(pool).request("GET", "pool", timeout=0.1)
        never.set()


def test_something_that_speaks_no_http_is_named_so(tmp_path: Path) -> None:
    with (
        ScriptedPool(tmp_path, lambda _: b"SSH-2.0-x\r\n") as pool,
        pytest.raises(PoolLost, match="does not speak HTTP"),
    ):
        api_of(pool).request("GET", "pool")


def test_a_refusal_sent_before_a_large_body_was_read_is_still_heard(tmp_path: Path) -> None:
    refusal = reply({"code": "GP-1011", "detail": "too large"}, 413, "Connection: close\r\n")
    with ScriptedPool(tmp_path, lambda _: refusal) as pool, pytest.raises(BadInput, match="too large"):
        api_of(pool).request("POST", "jobs", {"x": "y" * 1_000_000})


def test_a_stream_gives_whole_objects_however_they_are_cut(tmp_path: Path) -> None:
    answer = chunked(b'{"seq": 1}\n{"se', b'q": 2}\n\n', b"\n")
    with ScriptedPool(tmp_path, lambda _: answer) as pool:
        assert list(api_of(pool).stream("GET", "watch", {"after": 0})) == [{"seq": 1}, {"seq": 2}]


def test_a_stream_that_breaks_off_says_so_after_what_it_had(tmp_path: Path) -> None:
    with ScriptedPool(tmp_path, lambda _: chunked(b'{"seq": 1}\n', end=False)) as pool:
        stream = api_of(pool).stream("GET", "watch")
        assert next(stream) == {"seq": 1}
        with pytest.raises(PoolLost):
            next(stream)


def test_a_refused_stream_raises_the_refusal(tmp_path: Path) -> None:
    with (
        ScriptedPool(tmp_path, lambda _: reply({"code": "GP-3002", "detail": "no"}, 403)) as pool,
        pytest.raises(NotAllowed),
    ):
        next(api_of(pool).stream("GET", "watch"))


def test_a_missing_socket_says_how_to_start_that_pool(tmp_path: Path) -> None:
    with pytest.raises(PoolNotRunning) as caught:
        Api(ClientSettings(state_dir=tmp_path / "none")).request("GET", "pool")
    assert caught.value.hint == f"start one: gpupool up --state-dir {tmp_path / 'none'}"


def test_a_socket_nobody_listens_at_is_a_pool_that_is_not_running(tmp_path: Path) -> None:
    pool = ScriptedPool(tmp_path, lambda _: reply({}))
    pool.stop()
    with pytest.raises(PoolNotRunning):
        api_of(pool).request("GET", "pool")


def test_ones_own_pool_comes_before_the_systems(tmp_path: Path) -> None:
    with ScriptedPool(tmp_path, lambda _: reply({"whose": "own"})):
        assert Api(ClientSettings(own_state_dir=tmp_path)).request("GET", "pool") == {"whose": "own"}


def test_without_any_pool_the_answer_is_how_to_start_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpupool.base.client_settings.SYSTEM_SOCKET_TEXT", str(tmp_path / "system" / "s"))
    with pytest.raises(PoolNotRunning, match="no pool is running here") as caught:
        Api(ClientSettings(own_state_dir=tmp_path)).request("GET", "pool")
    assert caught.value.hint == "start one: gpupool up"


def test_the_order_is_state_directory_url_login_own_pool(tmp_path: Path) -> None:
    login = tmp_path / "login.json"
    login.write_text(json.dumps({"url": "https://saved:1", "token": "t"}))
    everything = {"state_dir": "/s", "url": "http://u:1", "login_file": login, "own_state_dir": "/own"}
    order = []
    for dropped in ("", "state_dir", "url", "login_file"):
        everything.pop(dropped, None)
        order.append(str(endpoints(ClientSettings(**everything))[0]))  # type: ignore[arg-type]
    assert order == ["/s/gpupool.sock", "http://u:1", "https://saved:1", "/own/gpupool.sock"]


def test_an_argument_wins_over_the_environment() -> None:
    environ = {"GPUPOOL_STATE_DIR": "/env", "GPUPOOL_URL": "http://e:1", "HOME": "/h"}
    assert client_settings(environ, state_dir="/arg").state_dir == "/arg"
    assert str(endpoints(client_settings(environ))[0]) == "/env/gpupool.sock"


def test_the_environment_says_where_own_state_and_login_lie() -> None:
    settings = client_settings({"HOME": "/h"}, uid=1000)
    assert (settings.own_state_dir, settings.login_file) == ("/h/.local/state/gpupool", "/h/.config/gpupool/login.json")
    moved = client_settings({"HOME": "/h", "XDG_STATE_HOME": "/s", "XDG_CONFIG_HOME": "/c"}, uid=1000)
    assert (moved.own_state_dir, moved.login_file) == ("/s/gpupool", "/c/gpupool/login.json")
    assert client_settings({"HOME": "/root"}, uid=0).own_state_dir == "/var/lib/gpupool"


def test_a_broken_saved_login_is_said_and_how_to_drop_it(tmp_path: Path) -> None:
    (tmp_path / "login.json").write_text("{")
    with pytest.raises(BadInput, match="cannot be read") as caught:
        endpoints(ClientSettings(login_file=tmp_path / "login.json"))
    assert caught.value.hint == "gpupool login --forget"


@pytest.mark.parametrize(
    ("url", "shown", "base"),
    [
        ("https://h:8443", "https://h:8443", ""),
        ("http://h", "http://h:80", ""),
        ("https://h", "https://h:443", ""),
        ("http://[::1]:8470", "http://::1:8470", ""),
        ("http://h:1/pool/", "http://h:1/pool", "/pool"),
        ("unix:///run/x.sock", "/run/x.sock", ""),
    ],
)
def test_addresses_are_read(url: str, shown: str, base: str) -> None:
    endpoint = Endpoint(url=url)
    assert (str(endpoint), endpoint.base) == (shown, base)


@pytest.mark.parametrize("url", ["host:8443", "ftp://h:1", "http://", "http://h:x", ""])
def test_what_is_no_address_is_refused(url: str) -> None:
    with pytest.raises(BadInput, match="not the address of a pool"):
        Endpoint(url=url)


def test_nothing_typed_can_leave_its_segment_of_the_path() -> None:
    assert path_segment("../x?y#z%41\n") == "..%2Fx%3Fy%23z%2541%0A"
    assert (path_segment(".."), path_segment(".")) == ("%2E%2E", "%2E")


@pytest.mark.skipif(os.getuid() != 0, reason="needs to become somebody else")
def test_a_socket_of_another_user_is_said_to_be_one(tmp_path: Path) -> None:
    with ScriptedPool(tmp_path / "theirs", lambda _: reply({})) as pool:
        (tmp_path / "theirs" / "gpupool.sock").chmod(0o600)
        for folder in (tmp_path, *tmp_path.parents):
            folder.chmod(stat.S_IMODE(folder.stat().st_mode) | 0o111)
        os.seteuid(65534)
        try:
            with pytest.raises(NotAllowed, match="belongs to another user"):
                api_of(pool).request("GET", "pool")
        finally:
            os.seteuid(0)
