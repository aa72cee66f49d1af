"""Lines of the controller's files, and which groups can have it."""

from pathlib import Path

from gpupool.mechanisms.drm import dmem
from tests.unit.mechanisms.drm.fake_cgroups import ADDRESSES, REGIONS, make_group


def test_the_root_is_where_the_capacities_are(tmp_path: Path) -> None:
    group = make_group(tmp_path)
    assert dmem.find_root(group) == tmp_path
    (tmp_path / "dmem.capacity").unlink()
    assert dmem.find_root(group) is None


def test_regions_of_a_card_are_found_by_its_address(tmp_path: Path) -> None:
    make_group(tmp_path)
    with (tmp_path / "dmem.capacity").open("a") as file:
        file.write(f"drm/{ADDRESSES[0]}/stolen 67108864\n")
    capacities = dmem.read_capacities(tmp_path)
    assert dmem.list_card_regions(capacities, ADDRESSES[0]) == (REGIONS[0],)
    assert dmem.list_card_regions(capacities, "0000:99:00.0") == ()


def test_limits_are_written_in_one_write_and_read_back(tmp_path: Path) -> None:
    group = make_group(tmp_path)
    limits = {REGIONS[1]: "4096", REGIONS[0]: "max"}
    dmem.write_limits(group, limits)
    assert (group / "dmem.max").read_text() == f"{REGIONS[0]} max\n{REGIONS[1]} 4096\n"
    assert dmem.read_limits(group) == limits
    assert dmem.read_limits(tmp_path / "gone") == {}


def test_the_controller_is_given_to_the_groups_above_once(tmp_path: Path) -> None:
    group = make_group(tmp_path)
    assert dmem.is_delegated(group)
    (tmp_path / "pool/cgroup.subtree_control").write_text("cpu dmem\n")
    dmem.enable_controller(group)
    assert (tmp_path / "pool/cgroup.subtree_control").read_text() == "cpu dmem\n"
    assert (tmp_path / "pool/jobs/cgroup.subtree_control").read_text() == "+dmem"
    (tmp_path / "pool/cgroup.controllers").write_text("cpu memory\n")
    assert not dmem.is_delegated(group)
