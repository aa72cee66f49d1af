"""What each zone does of the work of a machine."""

from __future__ import annotations

from gpupool.agent.network.zones.zone_work import select_zone
from gpupool.wire.network.engine import NetworkEngineWork
from gpupool.wire.network.networks import ForwardWork, PortWork, ProxyWork
from gpupool.wire.network.promises import LimitWork


def make_proxy(key: str, zone: int) -> ProxyWork:
    port = PortWork(
        id=key,
        network="v-1",
        address="10.0.0.9",
        prefix=24,
        gateway="10.0.0.1",
        mac="0a:00:00:00:00:01",
        mtu=1442,
        domain="",
        dns_name="web",
        zone=zone,
    )
    return ProxyWork(port=port, listen_port=80)


WORK = NetworkEngineWork(
    want="run",
    zones=[1],
    uplink=True,
    flows=True,
    line_interface="eth1",
    forwards=[ForwardWork(protocol="tcp", port=30000, gateway="198.18.0.5")],
    proxies=[make_proxy("h-0", 0), make_proxy("h-1", 1)],
    limits=[
        LimitWork(key="n-0", subject="port", in_kbit=1),
        LimitWork(key="v-1", subject="gateway", in_kbit=1, zone=1),
    ],
)


def test_each_zone_has_its_proxies_and_limits() -> None:
    for zone, proxy, limit in ((0, "h-0", "n-0"), (1, "h-1", "v-1")):
        ours = select_zone(WORK, zone)
        assert [one.port.id for one in ours.proxies] == [proxy]
        assert [one.key for one in ours.limits] == [limit]
        assert (ours.uplink, ours.flows) == (True, True)


def test_what_belongs_to_the_machine_is_of_zone_0_alone() -> None:
    first = select_zone(WORK, 0)
    assert (first.zones, first.line_interface, len(first.forwards)) == ([1], "eth1", 1)
    other = select_zone(WORK, 1)
    assert (other.zones, other.line_interface, other.forwards) == ([], "", [])


def test_an_end_is_the_same_in_all_zones() -> None:
    end = NetworkEngineWork(want="stop")
    assert select_zone(end, 1) is end
