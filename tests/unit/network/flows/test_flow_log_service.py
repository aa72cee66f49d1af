"""Flow logs of tenants: made, filled by agents' reports, bounded, and read by their owner alone."""

from __future__ import annotations

import pytest

from gpupool.base.errors import NameTaken, TooManyNetworks, UnknownNetwork, UnknownTenant
from gpupool.model.tenant import Principal, UserRole
from gpupool.network.flows import records as records_module
from gpupool.network.flows import service as module
from gpupool.network.flows.service import FlowLogService
from gpupool.tenancy.tenants import insert_tenant
from gpupool.wire.fleet import ReportsIn
from gpupool.wire.network.engine import NetworkEngineReport
from gpupool.wire.network.flows import FlowLogIn, FlowRecordReport, FlowReport
from gpupool.wire.network.networks import SubnetIn
from gpupool.wire.network.security_groups import SecurityGroupIn
from tests.unit.network.conftest import NetworkHouse


@pytest.fixture
def logs(house: NetworkHouse) -> FlowLogService:
    house.enable()
    house.create_network("lab", "10.0.0.0/24")
    house.allocations.security_groups.create_group(house.admin, "lab", SecurityGroupIn(name="db"))
    return house.allocations.flow_logs


class LoggedNetwork:
    """What the agent of the house's machine logs of the network `lab`."""

    def __init__(self, house: NetworkHouse) -> None:
        self.house = house
        self.number = 0
        self.network = house.allocations.networks.get_network(house.admin, "lab").id
        (group,) = house.allocations.security_groups.list_groups(house.admin, "lab")
        self.group = group.id

    def make_record(
        self, rule: str = "others", source: str = "10.0.0.77", target: str = "10.0.0.78"
    ) -> FlowRecordReport:
        owner = "default" if rule == "default" else self.group
        return FlowRecordReport(
            at_ns=self.house.store.clock.now_ns() // 10**9 * 10**9,
            rule=f"{self.network}/{owner}/{rule}",
            is_denied=rule == "others",
            protocol="tcp",
            source=source,
            source_port=40000,
            target=target,
            target_port=7000,
            packets=2,
        )

    def report(self, *records: FlowRecordReport, run: str = "a", skipped: int = 0) -> FlowReport:
        self.number += 1
        made = FlowReport(
            run=run,
            number=self.number,
            records=list(records),
            skipped_packets={self.network: skipped} if skipped else {},
        )
        self.post(made)
        return made

    def post(self, *reports: FlowReport) -> None:
        body = NetworkEngineReport(state="ready", northbound="unix:/nowhere", flows=list(reports))
        self.house.allocations.agents.apply_reports("node-1", ReportsIn(network=body))


@pytest.fixture
def logged(house: NetworkHouse, logs: FlowLogService) -> LoggedNetwork:
    return LoggedNetwork(house)


def create(house: NetworkHouse, name: str, **more: str) -> None:
    body = FlowLogIn.model_validate({"name": name, **more})
    house.allocations.flow_logs.create_log(house.admin, "lab", body)


def read(house: NetworkHouse, name: str, **more: int) -> list[tuple[object, ...]]:
    page = house.allocations.flow_logs.read_records(house.admin, "lab", name, **more)
    return [(one.verdict, one.group, one.rule, one.source, one.target) for one in page.records]


def test_records_go_to_the_logs_that_want_them(house: NetworkHouse, logged: LoggedNetwork) -> None:
    create(house, "every")
    create(house, "denied", choice="denied")
    job = house.submit(name="web", network={"name": "lab"})
    (port,) = house.allocations.networks.get_network(house.admin, "lab").ports
    assert port.job == job.id
    create(house, "web", job="web")
    web = logged.make_record("r-1", source=port.address)
    logged.report(logged.make_record(), logged.make_record("default"), web)
    allowed = ("allowed", "db", "r-1", port.address, "10.0.0.78")
    denied = ("denied", "db", "others", "10.0.0.77", "10.0.0.78")
    assert read(house, "every") == [
        denied,
        ("allowed", None, "default", "10.0.0.77", "10.0.0.78"),
        allowed,
    ]
    assert read(house, "denied") == [denied]
    assert read(house, "web") == [allowed]
    page = house.allocations.flow_logs.read_records(house.admin, "lab", "web")
    assert (page.records[0].source_job, page.records[0].target_job) == ("web", None)
    assert read(house, "web", after=page.next) == []


def test_a_report_that_is_posted_twice_counts_once(
    house: NetworkHouse, logged: LoggedNetwork
) -> None:
    create(house, "every")
    first = logged.report(logged.make_record(), skipped=5)
    logged.post(first)
    assert len(read(house, "every")) == 1
    # Of another run of the agent, whose numbers begin again.
    logged.number = 0
    logged.report(logged.make_record(), run="b", skipped=5)
    assert len(read(house, "every")) == 2
    (log,) = house.allocations.flow_logs.list_logs(house.admin, "lab")
    assert (log.records, log.skipped_packets) == (2, 10)


def test_a_log_keeps_its_newest_records(
    house: NetworkHouse, logged: LoggedNetwork, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(records_module, "MOST_RECORDS", 3)
    create(house, "every")
    sources = [f"10.0.0.{number}" for number in range(10, 15)]
    logged.report(*(logged.make_record(source=source) for source in sources[:2]))
    logged.report(*(logged.make_record(source=source) for source in sources[2:]))
    assert [one[3] for one in read(house, "every")] == sources[2:]
    (log,) = house.allocations.flow_logs.list_logs(house.admin, "lab")
    assert (log.records, log.expired_records) == (3, 2)
    assert [one[3] for one in read(house, "every", limit=2)] == sources[3:]


def test_what_was_logged_before_a_log_was_made_is_not_in_it(
    house: NetworkHouse, logged: LoggedNetwork
) -> None:
    old = logged.make_record().model_copy(update={"at_ns": 0})
    create(house, "every")
    logged.report(old)
    assert read(house, "every") == []


def test_agents_read_their_logs_while_a_flow_log_is_there(
    house: NetworkHouse, logged: LoggedNetwork
) -> None:
    def is_wanted() -> bool:
        work = house.allocations.agents.read_work("node-1", 0).network
        assert work is not None
        return work.flows

    assert not is_wanted()
    create(house, "every")
    assert is_wanted()
    house.allocations.flow_logs.delete_log(house.admin, "lab", "every")
    assert not is_wanted()
    create(house, "every")
    # With the network its flow logs go.
    logged.report(logged.make_record())
    house.allocations.networks.delete_network(house.admin, "lab")
    assert not is_wanted()


def test_another_tenant_sees_no_record(house: NetworkHouse, logged: LoggedNetwork) -> None:
    create(house, "every")
    with house.store.write() as write:
        tenant = insert_tenant(write, "other")
    stranger = Principal(2, "eve", tenant, "other", UserRole.TENANT_ADMIN)
    with pytest.raises(UnknownNetwork):
        house.allocations.flow_logs.read_records(stranger, "lab", "every")
    with pytest.raises(UnknownTenant):
        house.allocations.flow_logs.read_records(stranger, "lab", "every", "default")


def test_what_is_refused_says_why(
    house: NetworkHouse, logs: FlowLogService, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST_FLOW_LOGS", 1)
    create(house, "every")
    with pytest.raises(NameTaken, match="already has a flow log 'every'"):
        create(house, "every")
    with pytest.raises(TooManyNetworks, match="has 1 flow logs; 1 is the most"):
        create(house, "more")
    with pytest.raises(UnknownNetwork, match="no flow log 'gone'"):
        logs.read_records(house.admin, "lab", "gone")
    with pytest.raises(UnknownNetwork, match="no flow log 'gone'"):
        logs.delete_log(house.admin, "lab", "gone")


def test_records_over_ipv6_have_the_names_of_their_jobs(
    house: NetworkHouse, logged: LoggedNetwork
) -> None:
    house.allocations.networks.create_subnet(
        house.admin, "lab", SubnetIn(name="six", cidr="10.1.0.0/24", cidr6="fd12::/64")
    )
    create(house, "every")
    job = house.submit(name="web", network={"name": "lab", "address6": "fd12::7"})
    assert job.address6 == "fd12::7"
    house.submit(name="plain", network={"name": "lab"})
    logged.report(logged.make_record(source="fd12::7", target="fd12::99"))
    (record,) = house.allocations.flow_logs.read_records(house.admin, "lab", "every").records
    assert (record.source_job, record.target_job) == ("web", None)
