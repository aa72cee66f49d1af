"""Jobs of a verification: where they are placed, what they are waited for, how they are removed."""

from __future__ import annotations

from typing import Any

import pytest

from gpupool.base.errors import BadOption, RequestRejection, ServiceUnavailable
from gpupool.verification.bench import build_burn_command
from tests.support.verification_pool import Line, ScriptedPool, build_bench, stretches

CARD: Line = {"name": "node-1:0"}


def free_card(name: str, milli: int, shares: int = 1) -> Line:
    return {"name": name, "largest_milli": milli, "largest_bytes": 1 << 30, "shares": shares}


def test_bench_ends_its_jobs_and_deletes_its_tenants() -> None:
    pool = ScriptedPool()
    with build_bench(pool) as bench:
        first, second = bench.choose_tenants()
        bench.submit_program("a", ["true"], 100, 1)
    assert [job["state"] for job in pool.jobs.values()] == ["stopped"]
    assert pool.requests[-2:] == [f"DELETE tenants/{first}", f"DELETE tenants/{second}"]


def test_bench_of_a_caller_that_makes_no_tenants_uses_its_own() -> None:
    pool = ScriptedPool(admin=False)
    with build_bench(pool) as bench:
        assert bench.choose_tenants() == (None, None)
    assert not [one for one in pool.requests if one.startswith("DELETE")]


def test_bench_sends_an_unanswered_submission_again_with_its_key() -> None:
    keys: list[str] = []

    class Deaf(ScriptedPool):
        def request(self, method: str, path: str, body: Line | None = None, **more: Any) -> Any:
            if path == "jobs":
                keys.append(more["idempotency_key"])
                if len(keys) == 1:
                    raise ServiceUnavailable("the answer was lost")
            return super().request(method, path, body, **more)

    pool = Deaf()
    with pytest.raises(ServiceUnavailable), build_bench(pool) as bench:
        bench.submit_program("a", ["true"], 100, 1)
    assert len(set(keys)) == 1
    assert len(keys) == 2
    assert [job["state"] for job in pool.jobs.values()] == ["stopped"]


def test_bench_forgets_a_submission_that_was_refused() -> None:
    class Strict(ScriptedPool):
        def request(self, method: str, path: str, body: Line | None = None, **more: Any) -> Any:
            self.requests.append(f"{method} {path}")
            raise BadOption("no such shape")

    pool = Strict()
    with pytest.raises(BadOption), build_bench(pool) as bench:
        bench.submit_program("a", ["true"], 100, 1)
    assert pool.requests == ["POST jobs"]


def test_choose_card_holds_the_other_cards_until_jobs_come_to_it() -> None:
    # A trial elsewhere, then a filler on each other card, then a trial on the card.
    pool = ScriptedPool(devices=["node-1:1", "node-1:1", "node-1:2", "node-1:0"])
    bench = build_bench(pool)
    bench.choose_card(CARD, [free_card("node-1:2", 1000, shares=0), free_card("node-1:1", 500)])
    sizes = [job["body"]["shape"] for job in pool.jobs.values() if job["purpose"] == "holds"]
    assert [(one["gpu_milli"], one["memory_bytes"]) for one in sizes] == [
        (500, 1 << 30),
        (1000, None),
    ]
    assert bench.device == "node-1:0"


def test_choose_card_that_jobs_never_come_to_is_refused() -> None:
    bench = build_bench(ScriptedPool(devices=["node-1:1"]))
    with pytest.raises(RequestRejection, match="jobs elsewhere than on node-1:0"):
        bench.choose_card(CARD, [free_card("node-1:1", 0)])


def test_a_burn_that_leaves_the_card_comes_back_once_the_others_are_held() -> None:
    # The trial comes to the card, the burn does not, the filler takes the other card, the burn comes.
    pool = ScriptedPool(devices=["node-1:0", "node-1:1", "node-1:1", "node-1:0"])
    bench = build_bench(pool)
    bench.choose_card(CARD, [free_card("node-1:1", 1000, shares=0)])
    burn = bench.submit_burn("busy", ["--seconds", "1"], gpu_milli=300, memory_bytes=1 << 30)
    assert burn.job["device"] == "node-1:0"
    purposes = [(job["purpose"], job["state"]) for job in pool.jobs.values()]
    assert [purpose for purpose, _ in purposes] == ["trial", "busy", "holds", "busy"]
    assert purposes[1] == ("busy", "stopped")


def test_submit_burn_on_another_card_is_refused() -> None:
    bench = build_bench(ScriptedPool(devices=["node-1:0", "node-1:1"]))
    bench.choose_card(CARD, [])
    with pytest.raises(RequestRejection, match="was placed on node-1:1, not on node-1:0"):
        bench.submit_burn("a", (), gpu_milli=100, memory_bytes=1)


def test_await_load_of_a_job_that_ended_before_quotes_its_log() -> None:
    pool = ScriptedPool(
        {"a": stretches(1.0, 0, 900)}, ended={"a": {"state": "failed", "reason": "exit code 1"}}
    )
    task = build_bench(pool).submit_program("a", ["true"], 100, 1)
    task.await_load(0.9)
    with pytest.raises(ServiceUnavailable) as caught:
        task.await_load(1.0)
    assert "never came to 1 s of its load (failed: exit code 1)" in caught.value.message
    task.stop_job()


def test_burn_command_elsewhere_is_that_of_its_own_installation() -> None:
    assert build_burn_command(local=False) == ["gpupool", "burn"]
    assert build_burn_command(local=True)[1:] == ["-m", "gpupool.cli.main", "burn"]
