"""What the supervisor shows a job besides its share: directories and files of the host, for it
alone, or nothing."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpupool.agent.supervisor import client
from gpupool.agent.supervisor.client import BindMount, JobSpec, SupervisorConnection
from gpupool_native import shim_path
from tests.support.supervised import Jobs, await_end, supervised_jobs

UID = 54321


@pytest.fixture
def jobs(tmp_path: Path) -> Iterator[Jobs]:
    for part in (tmp_path, *tmp_path.parents):
        if part != Path("/") and part.stat().st_uid == os.geteuid():
            part.chmod(part.stat().st_mode | 0o111)
    yield from supervised_jobs(tmp_path)


@pytest.fixture
def base(tmp_path: Path) -> Iterator[Path]:
    """Where the job's private mounts are, as a user's own pool has it; on the host only empty
    directories stay."""
    place = Path(f"/tmp/gpupool-binds-{os.getuid()}-{os.getpid()}")
    yield place
    if place.exists():
        for path in place.iterdir():
            path.rmdir()
        place.rmdir()


def source(tmp_path: Path, name: str, text: str) -> Path:
    directory = tmp_path / name
    directory.mkdir()
    (directory / "file").write_text(text)
    return directory


def fields(tmp_path: Path, base: Path, *binds: BindMount) -> dict[str, object]:
    share = source(tmp_path, "share", "the share")
    unmounted = {"LD_LIBRARY_PATH": "/advisory:/own", "ONLY": "unmounted"}
    environment = {"PATH": "/usr/bin:/bin", "LD_LIBRARY_PATH": "/own"}
    return {
        "share_directory": str(share),
        "share_mount": str(base / "share"),
        "binds": binds,
        "environment": environment,
        "unmounted_environment": unmounted,
    }


def test_directories_and_files_appear_where_they_were_asked_for_and_nowhere_else(
    jobs: Jobs, tmp_path: Path, base: Path
) -> None:
    usage, over = source(tmp_path, "usage", "old"), source(tmp_path, "over", "the stand-in")
    covered = source(tmp_path, "covered", "the driver") / "file"
    driver = source(tmp_path, "driver", "")
    binds = (
        BindMount(str(usage), str(base / "usage"), writable=True),
        BindMount(str(driver), str(base / "driver")),
        BindMount(str(covered), str(base / "driver/file")),
        BindMount(str(over / "file"), str(covered)),
    )
    script = (
        f"cat {base}/share/file {base}/usage/file {base}/driver/file {covered}; echo; "
        f"echo new > {base}/usage/file; echo no > {base}/driver/file; echo no > {covered}; "
        "echo $LD_LIBRARY_PATH$ONLY; cp /bin/true x 2>/dev/null; true"
    )
    record, output = jobs.shell(script, **fields(tmp_path, base, *binds))
    assert (record.share, record.share_refused) == ("mounted", ""), output
    lines = output.decode().splitlines()
    assert lines[0] == "the shareoldthe driverthe stand-in"
    assert lines[-1] == "/own"
    assert output.count(b"Read-only file system") == 2
    assert (usage / "file").read_text() == "new\n"
    assert (covered.read_text(), (driver / "file").read_text()) == ("the driver", "")
    assert sorted(path.name for path in base.iterdir()) == ["driver", "share", "usage"]
    assert not any(list(path.iterdir()) for path in base.iterdir())


@pytest.mark.parametrize("missing", ["source", "target", "link"])
def test_a_bind_that_is_refused_takes_all_others_back_and_the_environment_says_what_to_use(
    jobs: Jobs, tmp_path: Path, base: Path, missing: str
) -> None:
    usage = source(tmp_path, "usage", "usage")
    (tmp_path / "link").symlink_to(usage / "file")
    bad = {
        "source": BindMount(str(tmp_path / "none"), str(base / "driver")),
        "target": BindMount(str(usage), str(tmp_path / "none")),
        "link": BindMount(str(usage / "file"), str(tmp_path / "link/x")),
    }[missing]
    binds = (BindMount(str(usage), str(base / "usage"), writable=True), bad)
    script = f"echo $GPUPOOL_SHARE $LD_LIBRARY_PATH $ONLY; ls -A {base}/usage {base}/share; cat $GPUPOOL_SHARE/file"
    record, output = jobs.shell(script, **fields(tmp_path, base, *binds))
    assert record.share == "environment"
    assert record.share_refused.endswith(("No such file or directory", "Not a directory")), (
        record.share_refused
    )
    lines = output.decode().splitlines()
    assert lines[0] == f"{tmp_path}/share /advisory:/own unmounted"
    assert "file" not in lines[1:-1]
    assert lines[-1] == "the share"


def test_a_running_job_tells_why_its_mounts_were_refused(
    jobs: Jobs, tmp_path: Path, base: Path
) -> None:
    bad = BindMount(str(tmp_path / "none"), str(base / "driver"))
    job_dir = jobs.start("sleep", "600", **fields(tmp_path, base, bad))
    with SupervisorConnection(job_dir) as line:
        live = line.read_status()
    assert (live.share, live.share_refused) == (
        "environment",
        f"bind mount at {base}/driver: No such file or directory",
    )


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="plays another user")
def test_a_user_without_root_gets_the_same_in_a_user_namespace_of_his_own(tmp_path: Path) -> None:
    """The supervisor runs as that user; a file of root's is covered, and the user keeps his own
    name in it."""
    for part in (tmp_path, *tmp_path.parents):
        if part != Path("/"):
            part.chmod(part.stat().st_mode | 0o111)
    base, place = Path(f"/tmp/gpupool-binds-{UID}-{os.getpid()}"), tmp_path / "own"
    job_dir = place / "job"
    job_dir.mkdir(parents=True)
    cache = source(place, "cache", "private")
    covered = source(tmp_path, "covered", "the host's") / "file"
    known = fields(place, base, BindMount(str(cache / "file"), str(covered)))
    spec = JobSpec("binds-own", ("sh", "-c", f"cat {covered}; id -u"), "/", **known)  # type: ignore[arg-type]
    client.write_spec(job_dir, spec)
    for path in (place, *place.rglob("*")):
        os.chown(path, UID, UID)
    try:
        done = subprocess.run(
            [shim_path(), job_dir], user=UID, group=UID, extra_groups=[], timeout=20, check=False
        )
        assert done.returncode == 0
        record = await_end(job_dir)
        output = client.read_log(job_dir, 0, 1000).data.decode()
        refused = "user namespace" in record.share_refused
        assert (record.share, output) == (
            ("mounted", f"private{UID}\n") if not refused else ("environment", f"the host's{UID}\n")
        )
        assert covered.read_text() == "the host's"
    finally:
        for path in base.iterdir():
            path.rmdir()
        base.rmdir()


def test_a_line_break_in_a_path_is_refused_before_it_is_written(tmp_path: Path) -> None:
    spec = JobSpec(
        "j",
        ("true",),
        "/",
        share_directory="/s",
        share_mount="/m/s",
        binds=(BindMount("/a\nb", "/m/x"),),
    )
    with pytest.raises(client.BadSpec, match="line break"):
        client.write_spec(tmp_path, spec)
