"""Which rule of placement a pool has, by its server's environment."""

from pathlib import Path

import pytest

from gpupool.base.errors import UnknownPolicy
from gpupool.host.settings.placement import read_policy
from gpupool.scheduling.scoring.registry import DEFAULT_POLICY
from gpupool.server.compose import check_placement, compose_services
from tests.support.house import House


def test_without_a_word_it_is_the_default() -> None:
    assert read_policy({"PATH": "/bin", "GPUPOOL_POLICY": ""}) == DEFAULT_POLICY


def test_a_policy_is_taken_by_its_name() -> None:
    assert read_policy({"GPUPOOL_POLICY": "default+power"}) == "default+power"


def test_an_unknown_policy_is_refused() -> None:
    with pytest.raises(UnknownPolicy):
        read_policy({"GPUPOOL_POLICY": "default+powr"})


def test_the_pool_places_by_it(tmp_path: Path) -> None:
    allocations = compose_services(House(tmp_path).store, policy="fgd+price").allocations
    assert check_placement(allocations).text == "policy fgd+price decides"
