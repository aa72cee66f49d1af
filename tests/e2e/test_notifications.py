"""A real pool tells a real receiver that a job failed, also after a kill -9."""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.pool_fixture import RealPool
from tests.support.message_receivers import hook_receiver, mail_receiver

ON = ("--on", "job-failed")


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealPool]:
    with RealPool(tmp_path_factory.mktemp("messages") / "pool", sim="1xL40S") as pool:
        pool.do("notify", "allow", "127.0.0.1", "--private", "--plain")
        yield pool


def fail_job(pool: RealPool, name: str) -> None:
    assert pool.run("run", "--gpu", "0.1", "--name", name, "--", "false").returncode == 1


def states_of(pool: RealPool) -> dict[str, str]:
    return {one["subscription"]: one["state"] for one in pool.json("notify", "deliveries")}


def test_a_failed_job_is_told_by_webhook_and_mail(pool: RealPool, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("s3cret\n")
    with hook_receiver() as hook, mail_receiver() as mailbox:
        server = f"127.0.0.1:{mailbox.port}"
        pool.do(
            "notify", "mail", "--server", server, "--sender", "g@b.example", "--security", "none"
        )
        pool.do("notify", "add", "hook", "--webhook", hook.url, *ON, "--secret-file", str(secret))
        pool.do("notify", "add", "me", "--mail", "ada@b.example", *ON, "--language", "zh")
        assert pool.do("notify", "test", "hook") == "delivered\n"
        fail_job(pool, "broken")
        _, headers, body = hook.wait_for_requests(2)[1]
        # The receivers go when both are told: a mail counts as sent when its receiver has said so.
        pool.until(lambda: states_of(pool) == {"hook": "sent", "me": "sent"}, "both sent")
    assert len(mailbox.mails) == 1
    assert body["text"] == "Job broken ended: failed (exit code 1)."
    assert mailbox.mails[0]["Subject"] == "任务 broken 已结束：失败（退出码 1）。"
    raw = json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()
    signed = hmac.new(b"s3cret", headers["Gpupool-Timestamp"].encode() + b"." + raw, hashlib.sha256)
    assert headers["Gpupool-Signature"] == f"v1={signed.hexdigest()}"


def test_what_was_not_sent_before_a_kill_is_sent_after_it(pool: RealPool) -> None:
    with hook_receiver() as hook:
        hook.statuses.append(503)
        pool.do("notify", "add", "again", "--webhook", hook.url, *ON)
        fail_job(pool, "lost-word")
        key = hook.wait_for_requests(1)[0][1]["Gpupool-Delivery"]
        os.kill(pool.server_pid(), signal.SIGKILL)
        pool.up()
        arrived = hook.wait_for_requests(2)
    assert [headers["Gpupool-Delivery"] for _, headers, _ in arrived] == [key, key]
    pool.do("notify", "delete", "again")


def test_what_a_person_mistypes_is_said(pool: RealPool) -> None:
    typed = {
        "notify add x --on job-failed": "GP-1005",
        "notify add x --mail ada --on job-failed": "GP-1005",
        "notify add x --slack https://hooks.example/T --on job-failed": "GP-2140",
        "notify add x --mail a@b --on job-fails": "GP-1010",
        "notify test missing": "GP-3048",
        "notify deny hooks.example": "GP-1005",
    }
    for words, code in typed.items():
        done = pool.run(*words.split())
        assert done.returncode != 0
        assert code in done.stderr, f"{words}: {done.stderr}"
