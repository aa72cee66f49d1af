"""Labels of nodes by the command line: racks on one machine, remembered and refused."""

from __future__ import annotations

from pathlib import Path

from tests.e2e.pool_fixture import RealPool

RACKS = [word for n in range(4) for word in ("--label", f"sim-{n}:rack=r{n // 2 + 1}")]
WIDE = ("submit", "--gpu", "1", "--topology", "rack", "--gang")


def test_racks_of_simulated_nodes_hold_gangs_and_are_remembered(tmp_path: Path) -> None:
    pool = RealPool(tmp_path / "pool")
    refused = pool.run("up", "-d", "--sim", "4x1xT4", "--label", "sim-9:rack=r1")
    assert (refused.returncode, "is no label of sim-0, sim-1, sim-2, sim-3" in refused.stderr) == (
        2,
        True,
    )
    pool.up("--sim", "4x1xT4", *RACKS)
    try:
        assert pool.do(*WIDE, "2", "--name", "fits", "--", "sleep", "600") == "fits\n"
        nodes = {pool.until_state(f"fits.{n}", "running")["node"] for n in range(2)}
        assert nodes in ({"sim-0", "sim-1"}, {"sim-2", "sim-3"})
        too_wide = pool.run(*WIDE, "3", "--name", "wide", "--", "sleep", "600")
        assert "GP-2015: 3 members must start together in one rack" in too_wide.stderr
        pool.do("down", "--yes", "--grace", "0")
        pool.up()
        assert "GP-2015" in pool.run(*WIDE, "3", "--name", "wide", "--", "true").stderr, (
            "labels are remembered"
        )
        pool.do("down", "--yes")
        pool.up(*(word for n in range(4) for word in ("--label", f"sim-{n}:rack=r1")))
        assert pool.do(*WIDE, "3", "--name", "wide", "--", "true") == "wide\n", "and replaced"
    finally:
        pool.do("down", "--purge", "--yes", "--grace", "0")
