"""The directories of zones."""

from __future__ import annotations

from pathlib import Path

from gpupool.agent.network.daemons import locate_engine
from gpupool.agent.network.zones.zone_files import find_zone, list_zones, locate_zone


def test_zone_0_has_the_directory_of_an_engine_without_zones(tmp_path: Path) -> None:
    assert locate_zone(tmp_path, 0) == tmp_path
    assert find_zone(tmp_path) == (tmp_path, 0)


def test_a_zone_is_found_by_its_directory(tmp_path: Path) -> None:
    assert list_zones(tmp_path) == []
    for zone in (12, 3):
        locate_zone(tmp_path, zone).mkdir(parents=True)
        assert find_zone(locate_zone(tmp_path, zone)) == (tmp_path, zone)
    assert list_zones(tmp_path) == [3, 12]


def test_engines_of_zones_share_no_file_and_no_namespace(tmp_path: Path) -> None:
    first, second = (locate_engine(locate_zone(tmp_path, zone)) for zone in (0, 1))
    assert first.mark != second.mark
    assert first.namespace != second.namespace
    assert first.run != second.run
