"""Logins in a browser and by a password through the whole server, with a real OpenID provider."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import urlencode

import pytest

from gpupool.signon.local.passwords import PasswordHashes
from tests.support.api import Answer, RunningApp, running_app
from tests.support.browsers import Browser
from tests.support.identity_provider import SECRET, IdentityProvider

PASSWORD = "four words make sentences"
HOST = "127.0.0.1:8470"


@pytest.fixture(scope="module")
def provider() -> Iterator[IdentityProvider]:
    with IdentityProvider() as running:
        yield running


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory, provider: IdentityProvider) -> Any:
    with running_app(tmp_path_factory.mktemp("pool")) as running:
        running.services.signon.local._hashes = PasswordHashes(passes=1, memory_kib=64)
        admin = running.client()
        settings = provider.settings | {"pool_url": f"http://{HOST}"}
        body = {"oidc": settings, "secret": SECRET}
        assert admin.put("sso/providers/corp", body).status == 200
        rules = {"rules": [{"group": "nlp", "role": "user", "tenant": "default"}]}
        assert admin.put("sso/rules", rules).status == 200
        assert admin.post("users", {"name": "carol"}).status == 201
        assert admin.put("users/carol/password", {"password": PASSWORD}).status == 204
        yield running


def come_back(browser: Browser, provider: IdentityProvider, **begin: str) -> Answer:
    """Log in as a person in a browser does, up to the page that the provider sends back to."""
    begun = browser.get(f"/sso?{urlencode(begin)}")
    assert begun.status == 303
    fields = provider.authorize(begun.headers["location"])
    return browser.get(f"/sso/callback?{urlencode(fields)}")


def test_a_browser_gets_a_session_from_the_provider(
    pool: RunningApp, provider: IdentityProvider
) -> None:
    provider.person = {"sub": "1", "preferred_username": "张伟", "groups": ["nlp"], "sid": "s"}
    browser = Browser(pool)
    back = come_back(browser, provider, **{"return": "/jobs"})
    assert (back.status, back.headers["location"]) == (303, "/jobs")
    caller = browser.get("whoami").json()
    assert (caller["user"], caller["role"]) == ("person", "user")
    earlier = dict(browser.cookies)
    come_back(browser, provider)
    assert Browser(pool, cookies=earlier).get("whoami").status == 401, "each login ends the earlier"
    sent = {"logout_token": provider.make_logout_token(sid="s")}
    ended = pool.client(None).request(
        "POST", "/sso/logout?provider=corp", content=urlencode(sent).encode()
    )
    assert ended.json() == {"ended": 1}
    assert browser.get("whoami").status == 401


def test_a_login_link_of_another_browser_opens_no_session(
    pool: RunningApp, provider: IdentityProvider
) -> None:
    provider.person = {"sub": "2", "preferred_username": "mallory", "groups": ["nlp"]}
    attacker = Browser(pool)
    begun = attacker.get("/sso")
    fields = provider.authorize(begun.headers["location"])
    victim = Browser(pool)
    answer = victim.get(f"/sso/callback?{urlencode(fields)}")
    assert answer.status == 401
    assert b"GP-3041" in answer.body
    assert victim.get("whoami").status == 401


def test_a_person_without_rights_sees_its_groups_as_text(
    pool: RunningApp, provider: IdentityProvider
) -> None:
    provider.person = {"sub": "3", "preferred_username": "bob", "groups": ["<script>x</script>"]}
    browser = Browser(pool)
    answer = come_back(browser, provider)
    assert answer.status == 403
    assert b"&lt;script&gt;x&lt;/script&gt;" in answer.body
    assert b"<script>" not in answer.body
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    chinese = browser.get("/sso/callback", headers={"accept-language": "zh-CN"})
    assert "登录失败" in chinese.body.decode()


def test_a_password_gives_a_page_a_cookie_and_a_program_a_token(pool: RunningApp) -> None:
    body = {"user": "carol", "password": PASSWORD}
    browser = Browser(pool)
    assert browser.post("/login/local", body).status == 204
    assert browser.get("whoami").json()["user"] == "carol"
    earlier = dict(browser.cookies)
    assert browser.post("/login/local", body).status == 204
    assert browser.get("whoami").json()["user"] == "carol"
    assert Browser(pool, cookies=earlier).get("whoami").status == 401, "each login ends the earlier"
    token = pool.client(None).post("/login/local", body).json()["token"]
    assert pool.client(None, token=token).get("whoami").json()["user"] == "carol"
    elsewhere = Browser(pool).post("/login/local", body, origin="https://elsewhere.example")
    assert elsewhere.code == "GP-3060"
    assert pool.client(None).post("/login/local", body | {"password": "x"}).code == "GP-3042"


def test_secrets_of_providers_are_never_answered(pool: RunningApp) -> None:
    admin = pool.client()
    shown = admin.get("sso/providers/corp")
    assert shown.json()["has_secret"] is True
    assert SECRET.encode() not in shown.body + admin.get("sso/providers").body
    kept = admin.put("sso/providers/corp", {"oidc": shown.json()["oidc"]})
    assert kept.json()["has_secret"] is True


def test_a_stranger_sees_the_ways_to_log_in_and_no_more(pool: RunningApp) -> None:
    ways = pool.client(None).get("sso/ways").json()
    assert [(way["name"], way["kind"], way["browser"]) for way in ways] == [
        ("corp", "oidc", True),
        ("local", "local", False),
    ]
    assert all(set(way) == {"name", "kind", "browser", "device", "password"} for way in ways)


def test_two_admins_that_edit_the_rules_at_once_do_not_lose_one(pool: RunningApp) -> None:
    admin = pool.client()
    read = admin.get("sso/rules")
    etag = {"if-match": read.headers["etag"]}
    assert admin.put("sso/rules", read.json(), headers=etag).status == 200
    assert admin.put("sso/rules", read.json(), headers=etag).status == 412
    wrong = {"rules": [{"group": "x", "role": "user", "tenant": "typo"}]}
    assert admin.put("sso/rules", wrong).code == "GP-3004"
    assert admin.get("sso/rules").json() == read.json()


#: Beside what a viewer may: the cards.
OPERATOR_ROUTES = ("devices/adopt", "devices/release")


def test_operator_and_auditor_see_all_tenants_and_no_content(pool: RunningApp) -> None:
    admin = pool.client()
    admin.post("tenants", {"name": "red"})
    admin.post("users", {"name": "red-user", "tenant": "red"})
    for role in ("operator", "auditor"):
        admin.post("users", {"name": f"the-{role}", "role": role})
        client = pool.client(None, token=pool.token(f"the-{role}"))
        assert client.get("users/red-user").status == 200
        assert client.get("tenants/red").status == 200
        assert client.post("users", {"name": "x"}).code == "GP-3002"
        assert client.post("tenants", {"name": "x"}).code == "GP-3002"
        assert client.get("sso/providers").code == "GP-3002"
        for route in OPERATOR_ROUTES:
            refused = client.post(route, {"devices": ["none"]}).code == "GP-3002"
            assert refused == (role == "auditor"), route


def test_a_service_account_has_one_tenant_and_tokens_that_end(pool: RunningApp) -> None:
    admin = pool.client()
    body = {"name": "nightly", "kind": "service"}
    assert admin.post("users", body | {"role": "operator"}).code == "GP-1005"
    assert admin.post("users", body | {"unix_user": "root"}).code == "GP-1005"
    assert admin.post("users", body).json()["kind"] == "service"
    long = {"user": "nightly", "expires_seconds": 366 * 86400}
    assert admin.post("tokens", long).code == "GP-1005"
    made = admin.post("tokens", {"user": "nightly"}).json()
    assert made["expires_ns"] - made["created_ns"] == 365 * 86400 * 10**9


def test_a_limited_token_and_what_comes_of_it_stay_limited(pool: RunningApp) -> None:
    admin = pool.client()
    admin.post("users", {"name": "lead", "role": "tenant-admin"})
    body = {"user": "lead", "scopes": ["read"], "may_mint": True}
    limited = admin.post("tokens", body).json()["token"]
    for token in (
        limited,
        pool.client(None).post("/login", {"token": limited}).json()["token"],
        pool.client(None, token=limited).post("tokens", {}).json()["token"],
    ):
        client = pool.client(None, token=token)
        assert client.get("whoami").json()["permissions"] == ["read"]
        assert client.get("session").json()["permissions"] == ["read"]
        refused = client.post("users", {"name": "x"})
        assert refused.code == "GP-3002"
        assert b"limited to read and may not manage-tenant" in refused.body
    wider = pool.client(None, token=limited).post("tokens", {"scopes": ["run"]})
    assert wider.code == "GP-1005"
    beyond = admin.post("tokens", {"user": "lead", "scopes": ["manage-pool"]})
    assert beyond.code == "GP-1005"
    browser = Browser(pool)
    assert browser.log_in(limited).status == 204
    assert browser.post("users", {"name": "x"}).code == "GP-3002"
