"""The transport against a peer on a real socket: what it sends, how it reads, what it says when the
pool is gone."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from gpupool.base.client_settings import ClientSettings
from gpupool.base.errors import BadInput, NoPermission, NoRoomNow, PoolLost
from gpupool.client.transport import Api
from tests.unit.client.scripted_pool import HANG_UP, Request, ScriptedPool, chunked, reply


def api_of(pool: ScriptedPool) -> Api:
    return Api(ClientSettings(state_dir=pool.state_dir))


def test_a_request_names_route_query_body_and_key(tmp_path: Path) -> None:
    with ScriptedPool(tmp_path, lambda _: reply({"fine": True})) as pool:
        query = {"state": ["a b", "c&d"], "none": None, "all": True}
        assert api_of(pool).request(
            "POST", "jobs", {"x": "ü"}, query=query, idempotency_key="k1"
        ) == {"fine": True}
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


def test_a_connection_that_the_pool_closed_while_idle_is_replaced_even_for_a_submission(
    tmp_path: Path,
) -> None:
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


def test_a_problem_becomes_the_error_of_its_code_with_hint_and_numbers(tmp_path: Path) -> None:
    problem = {
        "code": "GP-2003",
        "detail": "no room",
        "hint": "wait",
        "numbers": {"free": 3, "message": "m"},
    }
    with (
        ScriptedPool(
            tmp_path, lambda _: reply(problem, 409, kind="application/problem+json")
        ) as pool,
        pytest.raises(NoRoomNow) as caught,
    ):
        api_of(pool).request("POST", "jobs", {})
    assert (caught.value.message, caught.value.hint, caught.value.details["free"]) == (
        "no room",
        "wait",
        3,
    )


def test_the_code_of_a_newer_pool_is_kept(tmp_path: Path) -> None:
    with (
        ScriptedPool(tmp_path, lambda _: reply({"code": "GP-7777", "detail": "new"}, 409)) as pool,
        pytest.raises(Exception, match="new") as caught,
    ):
        api_of(pool).request("GET", "pool")
    assert caught.value.code == "GP-7777"  # type: ignore[attr-defined]


@pytest.mark.parametrize(("status", "body"), [(502, b"<html>"), (404, b'{"detail": "Not Found"}')])
def test_an_answer_of_something_else_than_a_pool_is_said_to_be_one(
    tmp_path: Path, status: int, body: bytes
) -> None:
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
    with ScriptedPool(
        tmp_path, lambda _: chunked(b'{"a"', b": 1}", kind="application/json")
    ) as pool:
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
def test_a_write_that_is_sent_again_carries_a_key_so_that_it_takes_effect_once(
    tmp_path: Path, method: str
) -> None:
    with ScriptedPool(tmp_path, breaks_once) as pool:
        api_of(pool).request(method, "x", if_match='"3"')
        first, second = (asked.headers["idempotency-key"] for asked in pool.requests)
        assert first == second
        api_of(pool).request(method, "x", if_match='"3"')
        assert pool.requests[-1].headers["idempotency-key"] != first


def test_a_submission_without_a_key_is_never_sent_twice(tmp_path: Path) -> None:
    with (
        ScriptedPool(tmp_path, breaks_once) as pool,
        pytest.raises(PoolLost, match="closed the connection"),
    ):
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
    with (
        ScriptedPool(tmp_path, lambda _: refusal) as pool,
        pytest.raises(BadInput, match="too large"),
    ):
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
        pytest.raises(NoPermission),
    ):
        next(api_of(pool).stream("GET", "watch"))
