"""A pool on recorded MI210 cards: the host's own /sys is replaced for the pool alone."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator

import pytest

from tests.e2e.pool_fixture import GPUPOOL, SECONDS, RealPool
from tests.support.recorded_hosts import record_mi210

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(
        os.geteuid() != 0 or shutil.which("unshare") is None, reason="mounts another /sys"
    ),
]

REPLACE_SYS = 'mount --bind "$0" /sys && exec "$@"'


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealPool]:
    root = tmp_path_factory.mktemp("host")
    record_mi210(root)
    pool = RealPool(tmp_path_factory.mktemp("pool") / "state")
    words = ["unshare", "-m", "--propagation", "private", "sh", "-c", REPLACE_SYS]
    done = subprocess.run(
        [*words, str(root / "sys"), *GPUPOOL, "up", "-d"],
        env=pool.environ,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=SECONDS,
        text=True,
        check=False,
    )
    try:
        assert done.returncode == 0, done.stderr
        pool.do("adopt", "all")
        yield pool
    finally:
        pool.do("down", "--purge", "--yes", "--grace", "1s")


def test_the_cards_are_listed_with_their_facts(pool: RealPool) -> None:
    cards = pool.json("gpus")
    assert [card["model"] for card in cards] == ["MI210"] * 4
    assert {card["facts"]["vendor"] for card in cards} == {"amd"}
    assert cards[0]["uuid"] == "GPU-1901ead3a2ecd4a6"
    assert cards[0]["health"] == "ok"
    assert not cards[0]["simulated"]


def test_a_job_with_two_cards_sees_them_by_identity(pool: RealPool) -> None:
    uuids = [card["uuid"] for card in pool.json("gpus")]
    seen = pool.do("run", "--gpu", "2", "--", "printenv", "ROCR_VISIBLE_DEVICES").strip()
    assert len(seen.split(",")) == 2
    assert set(seen.split(",")) <= set(uuids)


def test_a_share_is_counted_on_one_card(pool: RealPool) -> None:
    uuids = {card["uuid"] for card in pool.json("gpus")}
    words = ("--gpu", "0.25", "--memory", "4GiB", "--")
    assert pool.do("run", *words, "printenv", "ROCR_VISIBLE_DEVICES").strip() in uuids
    assert pool.do("run", *words, "printenv", "HSA_CU_MASK").strip() == "0:0-25"
