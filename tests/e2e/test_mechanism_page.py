"""The page on choosing a mechanism, typed on a pool of simulated cards.

What the fence enforces depends on the user of the pool: soft in a pool of root, advisory in a
user's own. So `--isolation soft` is accepted in the first and refused in the second.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator

import pytest

from tests.e2e.pool_fixture import RealPool
from tests.support import pages
from tests.support.typed_commands import commands

PAGE = "choosing-a-mechanism.md"


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealPool]:
    pool = RealPool(tmp_path_factory.mktemp("mechanisms") / "pool")
    pool.up("--sim", "2xH200")
    try:
        yield pool
    finally:
        pool.do("down", "--purge", "--yes", "--grace", "1s")


def find_fence_level(pool: RealPool) -> str:
    (card, _) = json.loads(pool.do("mechanisms", "-o", "json"))
    by_name = {offer["name"]: offer for offer in card["mechanisms"]}
    return str(by_name["fence"]["levels"]["memory"])


def test_commands_of_the_page_do_what_it_says(pool: RealPool, tmp_path: os.PathLike[str]) -> None:
    os.symlink("/bin/true", os.path.join(tmp_path, "python"))
    path = f"{tmp_path}:{pool.environ['PATH']}"
    level = find_fence_level(pool)
    typed = 0
    for words in commands(pages.PAGES / PAGE):
        if words[0] == "up":
            continue
        done = pool.run(*words, environ={"PATH": path}, timeout=120)
        refused = "hard" in words or ("soft" in words and level == "advisory")
        assert done.returncode == (2 if refused else 0), f"{words}\n{done.stdout}{done.stderr}"
        if refused:
            assert "GP-1023" in done.stderr
            assert f"is {level}" in done.stderr
        typed += 1
    assert typed >= 9


def test_the_plan_and_the_explanation_of_a_job_agree(pool: RealPool) -> None:
    share = ["--gpu", "0.3", "--memory", "8GiB", "--goal", "latency"]
    plan = json.loads(pool.do("submit", "--dry-run", "-o", "json", *share, "--", "/bin/true"))
    assert plan["mechanism"].startswith("fence")
    assert plan["holds"]["memory"] == find_fence_level(pool)
    assert "whole" in {row["mechanism"] for row in plan["rejected"]}
    job = pool.do("submit", *share, "--", "/bin/sleep", "60").strip()
    answer = json.loads(pool.do("explain", job, "-o", "json"))
    assert (answer["mechanism"], answer["holds"]) == (plan["mechanism"], plan["holds"])
    assert "mechanism: fence" in pool.do("explain", job)
    pool.do("stop", job)
