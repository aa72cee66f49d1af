"""The grants page as it is before the arbiter writes to it."""

from pathlib import Path

import pytest

from gpupool.mechanisms import regions
from gpupool.mechanisms.regions import (
    DamagedRegion,
)


def test_an_empty_grants_page_is_a_good_one(tmp_path: Path) -> None:
    regions.make_file(tmp_path / "grants", regions.empty_grants())
    regions.check_grants(tmp_path / "grants")
    with open(tmp_path / "grants", "r+b") as file:
        file.truncate(100)
    with pytest.raises(DamagedRegion):
        regions.check_grants(tmp_path / "grants")
