import pytest

from gpupool.base.errors import UnknownPolicy
from gpupool.scheduling.policies import POLICIES, named


def test_a_policy_is_found_by_its_name() -> None:
    assert named("spread") is POLICIES["spread"]


def test_an_unknown_policy_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(UnknownPolicy) as said:
        named("bin-pack")
    assert said.value.message == 'no placement policy is called "bin-pack"'
    assert said.value.hint.startswith("did you mean binpack? there are: ")
    with pytest.raises(UnknownPolicy) as said:
        named("xyzzy")
    assert said.value.hint.startswith("there are: ")
