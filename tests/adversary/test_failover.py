"""Two servers on one PostgreSQL: the leader is killed, paused beyond its lease, and cut off from
the database."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from gpupool.base.errors import ServiceUnavailable
from tests.adversary.conftest import open_to_other_users
from tests.faults import invariants
from tests.support.two_servers import Pair, Server, impossible_here, refusal_of, two_servers, until

pytestmark = [pytest.mark.adversary, pytest.mark.xdist_group("failover")]


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    why = impossible_here()
    if why:
        pytest.skip(why)
    with two_servers(open_to_other_users(tmp_path_factory.mktemp("failover"))) as made:
        yield made


def job(name: str) -> dict[str, Any]:
    launch = {"argv": ["sleep", "600"], "cwd": "/", "env": {"PATH": "/usr/bin:/bin"}}
    return {"name": name, "shape": {"gpu_milli": 100, "memory_bytes": 1 << 28}, "launch": launch}


def pid_of(pair: Pair, found: str) -> str:
    """The process of a job, by its supervisor's own note."""
    notes = list((pair.root / "agent").glob(f"**/{found}/started"))
    assert len(notes) == 1, notes
    return next(line for line in notes[0].read_text().splitlines() if line.startswith("pid="))


def names(pair: Pair) -> list[str]:
    return [row[0] for row in pair.rows("SELECT name FROM jobs ORDER BY id")]


def stays(
    pair: Pair, what: str, harm: Callable[[Server], None], repair: Callable[[Server], None]
) -> Server:
    """Do harm to the leader while a job runs: the other leads, the job is untouched, the old one
    can write nothing."""
    old, agent = pair.leader(), pair.agent_pid()
    new = pair.other(old)
    with pair.api() as api:
        runs = api.request("POST", "jobs", job(what), idempotency_key=what)["first"]["id"]
        until(lambda: api.request("GET", f"jobs/{runs}")["state"] == "running", "the job running")
        before = pid_of(pair, runs)
        harm(old)
        until(lambda: new.role() == "leader", "the takeover")
        again = api.request("POST", "jobs", job(what), idempotency_key=what)["first"]["id"]
        assert again == runs, "the same key made a second job"
        api.request("POST", "jobs", job(f"{what}-after"), idempotency_key=f"{what}-after")
        repair(old)
        with old.api(pair.token) as alone:
            late = refusal_of(
                lambda: alone.request("POST", "jobs", job(f"{what}-late"), timeout=10)
            )
        assert isinstance(late, ServiceUnavailable), late
        until(lambda: old.role() == "standby", "the old leader standing by")
        until(pair.nodes_ready, "the nodes' readiness")
        assert api.request("GET", f"jobs/{runs}")["state"] == "running"
    assert (pid_of(pair, runs), pair.agent_pid()) == (before, agent)
    assert [name for name in names(pair) if name.startswith(what)] == [what, f"{what}-after"]
    assert invariants.books(pair) == []
    return old


def test_a_killed_leader_is_followed_by_the_standby(pair: Pair) -> None:
    stays(pair, "killed", Server.kill, Server.start)


def test_a_leader_paused_beyond_its_lease_is_deposed_and_refuses_what_it_is_asked(
    pair: Pair,
) -> None:
    old = stays(
        pair,
        "paused",
        lambda one: one.signal(signal.SIGSTOP),
        lambda one: one.signal(signal.SIGCONT),
    )
    assert old.process is not None
    assert old.process.poll() is None, "it ended instead of standing by"
    health = old.health()
    assert (health["role"], health["well"], health["leader"]) == (
        "standby",
        True,
        pair.leader().address,
    )


def test_a_leader_cut_off_from_the_database_answers_nothing_and_is_deposed(pair: Pair) -> None:
    def mend_after_a_look(one: Server) -> None:
        with one.api(pair.token) as alone:
            looked = refusal_of(lambda: alone.request("GET", "jobs", timeout=10))
        assert isinstance(looked, ServiceUnavailable), (
            looked
        )  # its clients still reach it: it must not show an old view
        assert looked.code in ("GP-5035", "GP-5036", "GP-5008")
        health = one.health()
        assert (health["role"], health["well"], health["failing"]) == ("lapsed", False, ["leader"])
        (found,) = one.doctor()
        assert found["name"] == "pool"
        assert looked.code in found["text"], found
        assert found["next"]
        one.mend()

    stays(pair, "cut", Server.cut, mend_after_a_look)


def test_a_leader_that_is_told_to_stop_gives_the_lease_up(pair: Pair) -> None:
    old = pair.leader()
    old.end()
    until(lambda: pair.other(old).role() == "leader", "the takeover")
    assert pair.rows("SELECT number FROM leader") > [(4,)]
    old.start()


def test_a_standby_purged_leaves_the_leaders_database(pair: Pair) -> None:
    leader = pair.leader()
    standby = pair.other(leader)
    said = standby.cli("down", "--purge", "--yes")
    assert "the standby has stopped" in said
    assert "the database is left as it is" in said
    assert leader.role() == "leader"
    assert names(pair)
    standby.start()
