"""The brake on failing logins, and what the layer of identity makes of a request."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Annotated, Any

import pytest
from fastapi import Depends, WebSocket

from gpupool.base.errors import TooManyLogins
from gpupool.model.tenant import Permission, Principal, UserRole
from gpupool.server.middleware.auth import (
    LOOK_AGAIN_SECONDS,
    SOURCES_KNOWN,
    WAITING_AT_MOST,
    CallerRecheck,
    LoginBrake,
)
from gpupool.tenancy.access import PEER_EXTENSION, PeerProcess, require_caller
from tests.support.api import Answer, running_app
from tests.support.browsers import Browser

ANNA = Principal(1, "anna", 1, "red", UserRole.USER)


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_the_first_failures_are_answered_at_once_and_later_ones_ever_slower() -> None:
    brake = LoginBrake(Clock())
    seconds = [brake.note_failure("uid 1") for _ in range(12)]
    assert seconds[:5] == [0.0] * 5
    assert seconds[5:] == sorted(seconds[5:])
    assert seconds[5] == pytest.approx(0.2)
    assert seconds[-1] == 2.0


def test_one_who_fails_slows_down_nobody_else() -> None:
    brake = LoginBrake(Clock())
    for _ in range(20):
        brake.note_failure("uid 1")
    assert brake.note_failure("uid 2") == 0.0


def test_a_minute_without_failures_is_forgiven() -> None:
    clock = Clock()
    brake = LoginBrake(clock)
    for _ in range(20):
        brake.note_failure("uid 1")
    clock.now = 60.0
    assert brake.note_failure("uid 1") == 0.0


def test_the_brake_remembers_a_bounded_number_of_sources() -> None:
    brake = LoginBrake(Clock())
    for n in range(10 * SOURCES_KNOWN):
        brake.note_failure(f"192.0.2.{n}")
    assert len(brake._failures) == SOURCES_KNOWN


def test_a_source_that_fails_on_is_locked_for_a_while_and_loopback_never() -> None:
    clock = Clock()
    brake = LoginBrake(clock)
    for source in ("192.0.2.1", "127.0.0.1", "::1"):
        for _ in range(LoginBrake.LOCK_AFTER - 1):
            brake.note_failure(f"login from {source}")
        brake.check_lock(source)
        brake.note_failure(f"login from {source}")
    for source in ("127.0.0.1", "::1", "192.0.2.2"):
        brake.check_lock(source)
    with pytest.raises(TooManyLogins) as refusal:
        brake.check_lock("192.0.2.1")
    assert refusal.value.details == {"failures": 50, "retry_after_seconds": 300}
    clock.now = LoginBrake.LOCK_SECONDS - 1
    with pytest.raises(TooManyLogins):
        brake.check_lock("192.0.2.1")
    clock.now = LoginBrake.LOCK_SECONDS
    brake.check_lock("192.0.2.1")
    assert brake.note_failure("login from 192.0.2.1") == 0.0


def test_requests_of_an_ended_session_lock_no_logins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LoginBrake, "LONGEST_SECONDS", 0.0)
    with running_app(tmp_path) as pool:
        ended = Browser(pool, cookies={"gpupool-8470": "gps_x"})
        for _ in range(LoginBrake.LOCK_AFTER + 1):
            assert ended.get("whoami").status == 401
            assert pool.client(None, token="gpp_x").get("whoami").status == 401
        assert ended.log_in(pool.token("root")).status == 204


def test_no_more_than_a_few_are_kept_waiting() -> None:
    async def storm() -> tuple[int, int]:
        brake = LoginBrake(Clock())
        brake.LONGEST_SECONDS = 30.0  # type: ignore[misc]
        for _ in range(20):
            brake.note_failure("uid 1")
        waiting = [asyncio.create_task(brake.hold("uid 1")) for _ in range(WAITING_AT_MOST + 50)]
        turns = 0
        while sum(task.done() for task in waiting) < 50:
            await asyncio.sleep(0)
            turns += 1
        held = sum(not task.done() for task in waiting)
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        assert brake._waiting == 0
        return turns, held

    turns, held = asyncio.run(storm())
    assert held == WAITING_AT_MOST
    assert turns < 10, "those beyond the limit do not wait at all"


def test_failing_logins_are_held_back_and_a_right_one_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    held, failed = list[float](), LoginBrake.note_failure

    def noted(brake: LoginBrake, source: str) -> float:
        held.append(failed(brake, source))
        return held[-1]

    monkeypatch.setattr(LoginBrake, "note_failure", noted)
    monkeypatch.setattr(LoginBrake, "LONGEST_SECONDS", 0.01)
    with running_app(tmp_path) as pool:
        stranger = pool.client(None)
        for _ in range(8):
            assert stranger.post("/login", {"token": "gpp_x"}).status == 401
        assert held == [0.0] * LoginBrake.FREE + [0.01] * 3
        assert stranger.post("/login", {"token": pool.token("root")}).status == 200
        assert len(held) == 8


def test_a_session_from_a_login_is_a_bearer_token(tmp_path: Path) -> None:
    with running_app(tmp_path) as pool:
        session = pool.client(None).post("/login", {"token": pool.token("root")}).json()
        caller = pool.client(None, token=session["token"])
        assert caller.get("whoami").json()["user"] == session["user"] == "root"
        assert caller.get("whoami").json()["local"] is False
        assert caller.delete(f"tokens/{session['token'].split('_')[1]}").status == 204
        assert caller.get("whoami").status == 401


def test_a_quota_has_an_etag_that_a_change_must_match(tmp_path: Path) -> None:
    with running_app(tmp_path) as pool:
        admin = pool.client()
        etag = admin.get("tenants/default/quota").headers["etag"]
        changed = admin.put(
            "tenants/default/quota", {"nominal_milli": 5}, headers={"If-Match": etag}
        )
        assert changed.status == 200
        stale = admin.put("tenants/default/quota", {"nominal_milli": 6}, headers={"If-Match": etag})
        assert (stale.status, stale.code) == (412, "GP-4001")
        assert admin.put("tenants/default/quota", {}, headers={"If-Match": "W/x"}).code == "GP-1005"
        assert admin.get("tenants/default/quota").json()["nominal_milli"] == 5


def test_the_pool_counts_what_it_has(tmp_path: Path) -> None:
    with running_app(tmp_path) as pool:
        found = pool.client().get("pool").json()
        assert (found["id"], found["store"], found["nodes"], found["simulated"]) == (
            "p-test",
            "sqlite",
            0,
            None,
        )
        card = {"uuid": "GPU-1", "index": 0, "vendor": "nvidia", "product": "H200", "model": "H200"}
        card |= {"memory_bytes": 141 << 30, "simulated": True}
        assert (
            pool.client().put("nodes/node-1", {"devices": [card], "simulated": True}).status == 200
        )
        found = pool.client().get("pool").json()
        assert (found["nodes"], found["devices"], found["simulated"], found["ready"]) == (
            1,
            1,
            True,
            False,
        )
        assert pool.client(None).get("/healthz").json()["ready"] is False


async def _handshake(app: Any, scope: dict[str, Any]) -> list[dict[str, Any]]:
    """What a WebSocket's caller is sent for its handshake."""
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return {"type": "websocket.connect"}

    async def send(message: Any) -> None:
        sent.append(message)

    await app(scope, receive, send)
    return sent


def websocket(path: str, *, token: str | None = None, uid: int | None = None) -> dict[str, Any]:
    return {
        "type": "websocket",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "root_path": "",
        "scheme": "ws",
        "subprotocols": [],
        "headers": [(b"authorization", f"Bearer {token}".encode())] if token else [],
        "client": ("192.0.2.1", 4000),
        "extensions": {} if uid is None else {PEER_EXTENSION: PeerProcess(1, uid, uid, ())},
    }


async def _opens(
    websocket: WebSocket, caller: Annotated[Principal, Depends(require_caller(Permission.RUN))]
) -> None:
    await websocket.accept()
    await websocket.close(reason=caller.user)


@pytest.mark.parametrize("path", ["/opens", "/healthz", "/nothing"])
@pytest.mark.parametrize("credential", ["none", "wrong", "revoked"])
def test_a_websocket_without_a_credential_is_closed_before_it_opens(
    tmp_path: Path, path: str, credential: str
) -> None:
    with running_app(tmp_path) as pool:
        pool.app.add_api_websocket_route("/opens", _opens)
        revoked = pool.token("root")
        assert pool.client().delete(f"tokens/{revoked.split('_')[1]}").status == 204
        token = {"none": None, "wrong": "gpp_x", "revoked": revoked}[credential]
        done = asyncio.run_coroutine_threadsafe(
            _handshake(pool.app, websocket(path, token=token)), pool.loop
        )
        sent = done.result(30)
    assert [(one["type"], one["code"], one["reason"][:7]) for one in sent] == [
        ("websocket.close", 1008, "GP-3001")
    ]


def test_a_websocket_knows_its_caller_and_its_route_asks_for_the_permission(tmp_path: Path) -> None:
    with running_app(tmp_path) as pool:
        pool.app.add_api_websocket_route("/opens", _opens)
        for name, role in (("runner", "user"), ("looker", "viewer")):
            assert pool.client().post("users", {"name": name, "role": role}).status == 201
        outcomes = {}
        for name, scope in {
            "runner": websocket("/opens", token=pool.token("runner")),
            "looker": websocket("/opens", token=pool.token("looker")),
            "root": websocket("/opens", uid=0),
        }.items():
            done = asyncio.run_coroutine_threadsafe(_handshake(pool.app, scope), pool.loop)
            outcomes[name] = [(one["type"], one.get("reason", "")) for one in done.result(30)]
    assert outcomes["runner"] == [("websocket.accept", ""), ("websocket.close", "runner")]
    assert outcomes["root"] == [("websocket.accept", ""), ("websocket.close", "root")]
    assert "websocket.accept" not in [kind for kind, _ in outcomes["looker"]]


def test_a_websocket_of_a_session_needs_the_origin_of_the_console(tmp_path: Path) -> None:
    with running_app(tmp_path) as pool:
        pool.app.add_api_websocket_route("/opens", _opens)
        browser = Browser(pool)
        browser.log_in(pool.token("root"))
        outcomes = {}
        for origin in (browser.origin, "https://evil.example.org", None):
            sent = browser.headers("GET") | ({} if origin is None else {"origin": origin})
            scope = websocket("/opens")
            scope["headers"] = [(name.encode(), text.encode()) for name, text in sent.items()]
            done = asyncio.run_coroutine_threadsafe(_handshake(pool.app, scope), pool.loop)
            outcomes[origin] = [(one["type"], one.get("reason", "")[:7]) for one in done.result(30)]
    assert outcomes.pop(browser.origin) == [("websocket.accept", ""), ("websocket.close", "root")]
    assert set(map(tuple, outcomes.values())) == {(("websocket.close", "GP-3060"),)}


def test_a_connection_of_an_unknown_kind_is_not_let_through(tmp_path: Path) -> None:
    with running_app(tmp_path) as pool:
        scope = {**websocket("/opens", uid=0), "type": "webtransport"}
        done = asyncio.run_coroutine_threadsafe(_handshake(pool.app, scope), pool.loop)
        with pytest.raises(RuntimeError, match="webtransport"):
            done.result(30)


@pytest.mark.parametrize("end", ["revoked", "disabled"])
def test_a_stream_and_a_waiting_answer_end_with_their_token(tmp_path: Path, end: str) -> None:
    with running_app(tmp_path) as pool:
        admin = pool.client()
        assert admin.post("users", {"name": "worker"}).status == 201
        token = pool.token("worker")
        waiting = threading.Event()
        worker = pool.client(None, token=token)
        with worker.stream("watch") as stream, ThreadPoolExecutor(1) as aside:
            stream.piece()

            def wait() -> Answer:
                waiting.set()
                return worker.get("slow")

            async def slow(
                _caller: Annotated[Principal, Depends(require_caller(Permission.READ))],
            ) -> int:
                await asyncio.to_thread(going.wait, 30)
                return 1

            going = threading.Event()
            pool.app.add_api_route("/api/v1/slow", slow)
            told = aside.submit(wait)
            waiting.wait(30)
            assert worker.get("whoami").status == 200
            if end == "revoked":
                assert admin.delete(f"tokens/{token.split('_')[1]}").status == 204
            else:
                assert admin.patch("users/worker", {"disabled": True}).status == 200
            going.set()
            assert told.result(30).code == "GP-3001"
            stream.ended()


def test_an_open_answer_looks_its_caller_up_after_changes_and_now_and_then() -> None:
    clock = Clock()
    epoch = 7
    looked = 0

    async def identify() -> Principal:
        nonlocal looked
        looked += 1
        return ANNA

    async def scenario() -> list[int]:
        nonlocal epoch
        recheck = CallerRecheck(identify, lambda: epoch, ANNA, epoch, clock)
        counts = []
        for change, seconds in ((0, 0.0), (0, 0.1), (1, 0.0), (0, 0.0), (0, LOOK_AGAIN_SECONDS)):
            epoch += change
            clock.now += seconds
            assert await recheck() == ANNA
            counts.append(looked)
        return counts

    assert asyncio.run(scenario()) == [0, 0, 1, 1, 2]
