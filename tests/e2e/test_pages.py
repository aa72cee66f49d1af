"""Commands of the how-to pages, typed in order on a pool of simulated cards: each is accepted.

What a command prints is tested elsewhere. Here a page fails that shows an option, a policy, a quota
or an order of commands which the server refuses.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.e2e.pool_fixture import RealPool
from tests.support import pages
from tests.support.typed_commands import commands

RACKS = ["--label", "sim-0:rack=r1", "--label", "sim-1:rack=r1", "--label", "sim-2:rack=r2"]

#: What each page takes as given, typed before its commands.
GIVEN = {
    "defragment.md": ["submit --gpu 0.2 --preemptible --name small -- sleep 600"],
    "sign-on.md": ["user add alice --tenant default"],
    "simulate.md": ["run --gpu 0.1 -- true", "events --after 0 -o json"],
}
TENANTS = ("nlp", "team-nlp", "team-vision")
#: Commands typed in other tests, by their beginning.
ELSEWHERE = (
    "up",  # the pool runs already
    "down",  # the pool serves the next page too
    "submit --name wide",  # tests/e2e/test_cli_labels.py: it is refused, as the page says
    "simulate LIST.csv",  # the published lists are no part of gpupool
    "simulate sample",  # the README's test
    "replay sample --speed 600",  # it takes five minutes: tests/unit/cli/planning/test_playback.py
    "simulate synthetic:",  # tests/unit/simulation
    "sso test",  # the providers of the page are invented: tests/api, tests/hosts/test_signon.py
    "sso sync",  # the same
    "login https:",  # the same
    "run --gpu 1 --count 16",  # it waits, or sleeps: tests/e2e/test_cli_gangs.py
    "whatif --tune",  # needs days of history: tests/unit/simulation
)
#: Words that a page leaves to its reader, and those of this pool. Its nodes are sim-0 to sim-3.
REPLACED = {"node-3": "sim-3"}
#: Programs that the pages' jobs run and this machine may lack; each ends at once.
PROGRAMS = ("mpirun", "torchrun", "worker")

JOBS = "arrival_seconds,gpu_milli,seconds\n0,300,60\n5,1000,120\n9,500,30\n"
NODES = "sn,model,gpu\nn1,T4,2\nn2,T4,2\n"


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealPool]:
    pool = RealPool(tmp_path_factory.mktemp("pages") / "pool")
    pool.up("--sim", "4x8xH200", *RACKS)
    try:
        for tenant in TENANTS:
            pool.do("tenant", "create", tenant)
        yield pool
    finally:
        pool.do("down", "--purge", "--yes", "--grace", "1s")


@pytest.mark.parametrize(
    "page",
    [
        "console-pages.md",
        "defragment.md",
        "first-ten-minutes.md",
        "gangs.md",
        "open-the-console.md",
        "overview-and-search.md",
        "preemption.md",
        "reservations.md",
        "sharing.md",
        "simulate.md",
        "use-the-console.md",
        "quotas.md",
        "sign-on.md",
        "money.md",
    ],
)
def test_commands_of_the_page_are_accepted_in_their_order(
    page: str, pool: RealPool, tmp_path: Path
) -> None:
    pages.write_files(page, tmp_path)
    (tmp_path / "docs").symlink_to(pages.PAGES.parent)
    (tmp_path / "jobs.csv").write_text(JOBS)
    (tmp_path / "nodes.csv").write_text(NODES)
    (tmp_path / "client-secret.txt").write_text("a secret\n")
    (tmp_path / "password.txt").write_text("four words make sentences\n")
    for name in PROGRAMS:
        (tmp_path / name).symlink_to("/bin/true")
    path = f"{tmp_path}:{pool.environ['PATH']}"
    for typed in GIVEN.get(page, []):
        (tmp_path / "events.jsonl").write_text(pool.do(*typed.split()))
    for words in commands(pages.PAGES / page):
        typed = " ".join(words)
        if typed.startswith(ELSEWHERE):
            continue
        if "--gang-file" in words:
            # It is named as the gang of the page's first command, whose program ends at once.
            pool.until(lambda: "train." not in pool.do("ps", "--live"), "the end of that gang")
        done = pool.run(*_localize(words), cwd=tmp_path, environ={"PATH": path}, timeout=300)
        assert done.returncode == 0, f"gpupool {typed}\n{done.stdout}{done.stderr}"
    pool.do("stop", "--all", "--yes", "--grace", "0")


def _localize(words: list[str]) -> list[str]:
    """The command at instants and names of this pool; its question is answered."""
    today = datetime.now(UTC)
    dates = {
        "2026-11-20T08:00": today - timedelta(days=1),
        "2026-11-20T18:00": today + timedelta(days=1),
        "2026-12-01T08:00": today + timedelta(days=1),
        "2026-12-01T22:00": today + timedelta(days=2),
        "2027-01-01": today + timedelta(days=32),
    }
    found = [REPLACED.get(word, word) for word in words]
    found = [f"{dates[word]:%Y-%m-%dT%H:%M}" if word in dates else word for word in found]
    asks = found[:2] in (["quota", "delete"], ["price", "set"]) or "--hand-over" in found
    return [*found, "--yes"] if asks else found
