"""The hostfile of a gang's member: written beside its share, and named where the job sees it."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpupool.agent.jobs.hostfile import locate_unmounted, write_hostfile
from gpupool.mechanisms.contract import PreparedAllocation
from gpupool.model.enforcement import FenceLevel
from gpupool.wire.fleet import WorkOut


def make_work(**env: str) -> WorkOut:
    return WorkOut(
        allocation="a-1", generation=1, job="j-1", job_name="train.0", want="run", tenant="default",
        user="ann", sharing="fixed", seats=[], argv=["train"], cwd="/", env=env, umask=0o027,
        limits={}, run_as=None, attached=False, max_seconds=None, started=False,
    )  # fmt: skip


@pytest.fixture
def prepared(tmp_path: Path) -> PreparedAllocation:
    return PreparedAllocation({}, (), (), tmp_path / "a-1/share", FenceLevel.SOFT)


def test_each_worker_has_a_line_with_its_cards(prepared: PreparedAllocation) -> None:
    work = make_work(GPUPOOL_GANG_HOSTS="train-0.train,train-1.train", GPUPOOL_GANG_SLOTS="8,4")
    for _ in range(2):
        found = write_hostfile(work, prepared, "/run/gpupool/share")
    assert found.env == {
        **work.env,
        "GPUPOOL_GANG_HOSTFILE": "/run/gpupool/share/hostfile",
    }
    file = prepared.share_dir / "hostfile"
    assert file.read_text() == "train-0.train slots=8\ntrain-1.train slots=4\n"
    assert file.stat().st_mode & 0o777 == 0o644


def test_a_container_finds_it_at_the_same_place_in_every_pool(prepared: PreparedAllocation) -> None:
    work = make_work(GPUPOOL_GANG_HOSTS="127.0.0.1", GPUPOOL_GANG_SLOTS="1")
    contained = WorkOut.model_validate({**work.model_dump(), "container": {"image": "a:1"}})
    found = write_hostfile(contained, prepared, "/tmp/gpupool-1000/share")
    assert found.env["GPUPOOL_GANG_HOSTFILE"] == "/run/gpupool/share/hostfile"


def test_a_job_whose_directory_is_not_mounted_finds_it_on_the_host(
    prepared: PreparedAllocation,
) -> None:
    work = make_work(GPUPOOL_GANG_HOSTS="127.0.0.1", GPUPOOL_GANG_SLOTS="1")
    found = write_hostfile(work, prepared, "/run/gpupool/share")
    path = locate_unmounted(found, prepared)["GPUPOOL_GANG_HOSTFILE"]
    assert Path(path).read_text() == "127.0.0.1 slots=1\n"


def test_a_job_of_no_gang_has_none(prepared: PreparedAllocation) -> None:
    work = make_work(PATH="/bin")
    assert write_hostfile(work, prepared, "/run/gpupool/share") is work
    assert locate_unmounted(work, prepared) == {}
    assert not prepared.share_dir.exists()
