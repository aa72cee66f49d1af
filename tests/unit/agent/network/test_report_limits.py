"""Reports of networks that are longer than a server takes are cut, with counts."""

from __future__ import annotations

from pathlib import Path

from gpupool.agent.network.daemons import locate_engine
from gpupool.agent.network.report_limits import fit_checks, fit_report, make_proxy_report
from gpupool.agent.network.verification.verifier import NetworkVerifier
from gpupool.wire.fleet import ReportsIn
from gpupool.wire.network.engine import MOST_PROXIES, NetworkEngineReport
from gpupool.wire.network.networks import MOST_SERVERS, ProxyReport, ProxyServerReport
from gpupool.wire.network.promises import (
    MOST_CHECKS,
    NetworkCheck,
    NetworkVerificationReport,
    NetworkVerificationWork,
    ProbedGateway,
    ProbePort,
)


def make_port(key: str) -> ProbePort:
    return ProbePort(
        key=key,
        network="lab",
        name=key,
        address="10.0.0.2",
        prefix=24,
        gateway="10.0.0.1",
        mac="0a:00:00:00:00:01",
        mtu=1442,
        domain="lab.gpupool.internal",
    )


def test_a_verification_of_more_gateways_than_a_report_takes_is_reported(tmp_path: Path) -> None:
    """No job may send enough to measure one of them, and no switch runs."""
    gateways = [
        ProbedGateway(
            key=f"v-{number}",
            network=f"net-{number}",
            address="10.0.0.3",
            next_hop="10.0.0.1",
            in_kbit=1000,
        )
        for number in range(MOST_CHECKS + 50)
    ]
    work = NetworkVerificationWork(
        id="c-1",
        sender=make_port("sender"),
        control=make_port("control"),
        outsider=make_port("outsider"),
        jobs=[],
        gateways={},
        limited_gateways=gateways,
    )
    report = NetworkVerifier(locate_engine(tmp_path)).run(work)
    assert len(report.checks) == MOST_CHECKS
    assert report.checks[-1].reason.endswith("name one network")


def test_broken_promises_come_first_and_what_is_left_out_is_counted() -> None:
    checks = [NetworkCheck(name=f"a/{number}", kept=True) for number in range(MOST_CHECKS)]
    checks.append(NetworkCheck(name="untested", kept=None))
    checks.append(NetworkCheck(name="broken", kept=False))
    first, *_, last = fit_checks(checks)
    assert first.name == "broken"
    assert last.reason == (
        "3 more checks are left out: 0 broken, 2 kept, 1 not tested; name one network"
    )
    NetworkVerificationReport(id="c-1", checks=fit_checks(checks))
    assert fit_checks(checks[:3]) == checks[:3]


def test_a_proxy_of_more_jobs_than_a_report_takes_names_those_that_are_not_up() -> None:
    servers = [ProxyServerReport(id=f"n-{number}", state="up") for number in range(MOST_SERVERS)]
    servers += [ProxyServerReport(id="n-down", state="down")]
    report = make_proxy_report("h-1", servers)
    assert len(report.servers) == MOST_SERVERS
    assert report.servers[0].id == "n-down"
    assert report.reason == f"1 of {MOST_SERVERS + 1} jobs behind it are not named"
    assert make_proxy_report("h-1", servers[:3]).reason == ""


def test_a_server_takes_the_report_of_a_machine_with_too_many_proxies() -> None:
    proxies = [
        ProxyReport(id=f"h-{number}", state="ready", is_serving=number > 5)
        for number in range(MOST_PROXIES + 6)
    ]
    engine = NetworkEngineReport(state="ready").model_copy(update={"proxies": proxies})
    report = fit_report(engine)
    body = ReportsIn(network=report).model_dump(mode="json", exclude_defaults=True)
    read = ReportsIn.model_validate(body).network
    assert read is not None
    assert [one.id for one in read.proxies[:1]] == ["h-6"]
    assert read.reason == f"6 of {MOST_PROXIES + 6} load balancers of HTTP are not reported"
