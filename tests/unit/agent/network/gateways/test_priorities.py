"""Priorities in a real northbound database: read, written in one change, and followed."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from gpupool.agent.network.gateways.drill import swap_roles
from gpupool.agent.network.gateways.priorities import GatewayGroup, GatewayPriorities
from gpupool.base.errors import NetworkingUnavailable
from gpupool.network.gateways.model import GROUP
from tests.support.ovsdb import DatabaseServer, find_missing_part, northbound_server
from tests.support.supervised import until

pytestmark = pytest.mark.skipif(bool(find_missing_part()), reason=find_missing_part())


@pytest.fixture
def server() -> Iterator[DatabaseServer]:
    with northbound_server() as made:
        made.command("ha-chassis-group-add", GROUP)
        made.command("ha-chassis-group-add-chassis", GROUP, "c1", "31")
        made.command("ha-chassis-group-add-chassis", GROUP, "c2", "20")
        yield made


def test_priorities_are_followed_and_written(server: DatabaseServer) -> None:
    priorities = GatewayPriorities(server.remote, {"c1": 11})
    assert priorities.read() == {"c1": 11}
    priorities.start()
    try:
        until(lambda: priorities.read() == {"c1": 31, "c2": 20})
        until(lambda: "bfd-mult" in server.command("list", "NB_Global"))
        server.command("ha-chassis-group-add-chassis", GROUP, "c2", "30")
        until(lambda: priorities.read()["c2"] == 30)
        priorities.request({"c1": 11, "c2": 30}, "c1 is gone")
        assert priorities.wait_until_written(5)
        assert priorities.read() == {"c1": 11, "c2": 30}
        assert "priority            : 11" in server.command("list", "HA_Chassis")
        assert priorities.find_reason("c1") == "c1 is gone"
        assert priorities.find_reason("c2") == ""
    finally:
        priorities.close()


def test_a_database_that_comes_back_is_followed_again(server: DatabaseServer) -> None:
    priorities = GatewayPriorities(server.remote, {})
    priorities.start()
    try:
        until(lambda: priorities.read() == {"c1": 31, "c2": 20})
        server.kill()
        priorities.request({"c1": 11}, "lost")
        # What was read last stays; a change that cannot be written is decided again.
        assert priorities.wait_until_written(10)
        assert priorities.read() == {"c1": 31, "c2": 20}
        server.start()
        server.command("ha-chassis-group-add-chassis", GROUP, "c2", "10")
        until(lambda: priorities.read()["c2"] == 10)
    finally:
        priorities.close()


def test_a_doubt_is_settled_by_a_new_connection_alone(server: DatabaseServer) -> None:
    priorities = GatewayPriorities(server.remote, {})
    priorities.start()
    try:
        until(lambda: priorities.read() == {"c1": 31, "c2": 20})
        server.kill()
        priorities.doubt()
        # What was read before is there, and is no longer believed.
        assert priorities.is_doubtful()
        assert priorities.read() == {"c1": 31, "c2": 20}
        server.start()
        until(lambda: not priorities.is_doubtful())
        priorities.doubt()
        until(lambda: not priorities.is_doubtful())
    finally:
        priorities.close()


def test_roles_are_swapped_in_one_change_or_not_at_all(server: DatabaseServer) -> None:
    group = GatewayGroup(server.remote)
    try:
        with pytest.raises(NetworkingUnavailable, match="c1 does not stand by for c2"):
            swap_roles(group, "c2", "c1", "drill")
        assert group.read_priorities() == {"c1": 31, "c2": 20}
        swap_roles(group, "c1", "c2", "drill")
        assert group.read_priorities() == {"c1": 21, "c2": 30}
        swap_roles(group, "c2", "c1", "drill")
        assert group.read_priorities() == {"c1": 31, "c2": 20}
        assert group.read_reasons() == {"c1": "drill", "c2": "drill"}
    finally:
        group.close()
