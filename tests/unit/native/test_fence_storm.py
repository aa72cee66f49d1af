"""Threads, forks and execs at once on the ledger and the table of handles, under the sanitizers."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.native.fence_share import HERE, SRC, compile_c, run, usage_file


@pytest.mark.parametrize("sanitizer", ["thread", "address,undefined"])
def test_threads_forks_and_execs_leave_no_race_no_bad_access_and_an_exact_ledger(
    sanitizer: str, tmp_path: Path
) -> None:
    sources = [HERE / "fence_thread_storm.c", SRC / "process/ledger.c", SRC / "memory/handles.c"]
    storm = compile_c(
        tmp_path / "storm", sources, "-O1", f"-fsanitize={sanitizer}", "-fno-sanitize-recover=all"
    )
    # Tables are found from pages that a fork empties, where the leak checker does not look for
    # them.
    options = {"TSAN_OPTIONS": "die_after_fork=0 halt_on_error=1", "ASAN_OPTIONS": "detect_leaks=0"}
    done = run(storm, usage_file(tmp_path / "region"), 1, environment=options)
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stderr == ""
    allocations, frees, forks = map(int, done.stdout.split())
    assert allocations > 1000
    assert frees > 500
    assert forks > 2
