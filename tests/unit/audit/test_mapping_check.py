"""What could be mounted over the limits of a job: asked of real namespaces."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from gpupool.audit.mapping_check import FencedJob, MappingCheck
from gpupool.mechanisms.fenced_files import FencedFiles
from gpupool.mechanisms.regions import GRANTS_MAGIC, LIMITS_MAGIC, ShareLimits

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(os.geteuid() != 0, reason="makes mount namespaces"),
]


@pytest.fixture
def known(tmp_path: Path) -> FencedFiles:
    """The pages of an allocation, and a copy of them in `forged`."""
    for folder in ("share", "forged"):
        (tmp_path / folder).mkdir()
        for name, magic in (("limits", LIMITS_MAGIC), ("grants", GRANTS_MAGIC)):
            (tmp_path / folder / name).write_bytes(magic.to_bytes(8, "little").ljust(4096, b"\0"))
    share, limits = tmp_path / "share", ShareLimits("al-1", "job-1", "t", "soft", ())
    return FencedFiles(
        share / "limits", share / "grants", share / "none", (), limits, simulated=True
    )


@pytest.mark.parametrize(
    ("command", "found"),
    [
        ("true", []),
        ("mount --bind {0}/forged {0}/share", ["mount"]),
        ("mount --bind {0}/forged/grants {0}/share/grants", ["mount"]),
        ("mount -t tmpfs none {0}/share", []),
    ],
    ids=["as-made", "limits", "grants-alone", "none-to-be-seen"],
)
def test_pages_mounted_over_the_jobs_own_are_found_though_no_process_has_a_card(
    known: FencedFiles, tmp_path: Path, command: str, found: list[str]
) -> None:
    first = f"{command.format(tmp_path)} && echo made && exec cat"
    words = ["sh", "-c", 'unshare -m sh -c "$1"; true', "supervisor", first]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as supervisor:
        assert supervisor.stdout
        assert supervisor.stdout.readline() == b"made\n"
        job = FencedJob("job-1", "al-1", supervisor.pid)
        told = MappingCheck(tmp_path, str(tmp_path)).check_job(job, known, ())
        assert not MappingCheck(tmp_path, str(tmp_path)).check_job(
            replace(job, mounted=False), known, ()
        )
        supervisor.communicate()
    assert [finding.kind for finding in told] == found


def test_a_driver_that_was_replaced_under_a_job_is_still_the_jobs_own(
    known: FencedFiles, tmp_path: Path
) -> None:
    library = tmp_path / "libcuda.so.535.1"
    library.write_bytes(b"\0" * 4096)
    script = (
        "import mmap, sys; file = open(sys.argv[1], 'r+b'); mapped = mmap.mmap(file.fileno(), 0); "
        "print(1, flush=True); input()"
    )
    words = [sys.executable, "-c", script, str(library)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout
        assert process.stdout.readline() == b"1\n"
        own = replace(known, drivers=frozenset({library.stat().st_ino}))
        library.unlink()
        job = FencedJob("job-1", "al-1", process.pid, mounted=False)
        kinds = []
        for files in (known, own):
            told = MappingCheck(tmp_path, str(tmp_path)).check_job(job, files, {process.pid})
            kinds.append([finding.kind for finding in told])
        process.communicate(b"\n")
    assert kinds == [["driver"], []]
