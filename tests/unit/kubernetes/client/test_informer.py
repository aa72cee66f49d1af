"""Objects are listed and watched without end; after a break the whole state is noted again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from gpupool.base.errors import ApiServerRejection, NotLoggedIn, ServiceUnavailable
from gpupool.kubernetes.client.api import BUSY, ExpiredWatchError, KubeApi
from gpupool.kubernetes.client.informer import ServerAway, watch_objects
from tests.support.virtual_time import end_task, on_virtual_time

AWAY = ServiceUnavailable("no answer")
BUSY_NOW = ServiceUnavailable("busy", status=BUSY)


def build_object(name: str, version: int) -> dict[str, Any]:
    return {"metadata": {"name": name, "uid": f"uid-{name}", "resourceVersion": str(version)}}


class Server(KubeApi):
    """Lists, watches and versions are taken from queues; an exception there is raised."""

    def __init__(self) -> None:
        self.lists: list[tuple[list[dict[str, Any]], str]] = []
        self.watches: list[list[tuple[str, dict[str, Any]] | Exception]] = []
        self.versions: list[int | Exception] = []
        self.watched_from: list[str] = []
        self.listed = 0

    async def list_objects(self, path: str, **_: str) -> tuple[list[dict[str, Any]], str]:
        self.listed += 1
        return self.lists.pop(0)

    async def get(self, path: str, **_: str) -> dict[str, Any]:
        version = self.versions.pop(0)
        if isinstance(version, Exception):
            raise version
        return {"metadata": {"resourceVersion": str(version)}}

    async def watch_changes(
        self, path: str, version: str, **_: str
    ) -> AsyncIterator[tuple[str, dict[str, Any]]]:
        self.watched_from.append(version)
        if not self.watches:
            await asyncio.Event().wait()
        for change in self.watches.pop(0):
            if isinstance(change, Exception):
                raise change
            yield change


def watch(server: Server, **more: Any) -> list[tuple[str, bool]]:
    """Names of the objects that were noted, and whether each was gone; until nothing happens."""
    noted: list[tuple[str, bool]] = []

    async def run() -> None:
        watching = asyncio.create_task(
            watch_objects(
                server,
                "/api/v1/pods",
                lambda found, gone: noted.append((found["metadata"]["name"], gone)),
                lambda: noted.append(("synced", False)),
                **more,
            )
        )
        await asyncio.sleep(600)
        if watching.done():
            watching.result()
        await end_task(watching)

    on_virtual_time(run())
    return noted


def test_watch_that_ended_goes_on_from_the_last_version_it_told() -> None:
    server = Server()
    server.lists = [([build_object("a", 3)], "5")]
    server.watches = [
        [("ADDED", build_object("b", 6)), ("BOOKMARK", build_object("unknown", 9))],
        [("DELETED", build_object("a", 10))],
    ]
    assert watch(server) == [("a", False), ("synced", False), ("b", False), ("a", True)]
    assert server.watched_from == ["5", "9", "10"]
    assert server.listed == 1


def test_expired_version_lists_anew_and_tells_deletions_first() -> None:
    server = Server()
    server.lists = [
        ([build_object("a", 3), build_object("b", 4)], "5"),
        ([build_object("c", 8)], "9"),
    ]
    server.watches = [[ExpiredWatchError()]]
    noted = watch(server)
    assert sorted(noted[3:5]) == [("a", True), ("b", True)]
    assert noted[5:] == [("c", False), ("synced", False)]


def test_lost_connection_to_a_server_that_stayed_lists_nothing() -> None:
    server = Server()
    server.lists = [([], "5")]
    server.watches = [[AWAY]]
    server.versions = [BUSY_NOW, 5]
    assert watch(server, lasting=False) == [("synced", False)]
    assert server.watched_from == ["5", "5"]


def test_watches_that_end_at_once_are_not_begun_again_without_a_pause() -> None:
    """As of a server that is about to end, or a proxy that holds no connection open."""
    server = Server()
    server.lists = [([build_object("a", 3)], "3")]
    server.watches = [[] for _ in range(1000)]
    watch(server)
    assert 10 < len(server.watched_from) < 200


def test_versions_that_expire_at_once_are_not_listed_again_without_a_pause() -> None:
    server = Server()
    server.lists = [([build_object("a", 3)], "3") for _ in range(1001)]
    server.watches = [[ExpiredWatchError()] for _ in range(1000)]
    watch(server)
    assert 10 < server.listed < 200


def test_a_watch_outlives_a_credential_that_is_missing_for_a_while() -> None:
    server = Server()
    server.lists = [([build_object("a", 3)], "3") for _ in range(2)]
    server.watches = [[AWAY]]
    server.versions = [NotLoggedIn("the program printed no credential")]
    assert watch(server) == [("a", False), ("synced", False)] * 2


@pytest.mark.parametrize(
    "answer", [4, AWAY, ApiServerRejection("forbidden", status=403)], ids=["older", "away", "no"]
)
def test_server_with_an_older_store_is_listed_anew(answer: int | Exception) -> None:
    server = Server()
    server.lists = [([build_object("a", 3)], "5"), ([], "4")]
    server.watches = [[AWAY]]
    server.versions = [answer]
    assert watch(server) == [("a", False), ("synced", False), ("a", True), ("synced", False)]


def test_watch_that_does_not_last_ends_when_the_server_was_away() -> None:
    server = Server()
    server.lists = [([], "5")]
    server.watches = [[AWAY]]
    server.versions = [4]
    with pytest.raises(ServerAway):
        watch(server, lasting=False)


def test_objects_of_a_list_go_to_the_handler_of_lists_alone() -> None:
    server = Server()
    server.lists = [([build_object("a", 3)], "5")]
    server.watches = [[("MODIFIED", build_object("a", 6))]]
    listed: list[str] = []
    noted = watch(
        server,
        listed=lambda found, _gone: listed.append(found["metadata"]["name"]),
        begins=lambda: listed.append("begins"),
    )
    assert listed == ["begins", "a"]
    assert noted == [("synced", False), ("a", False)]
