"""A cluster in a pool's books: pods come and go, the meter is killed, the server is away; the
report is exact."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpupool.kubernetes.ledger import ledger
from gpupool.kubernetes.resources import names
from gpupool.kubernetes.resources.closed_intervals import ClosedInterval
from gpupool.kubernetes.resources.gpu_node import GpuNode
from tests.support.cluster.api import Api
from tests.support.cluster.cluster import Cluster
from tests.support.cluster.pods import is_bound
from tests.support.cluster_books import Books, MeterProcess
from tests.support.cluster_pool import ClusterPool, fresh
from tests.support.kube_builders import asking, pod

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "kubernetes-metering.md"
SECOND = 10**9


@pytest.fixture(scope="module")
def pool(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterPool]:
    with ClusterPool(cluster, tmp_path_factory.mktemp("metered")) as made:
        made.adopt(cluster.simulate_nodes(1, prefix="metered"), 2)
        made.start("--metered")
        yield made


class Lives:
    """Pods of one node, and every stretch that its ledger said of them."""

    def __init__(self, pool: ClusterPool, admin: Api, pods_path: str) -> None:
        self.pool, self.admin, self.path = pool, admin, pods_path
        self.over: dict[tuple[str, int], ClosedInterval] = {}

    @property
    def node(self) -> GpuNode:
        (name,) = self.pool.agents.names
        return GpuNode.from_json(self.admin.get(f"{ledger.NODES}/{name}"))

    def come(self, name: str, milli: int) -> None:
        made = fresh(pod(name, {"main": asking(1, milli)}))
        made["metadata"]["namespace"] = self.path.split("/")[4]
        self.admin.create(self.path, made)
        self.admin.until(f"{self.path}/{name}", is_bound)

    def go(self, name: str) -> None:
        self.admin.delete(f"{self.path}/{name}?gracePeriodSeconds=0")
        ended = self.pool.until(
            lambda: [one for one in self.node.ended if one.pod == name], f"{name} has ended"
        )
        self.over |= {(one.uid, one.held_ns): one for one in ended}

    def seconds(self) -> dict[str, int]:
        """By pod's uid, thousandths of a card times whole seconds."""
        found: dict[str, int] = {}
        for one in self.over.values():
            whole = one.ended_ns // SECOND - one.held_ns // SECOND
            found[one.uid] = found.get(one.uid, 0) + whole * sum(
                seat.gpu_milli for seat in one.seats
            )
        return {uid: amount for uid, amount in found.items() if amount}


def commands(program: str) -> list[list[str]]:
    """What the page says to type of one program, from the blocks that are marked."""
    blocks = PAGE.read_text().split("```sh\n")[1:]
    lines = [line for block in blocks for line in block.split("```")[0].splitlines()]
    return [
        shlex.split(line, comments=True)[1:] for line in lines if line.startswith(f"{program} ")
    ]


def test_the_report_is_the_sum_of_whole_seconds_through_kills_and_a_server_that_was_away(
    pool: ClusterPool, admin: Api, pods_path: str, tmp_path: Path
) -> None:
    user, token, *reports = commands("gpupool")
    with Books(tmp_path, user, token[: token.index(">")]) as books:
        _through_kills(pool, admin, pods_path, books, reports)


def _through_kills(
    pool: ClusterPool, admin: Api, pods_path: str, books: Books, reports: list[list[str]]
) -> None:
    server = books.pool
    meter, lives = MeterProcess(pool, books), Lives(pool, admin, pods_path)
    try:
        lives.come("a", 300)
        lives.come("b", 250)
        pool.until(
            lambda: any(card["cluster"] and card["shares"] for card in server.json("gpus")),
            "the meter tells",
        )
        lives.go("a")
        meter.kill()
        lives.come("c", 500)
        lives.go("b")
        meter.start()
        books.kill()
        lives.go("c")
        lives.come("d", 300)
        meter.kill()
        meter.start()
        books.come_back()
        lives.go("d")

        def told() -> bool:
            return lives.node.metered_ns >= max(one.ended_ns for one in lives.over.values())

        pool.until(told, f"all is in the books\n{meter.log.read_text()[-2000:]}")
    finally:
        meter.kill()
    found = server.json("report", "--by", "job,project,tenant")
    rows = [row for row in found["rows"] if row["kind"] == "tenant"]
    space = pods_path.split("/")[4]
    assert found["closes"]
    assert {row["job"]: row["card_milliseconds"] for row in rows} == lives.seconds()
    assert {row["project"] for row in rows} == {space}
    assert {row["job_name"] for row in rows} <= {f"{space}/{name}" for name in "abcd"}
    for words in reports:
        assert server.do(*words)
    assert (
        names.METERED in admin.get(f"{ledger.NODES}/{lives.node.name}")["metadata"]["annotations"]
    )
    admin.delete(f"{ledger.NODES}/{lives.node.name}")  # while nobody meters
    meter.start()
    try:
        pool.until(
            lambda: {one["state"] for one in server.json("gpus") if one["cluster"]} == {"lost"},
            "it is no more",
        )
    finally:
        meter.kill()
