"""A cluster of databases over three machines with the real OVN: leaders and a machine are killed,
traffic goes on, and changes come into force soon after."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Callable, Iterator

import pytest

from gpupool.base.client_settings import client_settings
from gpupool.client.transport import Api
from tests.support.network_leaders import LeaderScene, Traffic, measure
from tests.support.network_pool import OVN_MARKS
from tests.support.several_machines import list_processes, several_machines

pytestmark = OVN_MARKS
NODES = ("sim-0", "machine-1", "machine-2")
#: Seconds in which a change is in force after a leader was killed. The bench has the goal of 2.5 s
#: on a quiet machine; with ten programs for each processor it was seen to take 10 s.
CHANGE_SECONDS = 20.0
#: Seconds without an answer, of a datagram every 20 ms, that count as a gap.
GAP_SECONDS = 1.0


@pytest.fixture(scope="module")
def scene() -> Iterator[LeaderScene]:
    with several_machines() as machines:
        yield LeaderScene(machines)


@pytest.fixture(scope="module")
def traffic(scene: LeaderScene) -> Iterator[Traffic]:
    with scene.traffic() as made:
        made.await_answer(7000)
        yield made


def check(scene: LeaderScene, traffic: Traffic, event: Callable[[], object]) -> None:
    """Do something to the cluster: a change is soon in force, and traffic has no gap."""
    cost = measure(traffic, scene.rules, event)
    assert cost.change < CHANGE_SECONDS
    assert cost.traffic < GAP_SECONDS


def form_with_killed_server(scene: LeaderScene) -> None:
    """Form a cluster while the server, and with it the agent of the centre, is killed."""
    pool = scene.machines.pool
    api = Api(client_settings(state_dir=str(pool.state_dir)))
    server = pool.server_pid()
    enabling = pool.start("network", "enable", "--databases", ",".join(NODES))
    pool.until(lambda: api.request("GET", "network-engine")["databases"], "servers that are chosen")
    os.kill(server, signal.SIGKILL)
    # The command waits for the next server.
    scene.machines.start_server()
    enabling.communicate()
    scene.await_whole()


def test_a_server_that_is_killed_while_a_cluster_forms_goes_on_with_it(
    scene: LeaderScene, traffic: Traffic
) -> None:
    form_with_killed_server(scene)
    check(scene, traffic, lambda: None)
    assert scene.cluster.find_leader("northbound") in NODES
    assert [one["node"] for one in scene.machines.status()["databases"]] == list(NODES)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("database", ["northbound", "southbound"])
def test_a_killed_leader_costs_traffic_nothing_and_changes_little(
    scene: LeaderScene, traffic: Traffic, database: str
) -> None:
    leader = scene.cluster.find_leader(database)
    check(scene, traffic, lambda: scene.cluster.kill(leader, database))
    scene.await_whole()


def test_a_machine_that_is_lost_with_its_disk_is_replaced_without_a_gap(
    scene: LeaderScene, traffic: Traffic
) -> None:
    before = scene.cluster.status("sim-0", "northbound")
    assert before is not None
    member = scene.machines.members[0]

    def lose() -> None:
        member.kill_agent()
        for pid in list_processes(member.mark):
            os.kill(pid, signal.SIGKILL)

    check(scene, traffic, lose)
    shutil.rmtree(scene.cluster.files[member.name].data)
    check(scene, traffic, lambda: scene.machines.start_agent(member))
    scene.await_whole()
    # It has joined as a server of another identity, and the one that is gone was removed.
    after = scene.cluster.status("sim-0", "northbound")
    assert after is not None
    assert after.members == before.members


def test_the_centre_alone_takes_the_databases_back(scene: LeaderScene, traffic: Traffic) -> None:
    check(scene, traffic, lambda: scene.choose("sim-0"))
    assert scene.machines.status()["databases"] == []
    for member in scene.machines.members:
        scene.machines.pool.until(
            lambda mark=member.mark: len(list_processes(mark)) == 3,  # type: ignore[misc]
            "no database on a member",
        )


def test_the_next_cluster_is_taken_by_controllers_that_know_the_first(
    scene: LeaderScene, traffic: Traffic
) -> None:
    # Its log is shorter than that of the first one.
    form_with_killed_server(scene)
    check(scene, traffic, lambda: None)
    # With the fixture's end: what a cluster has is removed as well.
