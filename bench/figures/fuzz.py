"""Coverage-guided search for inputs that break a parser of a tenant's bytes, five minutes for each.

Native parsers by libFuzzer of clang, those in Python by Atheris, which has the same options.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from bench.rows import Row
from tests.fuzz import python_targets, search_python
from tests.fuzz.targets import CORPUS, TARGETS, build

NAME = "fuzz"
SECONDS = 300


def run(out: Path) -> list[Row]:
    """`BENCH_FUZZ_SECONDS` and `BENCH_FUZZ_TARGETS` choose; inputs that broke one go to
    `out`/fuzz-NAME-…."""
    seconds = int(os.environ.get("BENCH_FUZZ_SECONDS") or SECONDS)
    wanted = (
        os.environ.get("BENCH_FUZZ_TARGETS") or " ".join([*TARGETS, *python_targets.TARGETS])
    ).split()
    command = f"BENCH_FUZZ_SECONDS={seconds} python -m bench {NAME}"
    if not python_targets.TARGETS.keys().isdisjoint(wanted):
        search_python.load_atheris()
    if not TARGETS.keys().isdisjoint(wanted) and shutil.which("clang") is None:
        raise SystemExit(
            "bench fuzz: clang with libFuzzer is needed (Debian: clang, libclang-rt-dev)"
        )
    rows: list[Row] = []
    with tempfile.TemporaryDirectory(prefix="gpupool-fuzz-") as folder:
        for target in wanted:
            runs, broken = search(target, Path(folder), seconds, out)
            print(
                f"{target}: {runs} inputs, {'one broke it' if broken else 'none broke it'}",
                flush=True,
            )
            figure = f"fuzz {target}: inputs tried"
            rows.append(Row(figure, "", runs, command, note=f"{seconds} s"))
            rows.append(Row(f"fuzz {target}: inputs that broke it", "", broken, command, limit=0))
    return rows


def search(target: str, folder: Path, seconds: int, out: Path) -> tuple[int, int]:
    """How many inputs were tried, and whether one broke the target. New inputs of interest are
    thrown away."""
    program = [sys.executable, "-m", "tests.fuzz.search_python", target]
    if target in TARGETS:
        program = [str(build(target, folder, "clang", search=True))]
    found = folder / f"{target}-found"
    found.mkdir()
    options = [
        f"-max_total_time={seconds}",
        "-print_final_stats=1",
        "-timeout=10",
        "-rss_limit_mb=2048",
        "-verbosity=0",
    ]
    options += [f"-artifact_prefix={out}/fuzz-{target}-"]
    done = subprocess.run(
        [*program, *options, found, CORPUS / target],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        check=False,
    )
    text = done.stderr.decode(errors="replace")
    tried = re.search(r"number_of_executed_units: (\d+)", text)
    if done.returncode:
        print(text[-3000:], flush=True)
    return int(tried.group(1)) if tried else 0, int(done.returncode != 0)
