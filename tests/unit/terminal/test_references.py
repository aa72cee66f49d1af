"""Names that are typed become one segment of a path, or name nothing."""

from __future__ import annotations

import pytest

from gpupool.base.errors import NotFound
from gpupool.terminal.references import job_path, quote_segment


@pytest.mark.parametrize("typed", ["train", "node-1:0", "sweep.3", "..a", "x" * 128])
def test_a_name_is_one_segment(typed: str) -> None:
    assert quote_segment(typed, "job") == typed
    assert job_path(typed) == f"jobs/{typed}"


@pytest.mark.parametrize("typed", ["", ".", "..", "../x", "a/b", "a b", "a?b", "é", "x" * 129])
def test_what_nothing_can_be_named_reaches_no_route(typed: str) -> None:
    with pytest.raises(NotFound, match="no card ") as missing:
        quote_segment(typed, "card")
    assert missing.value.code == "GP-3003"


def test_a_long_name_is_cut_in_the_error() -> None:
    with pytest.raises(NotFound) as missing:
        quote_segment("x" * 200, "job")
    assert missing.value.message == f"no job '{'x' * 77}...'"
