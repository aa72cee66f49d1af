import pytest

from gpupool.base.errors import UnknownPolicy
from gpupool.scheduling.scoring.registry import POLICIES, find_policy


def test_a_policy_is_found_by_its_name() -> None:
    assert find_policy("spread") is POLICIES["spread"]


def test_an_unknown_policy_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(UnknownPolicy) as said:
        find_policy("bin-pack")
    assert said.value.message == 'no placement policy is called "bin-pack"'
    assert said.value.hint.startswith("did you mean binpack? there are: ")
    with pytest.raises(UnknownPolicy) as said:
        find_policy("xyzzy")
    assert said.value.hint.startswith("there are: ")


def test_the_name_of_a_way_to_share_is_told_apart() -> None:
    with pytest.raises(UnknownPolicy) as refused:
        find_policy("burst")
    assert "submit --sharing" in refused.value.hint
    assert "best-fit?" not in refused.value.hint
