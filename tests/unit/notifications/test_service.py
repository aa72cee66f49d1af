"""Subscriptions: whose they are, and what is refused."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from gpupool.notifications.service import MOST_SUBSCRIPTIONS
from gpupool.notifications.tables import deliveries
from gpupool.tenancy.tables import tenants, users
from tests.support.api import Client, RunningApp, running_app

ALICE, BOB = 4001, 4002
MAIL = {"name": "me", "format": "mail", "address": "ada@example.com", "topics": ["job-failed"]}
HOOK = MAIL | {"format": "webhook", "address": "https://hooks.example/SECRET/PATH"}


@pytest.fixture
def pool(tmp_path: Path) -> Iterator[RunningApp]:
    with running_app(tmp_path) as pool:
        yield pool


def names(client: Client) -> list[str]:
    return [one["name"] for one in client.get("subscriptions").json()]


def test_a_subscription_is_its_owners_alone(pool: RunningApp) -> None:
    alice, bob = pool.client(uid=ALICE), pool.client(uid=BOB)
    assert alice.post("subscriptions", MAIL).status == 201
    assert (names(alice), names(bob), names(pool.client())) == (["me"], [], ["me"])
    assert bob.get("subscriptions/me").code == "GP-3048"
    assert bob.delete("subscriptions/me").code == "GP-3048"
    assert bob.post("subscriptions", MAIL).status == 201
    assert alice.post("subscriptions", MAIL).code == "GP-2006"
    owner = alice.get("whoami").json()["user"]
    assert pool.client().request("DELETE", "subscriptions/me", params={"user": owner}).status == 204
    assert names(alice) == []


def test_a_user_of_the_same_name_inherits_no_subscription(pool: RunningApp) -> None:
    admin = pool.client()
    for name in ("eve", "kim"):
        assert admin.post("users", {"name": name}).status == 201
        mine = pool.client(uid=None, token=pool.token(name)).post("subscriptions", MAIL)
        assert mine.status == 201
    assert admin.delete("users/eve").status == 204
    assert [one["user"] for one in admin.get("subscriptions").json()] == ["kim"]
    assert admin.post("users", {"name": "eve"}).status == 201
    assert names(pool.client(uid=None, token=pool.token("eve"))) == []


def test_a_user_that_changed_its_tenant_is_not_seen_from_the_earlier_one(pool: RunningApp) -> None:
    admin = pool.client()
    assert admin.post("tenants", {"name": "vision"}).status == 201
    for name, role in (("mover", "user"), ("boss", "tenant-admin")):
        admin.post("users", {"name": name, "tenant": "default", "role": role})
    admin.post("users", {"name": "chief", "tenant": "vision", "role": "tenant-admin"})
    mover, boss, chief = (
        pool.client(uid=None, token=pool.token(name)) for name in ("mover", "boss", "chief")
    )
    assert mover.post("subscriptions", MAIL).status == 201
    assert names(boss) == ["me"]
    with pool.services.store.write() as write:
        # As a login does whose groups are those of another tenant.
        vision = write.execute(sa.select(tenants.c.id).where(tenants.c.name == "vision"))
        values = {"tenant_id": vision.scalar_one()}
        write.execute(users.update().where(users.c.name == "mover").values(**values))
        write.insert(
            deliveries,
            public_id="d-1",
            subscription_id=1,
            cause="event/1",
            topic="job-failed",
            subject="j-1",
            data={"name": "secret-of-vision"},
            at_ns=1,
            due_ns=1,
            state="sent",
        )
    assert names(boss) == []
    assert boss.get("deliveries").json() == []
    assert boss.request("DELETE", "subscriptions/me", params={"user": "mover"}).code == "GP-3048"
    # What was sent of the earlier tenant is not the new one's either.
    assert (names(chief), chief.get("deliveries").json()) == ([], [])
    assert (names(mover), names(admin)) == (["me"], ["me"])


def test_a_chats_path_and_the_secret_are_not_told(pool: RunningApp) -> None:
    admin = pool.client()
    admin.put("notification-settings", {"hosts": [{"host": "hooks.example"}]})
    made = admin.post("subscriptions", HOOK | {"secret": "s3cret"})
    assert made.json()["address"] == "https://hooks.example/…"
    told = made.body + admin.get("subscriptions").body + admin.get("events").body
    assert b"PATH" not in told
    assert b"s3cret" not in told
    assert made.json()["signed"] is True


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"address": "https://other.example/"}, "GP-2140"),
        ({"address": "http://hooks.example/"}, "GP-2140"),
        ({"address": "hooks.example"}, "GP-1005"),
        ({"format": "mail", "address": "ada"}, "GP-1005"),
        ({"format": "mail", "address": "ada@example.com\nBcc: b@c"}, "GP-1005"),
        ({"format": "slack", "secret": "x"}, "GP-1005"),
        ({"topics": ["card-failed"]}, "GP-1005"),
        ({"topics": ["job-failled"]}, "GP-1010"),
        ({"topics": []}, "GP-1010"),
        ({"scope": "tenant"}, "GP-3002"),
        ({"scope": "pool"}, "GP-3002"),
        ({"quiet_hours": "22-7"}, "GP-1005"),
        ({"time_zone": "Mars"}, "GP-1005"),
        ({"waiting_seconds": 1}, "GP-1010"),
        ({"digest_seconds": -1}, "GP-1010"),
    ],
)
def test_what_cannot_be_is_refused_and_nothing_is_made(
    pool: RunningApp, change: dict[str, Any], code: str
) -> None:
    pool.client().put("notification-settings", {"hosts": [{"host": "hooks.example"}]})
    alice = pool.client(uid=ALICE)
    assert alice.post("subscriptions", HOOK | change).code == code
    assert names(alice) == []


def test_a_user_has_so_many(pool: RunningApp) -> None:
    alice = pool.client(uid=ALICE)
    for n in range(MOST_SUBSCRIPTIONS):
        assert alice.post("subscriptions", MAIL | {"name": f"n-{n}"}).status == 201
    assert alice.post("subscriptions", MAIL).code == "GP-2141"


def test_a_test_message_says_what_is_missing(pool: RunningApp) -> None:
    alice = pool.client(uid=ALICE)
    alice.post("subscriptions", MAIL)
    found = alice.post("subscriptions/me/test", {}).json()
    assert found["delivered"] is False
    assert "gpupool notify mail" in found["error"]


def test_settings_keep_what_is_not_named_and_hide_the_password(pool: RunningApp) -> None:
    admin = pool.client()
    admin.put("notification-settings", {"hosts": [{"host": "b.example"}, {"host": "a.example"}]})
    server = {"host": "smtp.example", "sender": "pool@example.com", "user": "u", "password": "pw!"}
    told = admin.put("notification-settings", {"mail": server})
    assert [one["host"] for one in told.json()["hosts"]] == ["a.example", "b.example"]
    assert told.json()["mail"]["user"] == "u"
    assert b"pw!" not in told.body + admin.get("notification-settings").body
    bad = {"hosts": [{"host": "Upper.example"}]}
    assert admin.put("notification-settings", bad).code == "GP-1010"


def test_a_password_stays_with_its_host_and_a_stale_change_is_refused(pool: RunningApp) -> None:
    admin = pool.client()
    server = {"host": "smtp.example", "sender": "pool@example.com", "user": "u"}
    admin.put("notification-settings", {"mail": server | {"password": "pw!"}})
    read = admin.get("notification-settings")
    kept = admin.put("notification-settings", {"mail": server | {"port": 25}})
    assert (kept.json()["mail"]["has_password"], kept.json()["mail"]["port"]) == (True, 25)
    stale = {"If-Match": read.headers["etag"]}
    assert admin.put("notification-settings", {"hosts": []}, headers=stale).code == "GP-4001"
    latest = {"If-Match": kept.headers["etag"]}
    assert admin.put("notification-settings", {"hosts": []}, headers=latest).status == 200
    moved = admin.put("notification-settings", {"mail": server | {"host": "other.example"}})
    assert moved.json()["mail"]["has_password"] is False
