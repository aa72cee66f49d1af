"""From an event to its receiver: at once, again after failures, once for each occurrence."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from gpupool.allocations.schedules.rows import pause_schedule
from gpupool.allocations.store.hold_tables import reservations
from gpupool.allocations.store.schedule_tables import schedules
from gpupool.allocations.store.tables import allocations, jobs
from gpupool.notifications.collector import Collector
from gpupool.notifications.sender import NotificationSender
from gpupool.notifications.tables import deliveries, notification_settings, subscriptions
from gpupool.notifications.timing import NANOS, RETRY_SECONDS
from gpupool.store.tables import pool as pool_table
from gpupool.tenancy.tables import tokens, users
from tests.support.api import RunningApp, running_app
from tests.support.message_receivers import HookReceiver, hook_receiver
from tests.support.supervised import until

LOOPBACK = {"host": "127.0.0.1", "private": True, "plain": True}

CARD = {
    "uuid": "GPU-1",
    "index": 0,
    "vendor": "nvidia",
    "product": "NVIDIA H200",
    "model": "H200",
    "memory_bytes": 140 << 30,
    "simulated": True,
    "health": "ok",
}
NODE = {"devices": [CARD], "simulated": True, "adopt": True}
JOB = {"shape": {"gpu_milli": 1000}, "launch": {"argv": ["true"], "cwd": "/"}}


@pytest.fixture
def pool(tmp_path: Path) -> Iterator[RunningApp]:
    with running_app(tmp_path) as pool:
        pool.client().put("notification-settings", {"hosts": [LOOPBACK]})
        yield pool


@pytest.fixture
def receiver() -> Iterator[HookReceiver]:
    with hook_receiver() as found:
        yield found


@pytest.fixture
def sender(pool: RunningApp) -> NotificationSender:
    return NotificationSender(pool.services.store)


def subscribe(pool: RunningApp, receiver: HookReceiver, **fields: Any) -> None:
    body = {
        "name": "n",
        "format": "webhook",
        "address": receiver.url,
        "topics": ["job-failed", "card-failed"],
        "scope": "pool",
    }
    made = pool.client().post("subscriptions", body | fields)
    assert made.status == 201, made.body


def fail_job(pool: RunningApp, name: str = "j-1") -> None:
    with pool.services.store.write() as write:
        write.event("job.ended", name, tenant_id=1, data={"name": name, "state": "failed"})


def texts_of(receiver: HookReceiver) -> list[str]:
    return [body["text"] for _, _, body in receiver.requests]


def states(pool: RunningApp) -> list[str]:
    return [one["state"] for one in pool.client().get("deliveries").json()]


def test_events_arrive_once_and_in_order(
    pool: RunningApp, receiver: HookReceiver, sender: NotificationSender
) -> None:
    fail_job(pool, "before")
    subscribe(pool, receiver)
    fail_job(pool, "j-1")
    with pool.services.store.write() as write:
        write.event(
            "device.health", "sim-0:1", data={"health": "failed", "health_reason": "XID 79"}
        )
        write.event("job.ended", "j-2", tenant_id=1, data={"state": "done"})
    for _ in range(3):
        sender.look()
    texts = [body["text"] for _, _, body in receiver.requests]
    assert texts == ["Job j-1 ended: failed.", "Card sim-0:1 failed (XID 79)."]
    assert states(pool) == ["sent", "sent"]
    # A process that ended before it knew that it had sent begins where the database says.
    again = NotificationSender(pool.services.store)
    again.look()
    assert len(receiver.requests) == 2


def test_a_piece_of_the_log_that_was_read_is_written_with_its_deliveries(
    pool: RunningApp, receiver: HookReceiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    subscribe(pool, receiver)
    fail_job(pool)
    collector = Collector(pool.services.store)
    with monkeypatch.context() as patch:
        patch.setattr("gpupool.notifications.collector._insert_deliveries", divide)
        with pytest.raises(ZeroDivisionError):
            collector.collect_events()
    assert states(pool) == []
    Collector(pool.services.store).collect_events()
    assert states(pool) == ["waiting"]


def divide(*_arguments: Any) -> None:
    raise ZeroDivisionError


def test_a_receiver_that_fails_is_tried_again_with_pauses_and_then_no_more(
    pool: RunningApp, receiver: HookReceiver, sender: NotificationSender
) -> None:
    subscribe(pool, receiver)
    fail_job(pool)
    receiver.statuses.extend([503] * 99)
    for attempts in range(1, len(RETRY_SECONDS) + 2):
        sender.look()
        sender.look()  # nothing is due
        assert len(receiver.requests) == attempts
        with pool.services.store.write() as write:
            write.execute(deliveries.update().values(due_ns=0))
    found = pool.client().get("deliveries").json()[0]
    assert (found["state"], found["attempts"]) == ("dead", len(RETRY_SECONDS) + 1)
    assert found["error"] == "answered 503"
    keys = {headers["Gpupool-Delivery"] for _, headers, _ in receiver.requests}
    assert keys == {found["id"]}
    sender.look()
    assert len(receiver.requests) == len(RETRY_SECONDS) + 1


def test_a_receiver_that_is_down_gets_one_attempt_for_all_its_messages(
    pool: RunningApp, receiver: HookReceiver, sender: NotificationSender
) -> None:
    subscribe(pool, receiver)
    for n in range(3):
        fail_job(pool, f"j-{n}")
    receiver.statuses.append(503)
    for _ in range(3):
        sender.look()
    assert len(receiver.requests) == 1
    assert [one["attempts"] for one in pool.client().get("deliveries").json()] == [0, 0, 1]
    with pool.services.store.write() as write:
        write.execute(deliveries.update().values(due_ns=0))
    sender.look()
    texts = [body["text"] for _, _, body in receiver.requests[1:]]
    assert texts == [f"Job j-{n} ended: failed." for n in range(3)]


def test_what_happens_while_a_receiver_is_down_waits_for_the_end_of_its_pause(
    pool: RunningApp, receiver: HookReceiver, sender: NotificationSender
) -> None:
    subscribe(pool, receiver)
    fail_job(pool, "j-1")
    receiver.statuses.append(503)
    sender.look()
    for n in (2, 3):
        fail_job(pool, f"j-{n}")
        assert (sender.look() or 0) > 1
    assert len(receiver.requests) == 1
    with pool.services.store.write() as write:
        write.execute(deliveries.update().where(deliveries.c.attempts > 0).values(due_ns=0))
    sender.look()
    texts = [body["text"] for _, _, body in receiver.requests[1:]]
    assert texts == [f"Job j-{n} ended: failed." for n in (1, 2, 3)]


def test_a_delivery_that_was_given_up_is_tried_again_on_request(
    pool: RunningApp, receiver: HookReceiver, sender: NotificationSender
) -> None:
    subscribe(pool, receiver)
    fail_job(pool)
    receiver.statuses.append(410)
    sender.look()
    admin = pool.client()
    dead = admin.get("deliveries", params={"state": "dead"}).json()[0]
    assert pool.client(uid=4001).post(f"deliveries/{dead['id']}/retry", {}).code == "GP-2274"
    done = admin.post(f"deliveries/{dead['id']}/retry", {}).json()
    assert (done["state"], done["attempts"], done["ended_ns"]) == ("waiting", 0, None)
    sender.look()
    assert states(pool) == ["sent"]
    assert receiver.requests[0][1]["Gpupool-Delivery"] == dead["id"]
    assert admin.post(f"deliveries/{dead['id']}/retry", {}).code == "GP-2275"


def test_what_another_attempt_would_not_change_is_dead_at_once(
    pool: RunningApp, receiver: HookReceiver, sender: NotificationSender
) -> None:
    subscribe(pool, receiver)
    fail_job(pool)
    receiver.statuses.append(410)
    sender.look()
    assert states(pool) == ["dead"]


def test_many_messages_at_once_come_as_one(
    pool: RunningApp, receiver: HookReceiver, sender: NotificationSender
) -> None:
    subscribe(pool, receiver, language="zh")
    for n in range(30):
        fail_job(pool, f"j-{n}")
    sender.look()
    assert len(receiver.requests) == 1
    body = receiver.requests[0][2]
    assert (body["title"], len(body["items"])) == ("gpupool：30 条消息", 30)


@pytest.mark.nightly
def test_a_receiver_that_is_tried_again_is_left_alone_in_quiet_hours(
    pool: RunningApp, receiver: HookReceiver, sender: NotificationSender
) -> None:
    # They begin in ten minutes, and the pause after the sixth attempt is of thirty.
    now_ns = pool.services.store.clock.now_ns()
    clocks = [datetime.fromtimestamp(now_ns // NANOS + s, UTC) for s in (600, 20_000)]
    hours = "-".join(f"{clock:%H:%M}" for clock in clocks)
    subscribe(pool, receiver, quiet_hours=hours, time_zone="UTC")
    fail_job(pool)
    receiver.statuses.extend([503] * 2)
    sender.look()
    with pool.services.store.write() as write:
        write.execute(deliveries.update().values(due_ns=0, attempts=5))
    sender.look()
    due_ns = pool.client().get("deliveries").json()[0]["due_ns"]
    assert due_ns // NANOS == clocks[1].replace(second=0).timestamp()


@pytest.mark.parametrize(
    ("kind", "most"),
    [("wecom", 2048), pytest.param("feishu", 20_000, marks=pytest.mark.nightly)],
)
def test_many_messages_come_in_as_few_as_their_receiver_takes(
    pool: RunningApp, receiver: HookReceiver, sender: NotificationSender, kind: str, most: int
) -> None:
    subscribe(pool, receiver, format=kind, language="zh")
    receiver.answer = b'{"code":0}'
    for n in range(150):
        fail_job(pool, f"一个名字很长的训练任务之编号-{n:03}-{'x' * 80}")
    sender.look()
    bodies = [body for _, _, body in receiver.requests]
    part, word = ("text", "content") if kind == "wecom" else ("content", "text")
    texts = [body[part][word] for body in bodies]
    assert 1 < len(texts) < 75
    assert max(len(json.dumps(body, ensure_ascii=False).encode()) for body in bodies) <= most + 200
    told = [line.partition("编号-")[2][:3] for text in texts for line in text.splitlines()]
    assert told == [f"{n:03}" for n in range(150)]
    assert set(states(pool)) == {"sent"}


@pytest.mark.nightly
def test_receivers_that_do_not_answer_are_left_to_the_next_look(
    pool: RunningApp, sender: NotificationSender, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gpupool.notifications.outlets.TIMEOUT_SECONDS", 0.2)
    monkeypatch.setattr("gpupool.notifications.timing.RETRY_SECONDS", (3600,))
    monkeypatch.setattr("gpupool.notifications.sender._DELIVER_SECONDS", 0.1)
    monkeypatch.setattr("gpupool.notifications.sender._RECEIVERS_AT_ONCE", 1)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/"
        for n in range(3):
            subscribe(pool, HookReceiver(silent.getsockname()[1]), name=f"n-{n}", address=url)
        fail_job(pool)
        for looks in (1, 2, 3):
            pause = sender.look() or 0
            assert (pause < 1) == (looks < 3)
            tried = [one["attempts"] for one in pool.client().get("deliveries").json()]
            assert sorted(tried) == [0] * (3 - looks) + [1] * looks


def test_a_subscription_of_a_zone_that_is_gone_holds_up_no_other(
    pool: RunningApp, receiver: HookReceiver, sender: NotificationSender
) -> None:
    for name in ("m", "n"):
        subscribe(pool, receiver, name=name)
    clocks = [datetime.now(UTC) + timedelta(hours=hours) for hours in (2, 3)]
    hours = "-".join(f"{clock:%H:%M}" for clock in clocks)
    lost = {"time_zone": "Mars/Olympus", "quiet_hours": hours}
    with pool.services.store.write() as write:
        write.execute(subscriptions.update().where(subscriptions.c.name == "m").values(**lost))
    fail_job(pool)
    receiver.statuses.append(503)
    sender.look()
    assert len(receiver.requests) == 2
    assert sorted(states(pool)) == ["sent", "waiting"]


def test_a_digest_waits_for_its_end(
    pool: RunningApp, receiver: HookReceiver, sender: NotificationSender
) -> None:
    subscribe(pool, receiver, digest_seconds=3600)
    fail_job(pool, "j-1")
    fail_job(pool, "j-2")
    assert 0 < (sender.look() or 0) <= 30
    assert (receiver.requests, states(pool)) == ([], ["waiting"] * 2)
    with pool.services.store.write() as write:
        write.execute(deliveries.update().values(due_ns=0))
    sender.look()
    assert [len(body["items"]) for _, _, body in receiver.requests] == [2]


def test_a_job_that_waits_is_told_once(tmp_path: Path, receiver: HookReceiver) -> None:
    with running_app(tmp_path, start=True) as pool:
        admin = pool.client()
        admin.put("notification-settings", {"hosts": [LOOPBACK]})
        assert admin.put("nodes/node-1", NODE).status == 200
        subscribe(pool, receiver, topics=["job-waiting"], scope="mine", waiting_seconds=60)
        assert admin.post("jobs", JOB | {"name": "first"}).status == 201
        until(lambda: admin.get("jobs/first").json()["state"] == "starting", "its placement")
        assert admin.post("jobs", JOB | {"name": "second"}).status == 201
        NotificationSender(pool.services.store).look()
        assert receiver.requests == []
        with pool.services.store.write() as write:
            write.execute(jobs.update().values(submitted_ns=jobs.c.submitted_ns - 61 * NANOS))
        for _ in range(2):
            NotificationSender(pool.services.store).look()
        assert texts_of(receiver) == [
            "Job second has waited for 1 min. Why: gpupool explain second"
        ]
        # It ran for a day and was sent back to wait: it has not waited since it was submitted.
        now_ns = pool.services.store.clock.now_ns()
        with pool.services.store.write() as write:
            claim = write.execute(
                sa.select(jobs.c.id, jobs.c.claim_id).where(jobs.c.name == "second")
            ).one()
            day_ns = 86_400 * NANOS
            write.execute(jobs.update().values(submitted_ns=now_ns - day_ns))
            values = {"job_id": claim.id, "claim_id": claim.claim_id, "node_id": 1, "generation": 1}
            times = {"granted_ns": now_ns - day_ns, "released_ns": now_ns, "work_seq": 1}
            row = {"public_id": "a-earlier", "state": "released", **values, **times}
            write.execute(allocations.insert().values(**row))
        NotificationSender(pool.services.store).look()
        assert len(receiver.requests) == 1
        with pool.services.store.write() as write:
            mine = allocations.c.public_id == "a-earlier"
            hour = {"released_ns": now_ns - 3600 * NANOS}
            write.execute(allocations.update().where(mine).values(**hour))
        for _ in range(2):
            NotificationSender(pool.services.store).look()
    assert texts_of(receiver)[1:] == [
        "Job second has waited for 60 min. Why: gpupool explain second"
    ]


def test_a_token_and_a_reservation_are_told_before_their_time_and_once(
    pool: RunningApp, receiver: HookReceiver, sender: NotificationSender
) -> None:
    admin = pool.client()
    topics = ["token-expiring", "reservation-begins"]
    subscribe(pool, receiver, topics=topics)
    body = {"name": "ci", "tenant": "default", "role": "user", "kind": "service"}
    made = admin.post("users", body)
    assert made.status == 201, made.body
    now_ns = pool.services.store.clock.now_ns()
    day_ns = 86_400 * NANOS
    with pool.services.store.write() as write:
        query = sa.select(users.c.id).where(users.c.name == "ci")
        account = write.execute(query).scalar_one()
        # Lives of a month, of an hour that has only begun, and of a month that has only begun.
        for name, age, left in (
            ("t-soon", 25 * day_ns, 5 * day_ns),
            ("t-short", 0, 3600 * NANOS),
            ("t-late", 0, 30 * day_ns),
        ):
            write.execute(
                tokens.insert().values(
                    id=name,
                    user_id=account,
                    secret_sha256="",
                    label=name,
                    kind="api",
                    created_ns=now_ns - age,
                    expires_ns=now_ns + left,
                )
            )
        for name, minutes in (("exam", 30), ("term", 90)):
            write.execute(
                reservations.insert().values(
                    public_id=f"r-{name}",
                    tenant_id=1,
                    user_id=1,
                    name=name,
                    gpu_milli=1000,
                    cards=1,
                    labels={},
                    replicas=1,
                    state="waiting",
                    start_ns=now_ns + minutes * 60 * NANOS,
                    created_ns=now_ns,
                )
            )
    for _ in range(2):
        NotificationSender(pool.services.store).look()
    texts = [body["text"] for _, _, body in receiver.requests]
    assert len(texts) == 2
    assert texts[0].startswith("Token t-soon of the service account ci expires at ")
    assert texts[1].startswith("Reservation exam begins at ")


def test_the_user_of_a_schedule_hears_that_it_is_paused(
    pool: RunningApp, receiver: HookReceiver, sender: NotificationSender
) -> None:
    subscribe(pool, receiver, topics=["schedule-paused"], scope="mine")
    with pool.services.store.write() as write:
        write.execute(
            schedules.insert().values(
                public_id="s-1",
                tenant_id=1,
                user_id=1,
                name="nightly",
                cron="0 2 * * *",
                time_zone="UTC",
                overlap="skip",
                deadline_s=60,
                body=JOB,
                state="active",
                reason="",
                next_ns=1,
                created_ns=1,
            )
        )
        row = write.execute(sa.select(schedules)).one()
        pause_schedule(write, row, "its owner is disabled")
        # One of that name in another tenant.
        write.event("schedule.paused", "nightly", tenant_id=2, data={"reason": "x"})
    sender.look()
    texts = [body["text"] for _, _, body in receiver.requests]
    assert texts == [
        "Schedule nightly is paused (its owner is disabled). Go on: gpupool schedule resume nightly"
    ]


def test_a_user_that_lost_its_rights_hears_nothing_more(
    pool: RunningApp, receiver: HookReceiver, sender: NotificationSender
) -> None:
    admin = pool.client()
    admin.post("users", {"name": "boss", "role": "tenant-admin"})
    boss = pool.client(uid=None, token=pool.token("boss"))
    body = {"name": "n", "format": "webhook", "address": receiver.url, "topics": ["job-failed"]}
    assert boss.post("subscriptions", body | {"scope": "tenant"}).status == 201
    fail_job(pool, "j-1")
    sender.look()
    assert len(receiver.requests) == 1
    admin.request("PATCH", "users/boss", json_body={"role": "user"})
    fail_job(pool, "j-2")
    sender.look()
    assert len(receiver.requests) == 1


def test_what_waits_for_a_user_that_lost_its_rights_is_not_sent(
    pool: RunningApp, receiver: HookReceiver, sender: NotificationSender
) -> None:
    admin = pool.client()
    admin.post("users", {"name": "boss", "role": "tenant-admin"})
    boss = pool.client(uid=None, token=pool.token("boss"))
    body = {"name": "n", "format": "webhook", "address": receiver.url, "topics": ["job-failed"]}
    asked = boss.post("subscriptions", body | {"scope": "tenant", "digest_seconds": 3600})
    assert asked.status == 201
    fail_job(pool, "j-1")
    sender.look()
    admin.request("PATCH", "users/boss", json_body={"role": "user"})
    with pool.services.store.write() as write:
        write.execute(deliveries.update().values(due_ns=0))
    sender.look()
    assert receiver.requests == []
    found = admin.get("deliveries").json()[0]
    assert (found["state"], found["attempts"]) == ("dead", 0)
    assert found["error"] == "boss has the role user, which gets no messages of scope tenant"


def test_what_waits_for_a_disabled_user_keeps_no_one_awake(
    pool: RunningApp, receiver: HookReceiver, sender: NotificationSender
) -> None:
    pool.client().post("users", {"name": "gone"})
    gone = pool.client(uid=None, token=pool.token("gone"))
    body = {"name": "n", "format": "webhook", "address": receiver.url, "topics": ["job-failed"]}
    assert gone.post("subscriptions", body).status == 201
    waiting = {"public_id": "d-1", "cause": "event/1", "topic": "job-failed", "subject": "j-1"}
    with pool.services.store.write() as write:
        write.insert(
            deliveries, **waiting, subscription_id=1, data={}, at_ns=1, due_ns=1, state="waiting"
        )
    pool.client().request("PATCH", "users/gone", json_body={"disabled": True})
    assert (sender.look() or 0) > 1, "it would look four times a second"
    assert receiver.requests == []
    pool.client().request("PATCH", "users/gone", json_body={"disabled": False})
    sender.look()
    assert len(receiver.requests) == 1


def test_a_log_whose_past_was_replaced_is_read_from_its_end(
    pool: RunningApp, receiver: HookReceiver, sender: NotificationSender
) -> None:
    subscribe(pool, receiver)
    fail_job(pool, "of the old log")
    with pool.services.store.write() as write:
        write.execute(pool_table.update().values(event_epoch="e-other"))
    sender.look()
    fail_job(pool, "j-2")
    sender.look()
    assert [body["items"][0]["subject"] for _, _, body in receiver.requests] == ["j-2"]


def test_a_pool_without_subscriptions_is_not_looked_at(
    pool: RunningApp, receiver: HookReceiver, sender: NotificationSender
) -> None:
    fail_job(pool)
    assert sender.look() is None
    with pool.services.store.read() as connection:
        assert connection.execute(sa.select(notification_settings.c.read_seq)).scalar_one() == 0
    # The first subscription does not begin with the past.
    subscribe(pool, receiver)
    sender.look()
    assert receiver.requests == []


def test_the_thread_delivers_what_is_committed_and_ends(
    pool: RunningApp, receiver: HookReceiver, sender: NotificationSender
) -> None:
    sender.start()
    subscribe(pool, receiver)
    fail_job(pool)
    receiver.wait_for_requests(1)
    sender.close()
    sender.join(10)
    assert not sender._thread.is_alive()


@pytest.mark.nightly
def test_the_new_owner_hears_of_what_was_handed_over_to_it(
    pool: RunningApp, receiver: HookReceiver, sender: NotificationSender
) -> None:
    for name in ("ann", "bob"):
        assert pool.client().post("users", {"name": name}).status == 201
        body = {
            "name": f"of-{name}",
            "format": "webhook",
            "address": receiver.url,
            "topics": ["job-handed-over"],
            "scope": "mine",
        }
        caller = pool.client(None, token=pool.token(name))
        assert caller.post("subscriptions", body).status == 201
    data = {"what": "schedule", "name": "nightly", "from": "ann", "to": "bob", "by": "root"}
    with pool.services.store.write() as write:
        write.event("schedule.handed-over", "nightly", tenant_id=1, data=data)
    sender.look()
    with pool.services.store.read() as connection:
        rows = connection.execute(sa.select(deliveries.c.subject, deliveries.c.topic)).all()
    assert [tuple(row) for row in rows] == [("nightly", "job-handed-over")]
