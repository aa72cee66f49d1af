"""Which rule of placement a pool has, by its server's environment."""

from pathlib import Path

import pytest

from gpupool.base.errors import UnknownPolicy
from gpupool.host.placement import policy_from
from gpupool.scheduling.policies import DEFAULT
from gpupool.server.compose import compose, placement_check
from tests.support.house import House


def test_without_a_word_it_is_the_default() -> None:
    assert policy_from({"PATH": "/bin", "GPUPOOL_POLICY": ""}) == DEFAULT


def test_a_policy_is_taken_by_its_name() -> None:
    assert policy_from({"GPUPOOL_POLICY": "default+power"}) == "default+power"


def test_an_unknown_policy_is_refused() -> None:
    with pytest.raises(UnknownPolicy):
        policy_from({"GPUPOOL_POLICY": "default+powr"})


def test_the_pool_places_by_it(tmp_path: Path) -> None:
    allocations = compose(House(tmp_path).store, policy="fgd+price").allocations
    assert placement_check(allocations).text == "policy fgd+price decides"
