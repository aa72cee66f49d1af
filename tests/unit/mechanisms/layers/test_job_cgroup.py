"""The cgroup of a job, made before its supervisor starts."""

from pathlib import Path

import pytest

from gpupool.mechanisms.layers.job_cgroup import (
    choose_group,
    is_version_2,
    make_group,
    remove_group,
)
from tests.support.job_cgroups import enter_group, open_pool_group


def make_root(folder: Path, controllers: str = "cpu dmem memory", enabled: str = "memory") -> Path:
    """A directory with the files of a version 2 hierarchy's root."""
    root = folder / "v2"
    root.mkdir()
    (root / "cgroup.controllers").write_text(controllers)
    (root / "cgroup.subtree_control").write_text(enabled)
    return root


def test_the_version_is_that_of_the_nearest_cgroup_above(tmp_path: Path) -> None:
    root = make_root(tmp_path)
    assert is_version_2(root / "gpupool-p/job")
    older = tmp_path / "v1"
    older.mkdir()
    (older / "tasks").touch()
    assert not is_version_2(older / "gpupool-p/job")


def test_the_cgroup_of_version_2_is_chosen_before_others(tmp_path: Path) -> None:
    newer = str(make_root(tmp_path) / "gpupool-p/job")
    older = str(tmp_path / "v1/gpupool-p/job")
    assert choose_group((older, newer)) == Path(newer)
    assert choose_group((older,)) == Path(older)
    assert choose_group(()) is None


def test_device_memory_is_counted_where_the_kernel_can(tmp_path: Path) -> None:
    root = make_root(tmp_path)
    group = root / "gpupool-p/job"
    group.parent.mkdir()
    (group.parent / "cgroup.controllers").write_text("dmem")
    (group.parent / "cgroup.subtree_control").write_text("")
    make_group(group)
    make_group(group)
    assert group.is_dir()
    assert (root / "cgroup.subtree_control").read_text() == "+dmem"
    assert (group.parent / "cgroup.subtree_control").read_text() == "+dmem"


def test_what_is_enabled_and_what_is_not_there_stay_as_they_are(tmp_path: Path) -> None:
    root = make_root(tmp_path, enabled="dmem memory")
    make_group(root / "gpupool-p/job")
    assert (root / "cgroup.subtree_control").read_text() == "dmem memory"
    assert not (root / "gpupool-p/cgroup.subtree_control").exists()


@pytest.mark.root
def test_a_real_cgroup_goes_when_it_is_empty_and_stays_while_it_is_not() -> None:
    with open_pool_group() as pool:
        group = pool / "job"
        make_group(group)
        enter_group(group)
        try:
            remove_group(group)
            assert group.is_dir()
        finally:
            enter_group(pool.parent)
        remove_group(group)
        remove_group(group)
        assert not group.is_dir()
