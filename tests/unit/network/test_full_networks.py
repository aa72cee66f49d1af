"""A network whose addresses all have a job: nothing else takes one, and no other tenant waits for it."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from gpupool.base.errors import SubnetFull
from gpupool.network.tables import subnets
from gpupool.wire.network.load_balancers import ExposureIn, HttpSettingsIn, LoadBalancerIn
from tests.unit.network.conftest import NetworkHouse

#: Addresses for jobs of a subnet of 28 bits.
ADDRESSES = 13
WEB = LoadBalancerIn(name="web", port=80, target_port=8000, backends=["serve"])


@pytest.fixture
def pool(house: NetworkHouse) -> NetworkHouse:
    """All cards are taken, so jobs in networks wait."""
    house.enable()
    house.create_network("lab", "10.0.0.0/28")
    house.submit(1000, None, count=8, name="filler")
    return house


def place_all(pool: NetworkHouse) -> None:
    pool.finish("filler")
    while pool.allocations.placer.run_cycle().more:
        pass


@pytest.mark.parametrize("http", [None, HttpSettingsIn()])
def test_a_balancer_takes_no_address_that_a_job_waits_for(
    pool: NetworkHouse, http: HttpSettingsIn | None
) -> None:
    balancers = pool.allocations.load_balancers
    for number in range(ADDRESSES):
        pool.submit(100, name=f"job-{number}", network="lab")
    body = WEB.model_copy(update={"http": http})
    with pytest.raises(SubnetFull, match="would have 12 addresses for jobs, and 13 jobs"):
        balancers.create_balancer(pool.admin, "lab", body)
    # Without probes it takes none.
    plain = WEB.model_copy(update={"name": "plain", "is_checked": False})
    balancers.create_balancer(pool.admin, "lab", plain)
    place_all(pool)
    states = [pool.job(f"job-{number}").state for number in range(ADDRESSES)]
    assert states == ["starting"] * ADDRESSES


def test_an_exposure_takes_no_address_that_a_job_waits_for(house: NetworkHouse) -> None:
    house.enable()
    house.create_network("lab", "10.0.0.0/28")
    house.submit(100, name="job-0", network="lab")
    house.submit(1000, None, count=7, name="filler")
    for number in range(1, ADDRESSES):
        house.submit(1000, None, name=f"job-{number}", network="lab")
    with pytest.raises(SubnetFull, match="would have 12 addresses"):
        house.allocations.exposures.expose("job-0", ExposureIn(port=80), house.admin)


@pytest.mark.parametrize("is_array", [False, True])
def test_a_network_with_too_few_addresses_stops_no_other_job(
    pool: NetworkHouse, is_array: bool
) -> None:
    if is_array:
        pool.submit(100, name="many", network="lab", array=ADDRESSES)
    else:
        for number in range(ADDRESSES):
            pool.submit(100, name=f"job-{number}", network="lab")
    pool.submit(100, name="other")
    # As a load balancer of a version before that counted no jobs that wait.
    with pool.store.write() as write:
        write.execute(sa.update(subnets).values(probe_address="10.0.0.14"))
    place_all(pool)
    assert pool.job("other").state == "starting"
    (network,) = pool.allocations.networks.list_networks(pool.admin, None, 10).items
    assert network.subnets[0].free == 0
    pool.allocations.placer.run_cycle()
    pool.submit(100, name="later")
    assert pool.job("later").state == "starting"
