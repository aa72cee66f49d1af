"""Addresses of jobs: given with the grant, told to the node, taken back with the release."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from gpupool.base.errors import BadName, NetworkingUnavailable, UnknownNetwork
from gpupool.network.tables import network_ports
from tests.unit.network.conftest import NetworkHouse


def count_ports(house: NetworkHouse) -> int:
    with house.store.read() as connection:
        return int(
            connection.execute(sa.select(sa.func.count()).select_from(network_ports)).scalar_one()
        )


def test_a_job_has_its_address_from_its_grant_to_its_end(house: NetworkHouse) -> None:
    house.enable()
    house.create_network("a", "10.0.0.0/24")
    job = house.submit(300, 8, name="train", network="a")
    (item,) = house.work()
    assert item.network is not None
    assert (job.network, job.address) == ("a", "10.0.0.2")
    assert item.network.address == "10.0.0.2"
    assert item.network.gateway == "10.0.0.1"
    assert item.network.prefix == 24
    assert item.network.dns_name == "train"
    assert item.network.domain == "a.gpupool.internal"
    shown = house.allocations.networks.get_network(house.admin, "a")
    assert [(port.job, port.address) for port in shown.ports] == [(job.id, "10.0.0.2")]
    house.finish("train")
    assert count_ports(house) == 0
    assert house.job("train").address is None


def test_the_next_job_does_not_get_the_address_that_has_just_become_free(
    house: NetworkHouse,
) -> None:
    house.enable()
    house.create_network("a", "10.0.0.0/24")
    assert house.submit(name="one", network="a").address == "10.0.0.2"
    house.finish("one")
    assert house.submit(name="two", network="a").address == "10.0.0.3"


def test_a_job_without_a_network_has_none(house: NetworkHouse) -> None:
    house.enable()
    job = house.submit()
    (item,) = house.work()
    assert job.network is None
    assert item.network is None
    assert count_ports(house) == 0


def test_a_network_that_cannot_carry_a_job_refuses_it_with_the_reason(house: NetworkHouse) -> None:
    house.create_network("a", "10.0.0.0/24")
    with pytest.raises(UnknownNetwork):
        house.submit(network="b")
    with pytest.raises(NetworkingUnavailable, match="not enabled"):
        house.submit(network="a")
    house.allocations.network_engine.enable()
    house.tell_engine("failed", reason="this machine lacks ovn-northd")
    with pytest.raises(NetworkingUnavailable, match="failed: this machine lacks ovn-northd"):
        house.submit(network="a")
    assert house.work() == []


def test_jobs_that_name_no_network_join_the_default_one(house: NetworkHouse) -> None:
    house.enable()
    networks = house.allocations.networks
    for name in ("a", "b"):
        house.create_network(name, "10.0.0.0/24")
        assert networks.set_default(house.admin, name, wanted=True).is_default
    assert house.submit(name="one").network == "b"
    assert house.submit(name="two", network="a").network == "a"
    assert house.submit(name="three", network="none").network is None
    house.tell_engine("failed", reason="no switch")
    with pytest.raises(NetworkingUnavailable):
        house.submit(name="four")
    assert not networks.set_default(house.admin, "b", wanted=False).is_default
    assert house.submit(name="four").network is None
    with pytest.raises(BadName, match="joins none"):
        house.create_network("none", "10.0.0.0/24")
