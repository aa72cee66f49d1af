"""The READMEs' commands, typed in order on a pool of simulated cards.

Their transcripts are what the commands print. `GPUPOOL_UPDATE_GOLDEN=1` writes them into both
READMEs, to be read in the diff.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.pool_fixture import RealPool
from tests.support.transcripts import comparable, played, transcripts, with_outputs

ROOT = Path(__file__).parents[2]
ENGLISH = ROOT / "README.md"
CHINESE = ROOT / "README.zh.md"
STATE_DIR = "/var/lib/gpupool"
ROADS = ["developer", "lab-admin", "platform-and-finance"]


@pytest.fixture
def pool(tmp_path: Path) -> Iterator[RealPool]:
    """A pool that the first command of the README starts."""
    pool = RealPool(tmp_path / "pool")
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin" / "gpupool"
    program.write_text(f'#!/bin/sh\nexec "{Path(sys.executable).parent}/gpupool" "$@"\n')
    program.chmod(0o755)
    pool.environ["PATH"] = f"{program.parent}:{os.environ['PATH']}"
    try:
        yield pool
    finally:
        pool.run("down", "--purge", "--yes", "--grace", "1s")


def typed(pool: RealPool, command: str) -> str:
    """What a person sees who types the command in the root of the repository."""
    if command == "gpupool ps":
        pool.until_state("train", "running")
        pool.until_state("probe", "done")
    done = subprocess.run(
        command,
        shell=True,
        cwd=ROOT,
        env=pool.environ,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=300,
        check=False,
    )
    return done.stdout.replace(str(pool.state_dir), STATE_DIR)


def test_readme_transcripts_are_what_the_commands_print(pool: RealPool) -> None:
    page = ENGLISH.read_text()
    outputs = played(page, lambda command: typed(pool, command))
    if os.environ.get("GPUPOOL_UPDATE_GOLDEN") == "1":
        for readme in (ENGLISH, CHINESE):
            readme.write_text(with_outputs(readme.read_text(), outputs))
        page = ENGLISH.read_text()
    for name, steps in transcripts(page).items():
        for (command, shown), (_, printed) in zip(steps, outputs[name], strict=True):
            assert comparable(command, printed) == comparable(command, shown), command


@pytest.mark.parametrize("readme", [ENGLISH, CHINESE], ids=["en", "zh"])
def test_readme_has_three_roads_of_five_commands(readme: Path) -> None:
    found = transcripts(readme.read_text())
    assert list(found) == ROADS
    assert {len(steps) for steps in found.values()} == {5}


def test_both_readmes_have_the_same_transcripts() -> None:
    assert transcripts(ENGLISH.read_text()) == transcripts(CHINESE.read_text())
