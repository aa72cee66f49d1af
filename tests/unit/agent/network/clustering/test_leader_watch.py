"""A watch starts what has ended, and restarts the compiler where a database has another leader."""

from __future__ import annotations

import threading

from gpupool.agent.network.clustering.leader_watch import LeaderWatch
from gpupool.agent.supervisor.client import SupervisorError
from gpupool.network.ovn.cluster_control import ClusterStatus

LEADER = ClusterStatus("follower", 1, "a1b2", True, ())
NEXT = ClusterStatus("leader", 2, "self", True, ())
ELECTION = ClusterStatus("candidate", 2, "", True, ())


class Watched:
    """What a watch sees of two databases, and what it did."""

    def __init__(self) -> None:
        self.found: dict[str, ClusterStatus | None] = {"north": LEADER, "south": LEADER}
        self.done: list[str] = []
        self.failure: SupervisorError | None = None
        self.watch = LeaderWatch(
            self.found,
            lambda name: self.found[name],
            self._start,
            lambda: self.done.append("compiler"),
            threading.RLock(),
        )

    def _start(self) -> None:
        self.done.append("servers")
        if self.failure is not None:
            raise self.failure

    def look(self, name: str, status: ClusterStatus | None) -> list[str]:
        """What a look does when a database is so."""
        self.found[name] = status
        self.done.clear()
        self.watch.look()
        return self.done


def test_the_first_leader_and_the_same_one_are_no_news() -> None:
    watched = Watched()
    assert watched.look("north", LEADER) == []
    assert watched.look("north", LEADER) == []


def test_another_leader_of_either_database_restarts_the_compiler_once() -> None:
    for name in ("north", "south"):
        watched = Watched()
        watched.watch.look()
        assert watched.look(name, ELECTION) == []
        assert watched.look(name, NEXT) == ["compiler"]
        assert watched.look(name, NEXT) == []


def test_a_server_that_does_not_answer_is_started_until_it_does() -> None:
    watched = Watched()
    watched.watch.look()
    assert watched.look("south", None) == ["servers"]
    assert watched.look("south", None) == ["servers"]
    # It leads no more, for another server was elected.
    assert watched.look("south", NEXT) == ["compiler"]


def test_a_start_that_fails_is_repeated_at_the_next_look() -> None:
    watched = Watched()
    watched.failure = SupervisorError("no space")
    assert watched.look("north", None) == ["servers"]
    assert watched.look("north", None) == ["servers"]


def test_a_watch_that_is_closed_begins_nothing_more() -> None:
    watched = Watched()
    watched.watch.close()
    assert watched.look("north", None) == []
