"""Sessions of browsers over the whole app: login, requests from pages, and what ends a session."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gpupool.server.middleware.auth import LoginBrake
from tests.support.api import RunningApp, running_app
from tests.support.browsers import Browser
from tests.support.routes import closed


@pytest.fixture
def browser(pool: RunningApp) -> Browser:
    """A browser that is logged in as the owner."""
    made = Browser(pool)
    assert made.log_in(pool.token("root")).status == 204
    return made


def test_a_login_of_a_page_sets_a_cookie_and_says_nothing_else(pool: RunningApp) -> None:
    browser = Browser(pool)
    answer = browser.log_in(pool.token("root"))
    assert (answer.status, answer.body) == (204, b"")
    assert list(browser.cookies) == ["gpupool-8470"]
    assert browser.attributes == "Path=/; Max-Age=43200; HttpOnly; SameSite=Lax"
    found = browser.get("session").json()
    assert (found["user"], found["role"], found["credential"]) == ("root", "admin", "cookie")
    assert found["csrf"] == {"header": "X-Gpupool", "value": "1"}
    assert found["expires_ns"] - found["created_ns"] == 12 * 3600 * 10**9


def test_a_login_over_https_sets_a_cookie_of_its_host_alone(pool: RunningApp) -> None:
    browser = Browser(pool, "gpu.example.org", "https")
    assert browser.log_in(pool.token("root")).status == 204
    assert list(browser.cookies) == ["__Host-gpupool"]
    assert browser.attributes.endswith("Secure")
    assert browser.get("whoami").json()["user"] == "root"


def test_a_login_in_the_clear_beyond_loopback_is_refused(pool: RunningApp) -> None:
    browser = Browser(pool, "gpu.example.org:8470", "http")
    token = pool.token("root")
    assert browser.log_in(token).code == "GP-3060"
    assert Browser(pool).log_in(token).status == 204


def test_a_login_from_a_page_of_another_origin_is_refused(pool: RunningApp) -> None:
    answer = Browser(pool).log_in(pool.token("root"), origin="https://evil.example.org")
    assert (answer.status, answer.code) == (403, "GP-3060")


def test_a_program_that_logs_in_still_gets_a_token(pool: RunningApp) -> None:
    answer = pool.client(None).post("/login", {"token": pool.token("root")})
    assert answer.json()["token"].startswith("gpp_")
    assert "set-cookie" not in answer.headers


def test_the_link_of_the_console_logs_in_once(pool: RunningApp) -> None:
    link = pool.client().post("console").json()
    assert link["url"].startswith(f"{link['address']}/login#token=gpp_t-")
    token = link["url"].partition("#token=")[2]
    browser = Browser(pool)
    assert browser.log_in(token).status == 204
    assert browser.get("whoami").json()["user"] == "root"
    assert Browser(pool).log_in(token).code == "GP-3001"


def test_a_session_acts_from_pages_of_the_console_alone(browser: Browser) -> None:
    assert browser.post("tenants", {"name": "made-by-page"}).status == 201
    for options in (
        {"origin": "https://evil.example.org"},
        {"origin": None},
        {"page": None},
        {"origin": "null", "page": None},
    ):
        answer = browser.post("tenants", {"name": "forged"}, **options)
        assert (answer.status, answer.code) == (403, "GP-3060"), options
    assert browser.get("tenants/forged").status == 404


def test_a_handshake_of_a_session_is_taken_from_the_console_alone(browser: Browser) -> None:
    handshake = {
        "upgrade": "websocket",
        "sec-websocket-version": "13",
        "sec-websocket-key": "dGhlIHNhbXBsZSBub25jZQ==",
    }
    # An unknown stream, or a server without connections to take over: the caller is not refused.
    answer = browser.get("streams/s-1", headers={**handshake, "origin": browser.origin})
    assert answer.status in (400, 404)
    for origin in ({"origin": "https://evil.example.org"}, {"origin": "null"}, {}):
        answer = browser.get("streams/s-1", headers={**handshake, **origin})
        assert (answer.status, answer.code) == (403, "GP-3060"), origin


def test_a_session_of_the_consoles_link_runs_jobs_as_its_account(pool: RunningApp) -> None:
    link = pool.client().post("console").json()["url"]
    browser = Browser(pool)
    assert browser.log_in(link.partition("#token=")[2]).status == 204
    job = {"shape": {"gpu_milli": 100}, "launch": {"argv": ["true"]}}
    # Root's account counts on the console's own listener alone; this is another one.
    assert browser.post("jobs", job).code == "GP-2005"


def test_a_refused_forgery_is_refused_for_every_method(pool: RunningApp, browser: Browser) -> None:
    for route in closed(pool):
        if route.method in ("GET", "WEBSOCKET"):
            continue
        answer = browser.request(route.method, route.address, {}, origin="https://evil.example.org")
        assert answer.code == "GP-3060", route


def test_a_cookie_and_a_token_in_one_request_are_refused(
    pool: RunningApp, browser: Browser
) -> None:
    sent = {"authorization": f"Bearer {pool.token('root')}"}
    answer = browser.get("whoami", headers=sent)
    assert (answer.status, answer.code) == (400, "GP-3061")


def test_a_cookie_counts_for_nothing_on_the_unix_socket(pool: RunningApp, browser: Browser) -> None:
    local = pool.client(4711)
    answer = local.get("whoami", headers=browser.headers("GET"))
    assert answer.json()["user"] == "uid-4711"
    refused = local.post("/login", {"token": pool.token("root")}, headers={"X-Gpupool": "1"})
    assert refused.status == 400


def test_a_logout_ends_the_session_and_removes_the_cookie(pool: RunningApp) -> None:
    browser = Browser(pool)
    browser.log_in(pool.token("root"))
    stolen = Browser(pool, cookies=dict(browser.cookies))
    assert browser.post("/logout", origin="https://evil.example.org").code == "GP-3060"
    assert browser.post("/logout").status == 204
    assert browser.cookies == {}
    assert stolen.get("whoami").code == "GP-3001"
    # A page whose session has ended meanwhile can still leave.
    assert stolen.post("/logout").status == 204
    assert Browser(pool).post("/logout").status == 204


def test_a_planted_cookie_is_worth_nothing_after_a_login(pool: RunningApp) -> None:
    attacker = Browser(pool)
    attacker.log_in(pool.token("root"))
    victim = Browser(pool, cookies=dict(attacker.cookies))
    victim.log_in(pool.token("root"))
    assert victim.cookies != attacker.cookies
    assert attacker.get("whoami").code == "GP-3001"
    assert victim.get("whoami").status == 200


@pytest.mark.parametrize("text", ["", "x", "gps_s-0000000000_" + "0" * 64, "gpp_x", "é" * 40])
def test_a_cookie_that_is_none_of_ours_logs_nobody_in(
    pool: RunningApp, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool.app.state.brake, "LONGEST_SECONDS", 0.0)
    browser = Browser(pool, cookies={"gpupool-8470": text})
    assert browser.get("whoami").code == "GP-3001"


def test_a_stream_of_a_session_ends_with_it(pool: RunningApp) -> None:
    browser = Browser(pool)
    browser.log_in(pool.token("root"))
    with browser.client().stream("watch") as stream:
        stream.piece()
        [mine] = [row for row in browser.get("sessions").json()["items"] if row["current"]]
        assert pool.client().delete(f"sessions/{mine['id']}").status == 204
        stream.ended()
    assert browser.get("whoami").code == "GP-3001"


def test_answers_to_a_session_are_not_stored(browser: Browser) -> None:
    assert browser.get("whoami").headers["cache-control"] == "private, no-cache"


def test_the_language_is_the_browsers(browser: Browser) -> None:
    sent = {"accept-language": "fr, zh-CN;q=0.9, en;q=0.5"}
    assert browser.get("session", headers=sent).json()["language"] == "zh"
    assert browser.get("session").json()["language"] == "en"


def test_sessions_outlast_the_server(tmp_path: Path) -> None:
    with running_app(tmp_path) as first:
        browser = Browser(first)
        browser.log_in(first.token("root"))
    with running_app(tmp_path) as second:
        again = Browser(second, cookies=browser.cookies)
        assert again.get("whoami").json()["user"] == "root"


def test_logins_of_a_source_that_fails_on_are_refused_unread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LoginBrake, "LONGEST_SECONDS", 0.0)
    with running_app(tmp_path) as pool:
        before = Browser(pool)
        before.log_in(pool.token("root"))
        for _ in range(LoginBrake.LOCK_AFTER):
            assert Browser(pool).log_in("gpp_x").code == "GP-3001"
        refused = Browser(pool).log_in(pool.token("root"))
        assert (refused.status, refused.code) == (429, "GP-3062")
        assert 0 < int(refused.headers["retry-after"]) <= LoginBrake.LOCK_SECONDS
        assert before.get("whoami").status == 200
        assert pool.client().post("/login", {"token": pool.token("root")}).status == 200


def test_an_event_names_the_user_of_a_login_and_nothing_secret(
    pool: RunningApp, browser: Browser
) -> None:
    assert browser.cookies
    events = pool.client().get("events", params={"limit": 1000}).json()
    opened = [one for one in events if one["kind"] == "session.opened"]
    assert opened[-1]["data"] == {"user": "root"}
    assert "gps_" not in json.dumps(events)
    assert "192.0.2.1" not in json.dumps(events)


def test_the_list_says_where_a_login_came_from(pool: RunningApp, browser: Browser) -> None:
    browser.log_in(pool.token("root"), headers={"user-agent": "Fire\tfox"})
    [mine] = [row for row in browser.get("sessions").json()["items"] if row["current"]]
    assert (mine["address"], mine["browser"]) == ("192.0.2.1", "Fire?fox")
