"""The rules of all probes, on recorded hosts with cards of AMD, Intel and nine more makers."""

from collections.abc import Callable
from pathlib import Path

import pytest

from gpupool.probes.contract import Probe
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
