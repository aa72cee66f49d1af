"""What jobs use, counted over the tree below their supervisor."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from gpupool.agent.monitoring.usage import Process, read_processes, sum_process_trees
from tests.support.supervised import until

TICKS = os.sysconf("SC_CLK_TCK")


def test_a_tree_counts_children_grandchildren_and_those_already_reaped() -> None:
    known = {
        1: Process(1, 0, 1000, 1000, 1000),
        10: Process(10, 1, 500, TICKS, 7),  # the supervisor: its own work is not the job's
        11: Process(11, 10, TICKS, 0, 100),
        12: Process(12, 11, TICKS, 2 * TICKS, 50),
        20: Process(20, 1, 99, 99, 99),
    }
    found = sum_process_trees(known, [10, 77])
    assert set(found) == {10}
    assert (found[10].cpu_milliseconds, found[10].resident_bytes) == (5000, 150)
    assert found[10].pids == {11, 12}


def test_the_terminal_of_a_tree_is_that_of_its_first_process() -> None:
    known = {
        10: Process(10, 1, 0, 0, 0, start_ticks=5, terminal=9),
        12: Process(12, 10, 0, 0, 0, start_ticks=7),
        13: Process(13, 12, 0, 0, 0, start_ticks=8, terminal=7),
    }
    assert sum_process_trees(known, [10])[10].terminal == 0
    known[14] = Process(14, 10, 0, 0, 0, start_ticks=6, terminal=8)
    assert sum_process_trees(known, [10, 14])[10].terminal == 8
    assert sum_process_trees(known, [14])[14].terminal == 0


def test_a_name_with_spaces_and_brackets_does_not_confuse_the_columns(tmp_path: Path) -> None:
    before, times, after = (
        ["S", "10", *"1234567890"[:9]],
        ["300", "20", "7", "3"],
        ["20", "0", "1", "0", "100", "4096"],
    )
    (tmp_path / "42").mkdir()
    (tmp_path / "42" / "stat").write_text(
        "42 (a) R 1 (b ) " + " ".join([*before, *times, *after, "25", "0"])
    )
    (tmp_path / "43").mkdir()  # gone before its file could be read
    (tmp_path / "self").mkdir()
    (process,) = read_processes(tmp_path).values()
    assert process == Process(42, 10, 320, 10, 25 * os.sysconf("SC_PAGE_SIZE"), 100, 3)


def test_a_real_process_that_works_is_seen_working() -> None:
    script = "import sys\nheld = bytearray(40 << 20)\nprint(flush=True)\nwhile True: pass"
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE) as child:
        try:
            assert child.stdout is not None
            child.stdout.readline()
            usage = until(
                lambda: (
                    (
                        tree := sum_process_trees(read_processes(), [os.getpid()])[os.getpid()]
                    ).cpu_milliseconds
                    >= 100
                    and tree
                )
            )
            assert child.pid in usage.pids
            assert usage.resident_bytes >= 40 << 20
        finally:
            child.kill()
