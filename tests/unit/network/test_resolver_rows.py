"""The resolver of a network in OVN: its names survive the way there, and nothing else comes along."""

from __future__ import annotations

from dataclasses import replace
from ipaddress import IPv4Address, IPv4Network

from gpupool.network.addresses import parse_cidr
from gpupool.network.balancing.model import LoadBalancer
from gpupool.network.model import Network, make_gateway
from gpupool.network.northbound import compile_network
from gpupool.network.resolver_rows import (
    RESOLVER_ADDRESS,
    ResolverConfig,
    is_host_name,
    name_resolver_port,
    read_resolver,
)
from gpupool.network.rows import NorthboundRow
from tests.unit.network.networks import make_network


def find_port(network: Network) -> NorthboundRow:
    (row,) = (row for row in compile_network(network) if row.key == f"resolver-port/{network.key}")
    return row


def read_config(network: Network) -> ResolverConfig:
    options = find_port(network).columns["options"]
    assert isinstance(options, dict)
    config = read_resolver("port", options)
    assert config is not None
    return config


def test_every_name_of_a_network_reaches_its_resolver() -> None:
    network = replace(make_network(1, 3), id=7)
    twin = replace(network.ports[1], name=network.ports[0].name)
    config = read_config(replace(network, ports=(network.ports[0], twin, network.ports[2])))
    assert config == ResolverConfig(
        "port",
        7,
        1442,
        "net1.gpupool.internal",
        {
            "job-1000": (IPv4Address("10.0.0.10"), IPv4Address("10.0.0.11")),
            "job-1002": (IPv4Address("10.0.0.12"),),
        },
        is_forwarding=False,
    )


def test_a_balancer_is_found_by_a_name_that_a_host_may_have() -> None:
    balancers = tuple(
        LoadBalancer(number, f"b-{number}", name, "tcp", 80, 80, (), is_checked=False)
        for number, name in enumerate(("My_lb", "api.v1"))
    )
    config = read_config(replace(make_network(1, 0), balancers=balancers))
    assert config.addresses == {
        "my-lb": (IPv4Address("100.126.0.1"),),
        "api.v1": (IPv4Address("100.126.0.2"),),
    }


def test_a_resolver_forwards_while_its_network_has_a_gateway() -> None:
    network = make_network(1, 1)
    gateway = make_gateway(1, IPv4Network("198.18.0.0/16"))
    assert read_config(replace(network, gateway=gateway)).is_forwarding
    assert not read_config(network).is_forwarding


def test_resolvers_of_two_networks_share_an_address_and_no_port() -> None:
    one = find_port(replace(make_network(1, 1), id=1))
    two = find_port(replace(make_network(2, 1), id=2))
    assert one.columns["name"] == name_resolver_port(make_network(1, 1)) != two.columns["name"]
    addresses = [str(row.columns["addresses"]) for row in (one, two)]
    assert all(str(RESOLVER_ADDRESS) in each for each in addresses)
    assert addresses[0] != addresses[1]
    assert one.columns["type"] == "localport"


def test_no_name_of_a_tenant_is_an_option_of_ovn() -> None:
    network = make_network(1, 1)
    names = ("requested-chassis", "vif-plug-type", "gpupool-domain", "qos-max-rate")
    ports = [replace(network.ports[0], name=name) for name in names]
    options = find_port(replace(network, ports=tuple(ports))).columns["options"]
    assert isinstance(options, dict)
    assert not {"requested-chassis", "vif-plug-type", "qos-max-rate"} & options.keys()
    assert options["gpupool-domain"] == "net1.gpupool.internal"


def test_what_is_no_name_or_no_address_never_reaches_a_file() -> None:
    options = {
        "gpupool-number": "1",
        "gpupool-mtu": "1442",
        "gpupool-domain": "a.gpupool.internal",
        "gpupool-name:good": "10.0.0.2 10.0.0.3\n10.0.0.4 x",
        "gpupool-name:b\nad": "10.0.0.2",
        "gpupool-name:a b": "10.0.0.2",
        "gpupool-name:-x": "10.0.0.2",
        "gpupool-name:": "10.0.0.2",
        "other": "10.0.0.9",
    }
    config = read_resolver("port", options)
    assert config is not None
    assert set(config.addresses) == {"good"}
    assert [str(one) for one in config.addresses["good"]] == ["10.0.0.2", "10.0.0.3", "10.0.0.4"]
    assert read_resolver("port", {**options, "gpupool-domain": "a b"}) is None
    assert read_resolver("port", {**options, "gpupool-mtu": "x"}) is None
    assert read_resolver("port", {}) is None


def test_a_host_name_has_labels_of_63_characters_at_most() -> None:
    assert is_host_name("a" * 63 + ".b-0", "net.gpupool.internal")
    assert not is_host_name("a" * 64, "net.gpupool.internal")
    assert not is_host_name("Train", "net.gpupool.internal")
    assert not is_host_name(".".join(["a" * 60] * 4), "net.gpupool.internal")


def test_no_subnet_has_the_address_of_the_resolver() -> None:
    from gpupool.base.errors import BadAddress

    try:
        parse_cidr("100.126.255.240/28")
    except BadAddress as error:
        assert "100.126.0.0/16" in error.message
    else:
        raise AssertionError("a subnet with the address of the resolver was taken")
