"""How a job reaches the agent's files."""

from __future__ import annotations

from pathlib import Path

from gpupool.mechanisms.containers.staging import Staging
from gpupool.mechanisms.contract import HostMount


def make(*directories: str) -> Staging:
    return Staging("/run/x", lambda path: str(path) in directories)


def test_a_file_is_reached_through_its_directory_which_is_staged_once() -> None:
    staging = make()
    staged = staging.stage_mounts(
        [HostMount(Path("/s/lib/a.so"), "/usr/lib/a"), HostMount(Path("/s/lib/b.so"), "/usr/lib/b")]
    )
    assert [str(mount.source) for mount in staged] == ["/run/x/stage-0/a.so", "/run/x/stage-0/b.so"]
    assert [mount.target for mount in staged] == ["/usr/lib/a", "/usr/lib/b"]
    assert staging.list_binds() == (HostMount(Path("/s/lib"), "/run/x/stage-0"),)


def test_a_directory_is_staged_itself() -> None:
    staging = make("/s/usage")
    assert staging.stage_path(Path("/s/usage")) == Path("/run/x/stage-0")


def test_the_writable_way_to_a_directory_is_another_one() -> None:
    staging = make("/s/usage")
    mounts = [
        HostMount(Path("/s/usage"), "/u"),
        HostMount(Path("/s/usage/region"), "/u/region", True),
    ]
    staged = staging.stage_mounts(mounts)
    assert [str(mount.source) for mount in staged] == ["/run/x/stage-0", "/run/x/stage-1/region"]
    assert [bind.writable for bind in staging.list_binds()] == [False, True]
