"""DNS records of a network: what the resolver gets of them, refusals, and whose they are."""

from __future__ import annotations

from ipaddress import IPv4Address

import pytest

from gpupool.base.errors import BadAddress, BadName, NameTaken, TooManyNetworks, UnknownNetwork
from gpupool.model.tenant import Principal, UserRole
from gpupool.network.naming import service
from gpupool.network.naming.tables import dns_records
from gpupool.network.northbound import compile_network
from gpupool.network.reading import read_networks
from gpupool.network.resolver_rows import read_resolver
from gpupool.tenancy.tenants import insert_tenant
from gpupool.wire.network.dns_records import DnsRecordIn
from tests.unit.network.conftest import NetworkHouse

DB = DnsRecordIn(name="DB.store", address="192.0.2.9")


@pytest.fixture
def records(house: NetworkHouse) -> service.DnsRecordService:
    house.create_network("lab", "10.0.0.0/28")
    house.enable()
    return house.allocations.dns_records


def read_addresses(house: NetworkHouse) -> dict[str, tuple[IPv4Address, ...]]:
    with house.store.read() as connection:
        (network,) = read_networks(connection).values()
    (port,) = (row for row in compile_network(network) if row.key.startswith("resolver-port/"))
    options = port.columns["options"]
    assert isinstance(options, dict)
    config = read_resolver("port", options)
    assert config is not None
    return dict(config.addresses)


def test_a_name_has_the_addresses_of_its_records_and_of_its_jobs(
    house: NetworkHouse, records: service.DnsRecordService
) -> None:
    made = records.create_record(house.admin, "lab", DB)
    assert (made.name, made.long_name) == ("db.store", "db.store.lab.gpupool.internal")
    records.create_record(house.admin, "lab", DnsRecordIn(name="web", address="10.0.0.9"))
    house.submit(name="web", network="lab")
    assert read_addresses(house) == {
        "db.store": (IPv4Address("192.0.2.9"),),
        "web": (IPv4Address("10.0.0.2"), IPv4Address("10.0.0.9")),
    }
    records.delete_record(house.admin, "lab", "Web", "10.0.0.9")
    assert read_addresses(house)["web"] == (IPv4Address("10.0.0.2"),)
    assert [one.name for one in records.list_records(house.admin, "lab")] == ["db.store"]


def test_a_record_is_deleted_by_the_address_that_it_was_made_with(
    house: NetworkHouse, records: service.DnsRecordService
) -> None:
    body = DnsRecordIn(name="six", address="FD12:0::1")
    assert records.create_record(house.admin, "lab", body).address == "fd12::1"
    records.delete_record(house.admin, "lab", body.name, body.address)
    assert records.list_records(house.admin, "lab") == []


@pytest.mark.parametrize(
    "name", ["", "a b", "a\nb", "-a", "a..b", ".", "*", "a" * 64, "ä", "a" * 60 + ".b" * 90]
)
def test_what_is_no_host_name_is_refused(
    house: NetworkHouse, records: service.DnsRecordService, name: str
) -> None:
    body = DnsRecordIn.model_construct(name=name, address="10.0.0.9")
    with pytest.raises(BadName, match="not a host name"):
        records.create_record(house.admin, "lab", body)
    assert records.list_records(house.admin, "lab") == []


@pytest.mark.parametrize("address", ["", "x", "10.0.0.9 x", "::1", "0.0.0.0", "224.0.0.1"])
def test_what_is_no_address_to_connect_to_is_refused(
    house: NetworkHouse, records: service.DnsRecordService, address: str
) -> None:
    with pytest.raises(BadAddress):
        records.create_record(house.admin, "lab", DnsRecordIn(name="a", address=address))


def test_refusals_have_numbers_and_the_next_command(
    house: NetworkHouse, records: service.DnsRecordService, monkeypatch: pytest.MonkeyPatch
) -> None:
    records.create_record(house.admin, "lab", DB)
    with pytest.raises(NameTaken, match=r"has the address 192\.0\.2\.9 already"):
        records.create_record(house.admin, "lab", DB)
    monkeypatch.setattr(service, "MOST_RECORDS", 1)
    with pytest.raises(TooManyNetworks, match="1 DNS records; 1 is the most"):
        records.create_record(house.admin, "lab", DnsRecordIn(name="b", address="10.0.0.9"))
    with pytest.raises(UnknownNetwork, match="no DNS record"):
        records.delete_record(house.admin, "lab", "db.store", "192.0.2.10")


def test_another_tenant_sees_and_changes_none(
    house: NetworkHouse, records: service.DnsRecordService
) -> None:
    records.create_record(house.admin, "lab", DB)
    with house.store.write() as write:
        tenant = insert_tenant(write, "other")
    stranger = Principal(2, "ann", tenant, "other", UserRole.TENANT_ADMIN)
    for call in (
        lambda: records.list_records(stranger, "lab"),
        lambda: records.create_record(stranger, "lab", DB),
        lambda: records.delete_record(stranger, "lab", "db.store", "192.0.2.9"),
    ):
        with pytest.raises(UnknownNetwork, match="no network"):
            call()


def test_records_go_with_their_network(
    house: NetworkHouse, records: service.DnsRecordService
) -> None:
    records.create_record(house.admin, "lab", DB)
    house.allocations.networks.delete_network(house.admin, "lab")
    with house.store.read() as connection:
        assert connection.execute(dns_records.select()).all() == []
