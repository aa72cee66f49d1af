"""Proxies on a machine: accounts of their own, counts that only grow, and a program that may lack."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from pathlib import Path

import pytest

from gpupool.agent.jobs.helpers import HelperProcesses
from gpupool.agent.network.balancing import proxies
from gpupool.agent.network.daemons import locate_engine
from gpupool.agent.network.job_networks import JobNetworks
from gpupool.network.model import make_proxy_mac
from gpupool.wire.network.networks import PortWork, ProxyRouteWork, ProxyServerWork, ProxyWork


def make_work(number: int) -> ProxyWork:
    port = PortWork(
        id=f"h-{number}",
        network="v-1",
        address="10.0.0.2",
        prefix=24,
        gateway="10.0.0.1",
        mac=make_proxy_mac(number),
        mtu=1442,
        domain="",
        dns_name="web",
    )
    servers = [ProxyServerWork(id="n-1", address="10.0.0.3", port=8000, is_draining=True)]
    return ProxyWork(port=port, listen_port=80, routes=[ProxyRouteWork(servers=servers)])


def test_every_proxy_has_an_account_of_its_own_that_no_person_has() -> None:
    uids = {proxies.find_uid(make_work(number)) for number in range(1, 3000)}
    assert len(uids) == 2999
    # What systemd leaves free (its page "Users, Groups, UIDs and GIDs").
    assert min(uids) > 1_879_048_192
    assert max(uids) < 2_147_483_648


def test_settings_are_those_of_the_work() -> None:
    settings = proxies.make_settings(make_work(1))
    (server,) = settings.routes[0].servers
    assert (server.key, server.port, server.is_draining) == ("n-1", 8000, True)
    assert proxies._list_draining_servers(settings) == {"n-1": ["route0"]}


def test_counts_of_workers_that_have_ended_stay() -> None:
    counts: dict[int, dict[str, int]] = defaultdict(dict)
    counts[11] = {"n-1": 3}
    counts[12] = {"n-1": 4, "n-2": 1}
    proxies._fold_counts(counts, [12])
    proxies._fold_counts(counts, [13])
    assert counts == {0: {"n-1": 7, "n-2": 1}}


def test_a_machine_without_the_program_says_so_for_each_proxy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = replace(locate_engine(tmp_path), run=tmp_path)
    helpers = HelperProcesses(tmp_path / "helpers", 0, lambda _name: ())
    made = proxies.Proxies(files, helpers, JobNetworks(files))
    monkeypatch.setattr(proxies, "PROGRAM", "no-such-program")
    works = [make_work(1), make_work(2)]
    made.apply(works)
    assert made.missing_program == "no-such-program"
    assert [(one.id, one.state, one.reason) for one in made.read_reports(works)] == [
        ("h-1", "failed", "this machine lacks no-such-program"),
        ("h-2", "failed", "this machine lacks no-such-program"),
    ]
    made.watch(works)
    assert helpers.list_names() == []
