"""The rules of all probes, on recorded hosts with cards of AMD, Intel and nine more makers."""

from collections.abc import Callable
from pathlib import Path

import pytest

from gpupool.agent.facts import describe_node
from gpupool.fleet.registration import check_body
from gpupool.mechanisms.offers.host_facts import read_host_facts
from gpupool.probes.contract import Probe
from gpupool.wire.fleet import NodeIn
from tests.contract.test_probes import RULES
from tests.support.recorded_hosts import HOSTS


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
@pytest.mark.parametrize("host", HOSTS)
def test_a_probe_keeps_the_rules_on_a_recorded_host(
    host: str, rule: Callable[[Probe], None], tmp_path: Path
) -> None:
    probe = HOSTS[host](tmp_path)
    rule(probe)
    probe.close()


@pytest.mark.parametrize("host", HOSTS)
def test_a_recorded_host_can_be_registered(host: str, tmp_path: Path) -> None:
    probe = HOSTS[host](tmp_path)
    machine = probe.scan()
    body = describe_node(machine, "test", {}, {}, read_host_facts(own_pool=False, cgroups="none"))
    check_body(NodeIn.model_validate_json(body.model_dump_json()))
    assert [card.vendor for card in body.devices] == [card.vendor for card in machine.devices]
    probe.close()
