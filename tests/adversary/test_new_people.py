"""The first five commands of an account that the pool has never seen, in a new pool and in one
given away wholly."""

from __future__ import annotations

import importlib
import json
import os
import pkgutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

import gpupool.cli
import gpupool.client
import gpupool.wire
from gpupool.cli.main import main
from tests.e2e.pool_fixture import RealPool

pytestmark = [
    pytest.mark.adversary,
    pytest.mark.root,
    pytest.mark.skipif(os.getuid() != 0, reason="only root can be several people"),
]

NEWCOMER, LATECOMER = 54331, 54332


class Said(NamedTuple):
    code: int
    out: str
    err: str


@pytest.fixture(scope="module")
def pool() -> Iterator[RealPool]:
    """In a directory of its own: pytest closes its temporary directories to others each time one of
    it starts."""
    with tempfile.TemporaryDirectory(prefix="gpupool-newcomers-") as place:
        os.chmod(place, 0o755)
        with RealPool(Path(place) / "pool", "2xL40S") as running:
            yield running


def as_user(uid: int, pool: RealPool, *words: str) -> Said:
    """One command of that account; in a fork, as another account may not be able to read this
    Python's library."""
    for package in (gpupool.cli, gpupool.client, gpupool.wire):
        for module in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
            importlib.import_module(module.name)
    importlib.import_module("resource")
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        child = os.fork()
        if child == 0:
            _be(uid, pool.state_dir, words, out.fileno(), err.fileno())
        _, status = os.waitpid(child, 0)
        texts = []
        for file in (out, err):
            file.seek(0)
            texts.append(file.read().decode())
    return Said(os.waitstatus_to_exitcode(status), *texts)


def _be(uid: int, state_dir: Path, words: tuple[str, ...], out: int, err: int) -> None:
    code = 99
    try:
        os.dup2(out, 1)
        os.dup2(err, 2)
        sys.stdout, sys.stderr = os.fdopen(1, "w", closefd=False), os.fdopen(2, "w", closefd=False)
        os.setgroups([])
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)
        os.chdir("/tmp")
        os.environ["GPUPOOL_STATE_DIR"] = str(state_dir)
        code = main(list(words))
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(code)


def facts(said: Said) -> dict[str, str]:
    """`whoami` and `quota show` as a mapping."""
    assert said.code == 0, said
    lines = (line.split("  ", 1) for line in said.out.splitlines() if "  " in line.strip())
    return {name.strip(): value.strip() for name, value in lines}


def test_a_newcomer_s_first_five_commands_work_in_a_new_pool(pool: RealPool) -> None:
    who = facts(as_user(NEWCOMER, pool, "whoami"))
    assert (who["tenant"], who["at most"].split(" ")[0]) == ("default", "no")
    assert "may take now" not in who, "nothing limits it"
    cards = as_user(NEWCOMER, pool, "gpus")
    assert cards.code == 0
    assert cards.out.count("1.00 GPU (100 %) + 46068 MiB") >= 2
    assert facts(as_user(NEWCOMER, pool, "quota", "show"))["tenant"] == "default"
    submitted = as_user(
        NEWCOMER, pool, "submit", "--gpu", "1", "--name", "first", "--", "echo", "hello"
    )
    assert submitted.code == 0, submitted
    pool.until_state("first", "done")
    assert as_user(NEWCOMER, pool, "logs", "first").out == "hello\n"


def test_where_all_is_guaranteed_to_others_a_newcomer_is_told_so_and_what_helps(
    pool: RealPool,
) -> None:
    pool.do("tenant", "create", "owner")
    pool.do("quota", "set", "owner", "--gpus", "2")
    try:
        who = facts(as_user(LATECOMER, pool, "whoami"))
        nothing = "nothing: all is guaranteed to others; what is free with --preemptible"
        assert who["may take now"].startswith(nothing)
        assert facts(as_user(LATECOMER, pool, "quota", "show"))["may take now"].startswith(nothing)
        cards = as_user(LATECOMER, pool, "gpus").out
        assert cards.count("--preemptible only") == 2
        refused = as_user(LATECOMER, pool, "submit", "--gpu", "1", "--name", "never", "--", "true")
        assert refused.code == 3
        assert (
            "GP-2048: cannot start while 2.00 of the pool's 2.00 GPU are guaranteed to others"
            in refused.err
        )
        assert "--preemptible" in refused.err
        assert "gpupool quota" in refused.err
        assert not [job for job in pool.json("ps", "--all") if job["name"] == "never"]
        words = "submit", "--preemptible", "--gpu", "1", "--name", "lent", "--", "true"
        assert as_user(LATECOMER, pool, *words).code == 0
        pool.until_state("lent", "done")
    finally:
        pool.do("quota", "set", "owner", "--gpus", "0")


def test_a_job_that_waits_when_all_is_given_away_is_told_who_can_change_that(
    pool: RealPool,
) -> None:
    pool.do("submit", "--gpu", "1", "--count", "2", "--name", "busy", "--", "sleep", "600")
    assert (
        as_user(LATECOMER, pool, "submit", "--gpu", "1", "--name", "waits", "--", "true").code == 0
    )
    pool.do("quota", "set", "owner", "--gpus", "2")
    try:
        told = as_user(LATECOMER, pool, "explain", "waits").out
        assert "cannot start while 2.00 of the pool's 2.00 GPU are guaranteed to others" in told
        assert "submit it with --preemptible" in told
        assert "an admin can guarantee its tenant a part" in told
        assert "as soon as enough is given back" not in told
        pool.do("stop", "busy", "--grace", "0")
        pool.until_state("busy", "stopped")
        (job,) = (one for one in pool.json("ps", "--all") if one["name"] == "waits")
        assert job["state"] == "pending", json.dumps(job)
    finally:
        pool.do("quota", "set", "owner", "--gpus", "0")
    pool.until_state("waits", "done")
