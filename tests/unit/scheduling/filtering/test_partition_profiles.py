"""What people mean by the name of a profile."""

from __future__ import annotations

from gpupool.scheduling.filtering.partition_profiles import list_profile_names, resolve_profiles
from tests.support.partition_builders import pool


def called(name: str, sim: str, model: str | None = None) -> list[str]:
    return [one.name for one in resolve_profiles(name, model, pool(sim))]


def test_a_full_name_is_itself_whatever_its_case() -> None:
    assert called("1G.18GB", "2xH200:mig") == ["1g.18gb"]
    assert called("1g.18gb+me", "1xH200:mig") == ["1g.18gb+me"]


def test_a_number_of_slices_is_the_plain_profile_with_the_least_memory() -> None:
    assert called("1g", "1xH200:mig") == ["1g.18gb"]
    assert called("3g", "1xH200:mig") == ["3g.71gb"]
    assert called("4g", "1xA30:mig") == ["4g.24gb"]


def test_boards_that_differ_are_both_named_unless_the_model_says_which() -> None:
    assert called("1g", "1xH200:mig,1xH100:mig") == ["1g.18gb", "1g.10gb"]
    assert called("1g", "1xH200:mig,1xH100:mig", "H100") == ["1g.10gb"]


def test_what_is_not_published_means_nothing() -> None:
    assert called("5g", "1xH200:mig") == []
    assert called("1g.18gb", "2xH200") == []
    assert list_profile_names(None, pool("2xH200")) == ()
