"""Which level the fence reaches on a node."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpupool.mechanisms.driver.driver_files import find_simulated_libraries, find_templates
from gpupool.mechanisms.fence_survey import survey_fence
from gpupool.mechanisms.offers.fence_summary import find_fence_levels
from gpupool.model.enforcement import FenceLevel, spread_level
from gpupool.model.isolation.host_facts import HostFacts
from gpupool.probes.simulated import parse_sim


@pytest.mark.parametrize("own_pool", [True, False])
def test_the_level_is_what_the_survey_of_the_node_finds(own_pool: bool) -> None:
    if find_templates() is None or find_simulated_libraries() is None:
        pytest.skip("gpupool-native is installed without its fence libraries")
    device = parse_sim("1xL40S")[0].devices[0]
    reached = find_fence_levels(device, replace(HostFacts(root=True), own_pool=own_pool))
    survey = survey_fence(own_pool=own_pool, simulated=True)
    assert reached.levels == spread_level(survey.level)
    assert reached.why == survey.why
    if own_pool:
        assert survey.level is FenceLevel.ADVISORY
