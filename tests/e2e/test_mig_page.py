"""The page on MIG, typed on a pool of simulated cards, which are switched as real ones are."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.pool_fixture import RealPool
from tests.support import pages
from tests.support.typed_commands import commands

PAGE = "mig.md"
#: A shell would write this command's output to the file.
TO_FILE = "plan.json"


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealPool]:
    pool = RealPool(tmp_path_factory.mktemp("mig") / "pool")
    pool.up("--sim", "4xH200,1xA100-80G,1xL40S")
    try:
        yield pool
    finally:
        pool.do("down", "--purge", "--yes", "--grace", "1s")


def list_modes(pool: RealPool) -> dict[str, str]:
    cards: list[Any] = pool.json("gpus")
    return {card["name"]: card["mode"] for card in cards}


def test_commands_of_the_page_do_what_it_says(pool: RealPool, tmp_path: Path) -> None:
    os.symlink("/bin/true", tmp_path / "python")
    path = f"{tmp_path}:{pool.environ['PATH']}"
    planned = ""
    typed = 0
    for words in commands(pages.PAGES / PAGE):
        if words[0] == "up":
            continue
        localized = [word.replace("node-1", "sim-0") for word in words if word != TO_FILE]
        if TO_FILE in words and words[1] == "apply":
            (tmp_path / TO_FILE).write_text(planned)
            localized = words
        done = pool.run(*localized, cwd=tmp_path, environ={"PATH": path}, timeout=120)
        assert done.returncode == 0, f"{words}\n{done.stdout}{done.stderr}"
        if words[0] == "mode" and "--dry-run" not in words:
            # The command returns at once, and its reader looks before going on.
            pool.until(
                lambda: list_modes(pool)["sim-0:0"] == "mig", "the first card is in MIG mode"
            )
        planned = done.stdout
        typed += 1
    assert typed >= 10
    modes = list_modes(pool)
    # `mode` switched the first card, the plan for three `4g` the next two.
    assert [modes[f"sim-0:{index}"] for index in range(4)] == ["mig", "mig", "mig", "plain"]
    assert (modes["sim-1:0"], modes["sim-2:0"]) == ("plain", "plain")
    pool.do("run", "--profile", "4g.71gb", "--", "/bin/true")


def test_an_ampere_card_is_reset_and_a_second_apply_does_nothing(pool: RealPool) -> None:
    steps = pool.json("mig", "apply", "--demand", "1x2g.20gb", "--dry-run")["switches"][0]
    assert steps["needs"] == "reset"
    assert "reset the simulated card, because it changes the mode only then" in steps["steps"]
    out = pool.do("mig", "apply", "--demand", "1x2g.20gb", "--yes")
    assert out.endswith("sim-1:0: done\n")
    again = pool.do("mig", "apply", "--demand", "1x2g.20gb", "--yes")
    assert "no card needs to be switched" in again
    pool.do("run", "--profile", "2g.20gb", "--", "/bin/true")
    pool.do("mode", "sim-1:0", "plain")
    pool.until(lambda: list_modes(pool)["sim-1:0"] == "plain", "the card is plain again")


def test_ctrl_c_leaves_the_switch_going_until_the_job_has_ended(pool: RealPool) -> None:
    job = ("submit", "--gpu", "1", "--model", "H200", "--name", "train", "--max-time", "1h")
    pool.do(*job, "--", "/bin/sleep", "600")
    pool.until_state("train", "running")
    demand = ("--demand", "4x7g.141gb")
    plan = pool.json("mig", "plan", *demand)
    # The tests before this one may have switched the other cards.
    (draining,) = [one for one in plan["switches"] if one["waits_for"]]
    assert draining["waits_for"] == ["train"]
    card = draining["card"]
    apply = pool.start("mig", "apply", *demand, "--yes")
    assert apply.stdout is not None
    while b"draining: 1 share on it" not in (line := apply.stdout.readline()):
        assert line, "the command ended before it told how far the switch is"
    apply.send_signal(signal.SIGINT)
    _, err = apply.communicate(timeout=30)
    assert apply.returncode == 130
    assert b" without this command" in err
    assert list_modes(pool)[card] == "plain"
    pool.do("stop", "train", "--yes", "--grace", "0")
    pool.until(lambda: list_modes(pool)[card] == "mig", "the switch is done without us")
