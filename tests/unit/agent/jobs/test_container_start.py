"""What the supervisor is told of a job's container."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from gpupool.agent.jobs.container_start import ContainerHost, contain_job
from gpupool.agent.supervisor.client import JobSpec, ResourceLimit
from gpupool.base.errors import RequestRejection
from gpupool.mechanisms.containers.accounts import ContainerAccount, IdRange, MissingPart
from gpupool.mechanisms.containers.podman import PodmanInstallation
from gpupool.mechanisms.contract import HostMount, PreparedAllocation
from gpupool.model.container import ContainerPolicy
from gpupool.model.enforcement import FenceLevel
from gpupool.wire.fleet import WorkOut

PODMAN = PodmanInstallation("/bin/podman", "/bin/unshare", "/sbin/runc", (4, 3), False)
IDS = IdRange(100_000, 65_536)


def make_work(**container: Any) -> WorkOut:
    return WorkOut(
        allocation="a-1", generation=1, job="j-1", job_name="train", want="run", tenant="default",
        user="ann", sharing="fixed", seats=[], argv=["train", "-v"], cwd="/home/ann",
        env={"EPOCHS": "3"}, umask=0o027, limits={}, run_as=None, attached=True, max_seconds=None,
        started=False, container={"image": "a:1", **container},
    )  # fmt: skip


def make_host(tmp_path: Path, *, own_pool: bool = False, **settings: Any) -> ContainerHost:
    account = ContainerAccount("ann", os.geteuid(), os.getegid(), str(tmp_path), IDS, IDS)
    usual = {
        "find_installation": lambda: PODMAN,
        "find_user": lambda _uid, _gid: account,
        "policy": ContainerPolicy(own_pool=own_pool),
    }
    return ContainerHost(own_pool=own_pool, memory_bytes=64 << 30, pid_max=9999, **usual | settings)


@pytest.fixture
def prepared(tmp_path: Path) -> PreparedAllocation:
    (tmp_path / "a-1/share").mkdir(parents=True)
    (tmp_path / "a-1/usage").mkdir()
    (tmp_path / "lib").mkdir()
    for name in ("a-1/usage/region", "lib/libcuda.so.1", "lib/hook"):
        (tmp_path / name).touch()
    return PreparedAllocation(
        env={"CUDA_VISIBLE_DEVICES": "GPU-1"},
        allow_nodes=(),
        deny_nodes=(),
        share_dir=tmp_path / "a-1/share",
        fence=FenceLevel.SOFT,
        mounts=(
            HostMount(tmp_path / "lib/libcuda.so.1", "/usr/lib64/libcuda.so.1"),
            HostMount(tmp_path / "a-1/usage/region", "/run/gpupool/usage/region", writable=True),
        ),
        image_check=(str(tmp_path / "lib/hook"), "GP-2018", "2.28"),
    )


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    (tmp_path / "job").mkdir()
    return tmp_path / "job"


def make_spec(prepared: PreparedAllocation) -> JobSpec:
    return JobSpec(
        "j-1",
        ("train", "-v"),
        "/home/ann",
        limits={"nofile": ResourceLimit(1024, None)},
        share_directory=str(prepared.share_dir),
        share_mount="/tmp/gpupool-1/share",
        unmounted_environment={"LD_LIBRARY_PATH": "/x"},
    )


def test_the_accounts_podman_reaches_the_agents_files_by_private_mounts(
    tmp_path: Path, directory: Path, prepared: PreparedAllocation
) -> None:
    work = make_work()
    spec = contain_job(make_spec(prepared), work, prepared, directory, make_host(tmp_path))
    # Root's own images are the one thing that is named by path.
    words = " ".join(word for word in spec.arguments if not word.startswith("--root="))
    assert str(tmp_path) not in words
    assert "src=/run/gpupool/share,dst=/run/gpupool/share,ro=true" in words
    assert "dst=/run/gpupool/run" in words
    assert "GPUPOOL_RUN=/run/gpupool/run" in words
    assert spec.share_mount == "/run/gpupool/share"
    by_target = {bind.target: bind for bind in spec.binds}
    for mount in prepared.mounts:
        (word,) = [word for word in spec.arguments if f"dst={mount.target}," in word]
        source = Path(word.split("src=")[1].split(",")[0])
        bind = by_target[str(source.parent)]
        assert Path(bind.source) / source.name == mount.source
        assert bind.writable == mount.writable
    assert spec.arguments[-3:] == ("a:1", "train", "-v")
    assert spec.directory == "/"
    assert spec.environment["EPOCHS"] == "3"
    assert spec.unmounted_environment == {}


def test_the_hook_and_the_settings_are_the_agents(
    tmp_path: Path, directory: Path, prepared: PreparedAllocation
) -> None:
    spec = contain_job(make_spec(prepared), make_work(), prepared, directory, make_host(tmp_path))
    hook = json.loads((directory / "container-settings/hooks/gpupool.json").read_text())
    assert hook["stages"] == ["createRuntime"]
    assert hook["hook"]["args"][1:] == ["GP-2018", "2.28"]
    shown = Path(hook["hook"]["path"])
    assert any(bind.target == str(shown.parent) and not bind.writable for bind in spec.binds)
    settings = Path(spec.environment["CONTAINERS_CONF"])
    assert any(bind.target == str(settings.parent) and not bind.writable for bind in spec.binds)


def test_in_a_users_own_pool_everything_is_reached_by_path(
    tmp_path: Path, directory: Path, prepared: PreparedAllocation
) -> None:
    host = make_host(tmp_path, own_pool=True)
    spec = contain_job(make_spec(prepared), make_work(), prepared, directory, host)
    assert (spec.binds, spec.share_mount, spec.share_directory) == ((), None, None)
    assert f"src={prepared.share_dir},dst=/run/gpupool/share," in " ".join(spec.arguments)


def test_the_image_that_was_found_at_submission_runs(
    tmp_path: Path, directory: Path, prepared: PreparedAllocation
) -> None:
    image = "sha256:" + "a" * 64
    work = make_work(image_id=image)
    spec = contain_job(make_spec(prepared), work, prepared, directory, make_host(tmp_path))
    assert spec.arguments[-3] == image


def test_a_link_out_of_the_home_is_refused_without_its_target(
    tmp_path: Path, directory: Path, prepared: PreparedAllocation
) -> None:
    (tmp_path / "link").symlink_to("/etc")
    volume = {"source": f"{tmp_path}/link", "target": "/x"}
    work = make_work(volumes=[volume])
    with pytest.raises(RequestRejection, match=r"link may not be mounted; allowed") as refused:
        contain_job(make_spec(prepared), work, prepared, directory, make_host(tmp_path))
    assert "/etc" not in str(refused.value)


@pytest.mark.parametrize("missing", ["find_installation", "find_user"])
def test_what_is_missing_is_refused_with_the_next_step(
    tmp_path: Path, directory: Path, prepared: PreparedAllocation, missing: str
) -> None:
    host = make_host(
        tmp_path, **{missing: lambda *_: MissingPart("no Podman", "apt-get install it")}
    )
    with pytest.raises(RequestRejection, match="no Podman: apt-get install it"):
        contain_job(make_spec(prepared), make_work(), prepared, directory, host)
    assert not (directory / "container").exists()


def test_a_second_start_begins_with_an_empty_directory(
    tmp_path: Path, directory: Path, prepared: PreparedAllocation
) -> None:
    host = make_host(tmp_path)
    first = contain_job(make_spec(prepared), make_work(), prepared, directory, host)
    (directory / "container/pid").write_text("1")
    assert contain_job(make_spec(prepared), make_work(), prepared, directory, host) == first
    assert not (directory / "container/pid").exists()
