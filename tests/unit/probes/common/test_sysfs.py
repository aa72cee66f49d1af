"""Attributes of sysfs that are there, missing, or refused by the driver."""

from pathlib import Path

from gpupool.probes.common.sysfs import read_link_name, read_number, read_text


def test_text_and_numbers_are_read_without_white_space(tmp_path: Path) -> None:
    (tmp_path / "vendor").write_text("0x10de\n")
    (tmp_path / "numa_node").write_text("-1\n")
    (tmp_path / "mode").write_text("SPX, CPX\n")
    assert read_number(tmp_path / "vendor") == 0x10DE
    assert read_number(tmp_path / "numa_node") == -1
    assert read_text(tmp_path / "mode") == "SPX, CPX"
    assert read_number(tmp_path / "mode") is None


def test_an_attribute_that_cannot_be_read_is_none(tmp_path: Path) -> None:
    # Reading a directory fails as an attribute does whose driver answers with an error.
    assert read_text(tmp_path) is None
    assert read_number(tmp_path / "missing") is None


def test_a_link_is_named_by_its_end_and_a_broken_one_is_none(tmp_path: Path) -> None:
    (tmp_path / "amdgpu").mkdir()
    (tmp_path / "driver").symlink_to(tmp_path / "amdgpu")
    (tmp_path / "broken").symlink_to(tmp_path / "gone")
    assert read_link_name(tmp_path / "driver") == "amdgpu"
    assert read_link_name(tmp_path / "broken") is None
