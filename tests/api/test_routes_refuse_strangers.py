"""Every route refuses who is not known, and who is known but may not; the routes are taken from the
app itself.

A router that is mounted later is walked too. A route without a permission fails here.
"""

import pytest

from gpupool.model.tenant import PERMISSIONS, Permission, UserRole
from gpupool.tenancy.tables import tokens
from tests.support.api import Client, RunningApp
from tests.support.routes import OPEN, closed, walk

EVERY_METHOD = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")


def refused(client: Client, method: str, address: str) -> tuple[int, str | None]:
    body = None if method in ("GET", "HEAD", "OPTIONS", "DELETE") else {}
    answer = client.request(method, address, json_body=body)
    return answer.status, answer.code


def test_the_walk_finds_the_routes_of_every_room(pool: RunningApp) -> None:
    tags = {tag for route in walk(pool) for tag in route.tags}
    assert {"doors", "pool", "tenancy", "fleet", "metering", "jobs"} <= tags
    assert len(closed(pool)) >= 35


def test_the_open_routes_are_the_only_ones_without_a_permission(pool: RunningApp) -> None:
    assert {(r.method, r.path) for r in walk(pool) if not r.permissions} == OPEN


def test_every_route_declares_exactly_one_permission(pool: RunningApp) -> None:
    assert [r for r in closed(pool) if len(set(r.permissions)) != 1] == []


def test_every_route_says_what_it_does_and_where_it_belongs(pool: RunningApp) -> None:
    assert [r for r in closed(pool) if not r.description or not r.tags] == []


def test_a_stranger_is_refused_on_every_route_and_with_every_method(pool: RunningApp) -> None:
    stranger = pool.client(None)
    for address in sorted({route.address for route in closed(pool)}):
        for method in EVERY_METHOD:
            assert refused(stranger, method, address) == (401, "GP-3001"), (method, address)


def test_a_stranger_cannot_tell_which_routes_there_are(pool: RunningApp) -> None:
    stranger = pool.client(None)
    for address in (
        "/nothing",
        "/api/v1/nothing",
        "/api/v1",
        "/docs",
        "/login/",
        "/healthz/",
        "//healthz",
        "/services/web/",
    ):
        assert refused(stranger, "GET", address) == (401, "GP-3001"), address


def test_the_open_routes_answer_a_stranger(pool: RunningApp) -> None:
    stranger = pool.client(None)
    assert stranger.get("/healthz").json()["ready"] is True
    assert stranger.get("/openapi.json").json()["openapi"].startswith("3.")
    assert stranger.post("/login", {"token": "nothing"}).code == "GP-3001"
    assert stranger.get("/login").status == 405


def test_a_refusal_says_what_to_do_and_in_what_way(pool: RunningApp) -> None:
    answer = pool.client(None).get("whoami")
    assert answer.headers["www-authenticate"] == "Bearer"
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["hint"]


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "name", ["malformed", "unknown", "of another secret", "revoked", "expired", "one-time"]
)
def test_a_token_that_is_no_good_is_refused_on_every_route(
    pool: RunningApp, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The brake would make the many failures of this test take minutes; it has tests of its own.
    monkeypatch.setattr(pool.app.state.brake, "LONGEST_SECONDS", 0.0)
    caller = pool.client(None, token=bad_tokens(pool)[name])
    for route in closed(pool):
        assert refused(caller, route.method, route.address) == (401, "GP-3001"), route


def bad_tokens(pool: RunningApp) -> dict[str, str]:
    admin = pool.client()
    good, revoked, expired = (
        pool.token("root", label=label) for label in ("good", "revoked", "expired")
    )
    once = admin.post("tokens?once=true", {"user": "root"}).json()["token"]
    assert admin.delete(f"tokens/{revoked.split('_')[1]}").status == 204
    with pool.store.write() as write:
        mine = tokens.c.id == expired.split("_")[1]
        write.execute(tokens.update().where(mine).values(expires_ns=write.now_ns))
    return {
        "malformed": "gpp_x",
        "unknown": f"gpp_t-0000000000_{'0' * 64}",
        "of another secret": good[:-1] + ("0" if good[-1] != "0" else "1"),
        "revoked": revoked,
        "expired": expired,
        "one-time": once,
    }


@pytest.mark.sampled(3)
@pytest.mark.parametrize("role", list(UserRole))
def test_a_role_is_refused_exactly_where_it_lacks_the_permission(
    pool: RunningApp, callers: dict[UserRole, Client], role: UserRole
) -> None:
    for route in closed(pool):
        if route.path.endswith("/watch"):
            continue  # a stream without an end; its refusal is the next test's
        status, code = refused(callers[role], route.method, route.address)
        allowed = set(route.permissions) <= PERMISSIONS[role]
        # What is refused for the shape of its body is refused before its permission is asked for.
        assert (code == "GP-3002") == (not allowed and status != 422), (route, status, code)


@pytest.mark.parametrize(
    "role", [role for role in UserRole if Permission.READ not in PERMISSIONS[role]]
)
def test_a_role_that_may_not_read_may_not_watch(
    callers: dict[UserRole, Client], role: UserRole
) -> None:
    assert callers[role].get("watch").code == "GP-3002"


def test_a_bearer_token_wins_over_the_unix_user(pool: RunningApp) -> None:
    pool.client().post("users", {"name": "beatrix", "role": "viewer"})
    both = pool.client(token=pool.token("beatrix"))
    answer = both.get("whoami").json()
    assert (answer["user"], answer["role"], answer["local"]) == ("beatrix", "viewer", True)


def test_a_wrong_token_is_not_excused_by_the_unix_socket(pool: RunningApp) -> None:
    assert pool.client(token="gpp_x").get("whoami").code == "GP-3001"


@pytest.mark.parametrize("header", ["Basic cm9vdDpyb290", "Bearer", "", "Bearer  "])
def test_another_kind_of_login_is_refused_also_on_the_unix_socket(
    pool: RunningApp, header: str
) -> None:
    assert pool.client().get("whoami", headers={"Authorization": header}).code == "GP-3001"


def test_a_service_is_called_by_those_who_may_run_jobs(
    pool: RunningApp, callers: dict[UserRole, Client]
) -> None:
    book = pool.services.serving.controller.book
    # In place of the controller, which sees a service that was just made.
    book.ask_look = lambda: pool.loop.call_soon_threadsafe(book.publish, [])
    for role, client in callers.items():
        may_run = Permission.RUN in PERMISSIONS[role]
        wanted = (404, "GP-2251") if may_run else (403, "GP-3002")
        assert refused(client, "GET", "/services/web/v1") == wanted, role
        assert refused(client, "POST", "/services/web/v1") == wanted, role
