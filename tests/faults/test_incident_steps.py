"""A server, with its agent inside, that is killed at the commits of an incident.

The driver tells an XID once. Whatever is killed, the incident has each XID once, and what a person
did is done once.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from gpupool.base.errors import PoolLost
from gpupool.model.faults.actions import RecoveryAction
from gpupool.probes.simulated_health import report_xid
from gpupool.store.faults import STEPS
from tests.faults.pool import FaultPool, until
from tests.faults.steps import arm

pytestmark = [pytest.mark.root, pytest.mark.adversary, pytest.mark.nightly]

KINDS = ("fault.opened", "fault.changed", "fault.accepted")


@pytest.fixture
def pool(tmp_path: Path) -> Iterator[FaultPool]:
    tmp_path.chmod(0o755)
    with FaultPool(tmp_path / "state", sim="2xT4") as made:
        yield made


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("step", STEPS)
def test_an_incident_has_each_xid_once_whenever_the_server_is_killed(
    pool: FaultPool, step: str, kind: str
) -> None:
    control = pool.paths.root / "simulated"
    arm(pool, step, kind)
    report_xid(control, 0, 94)
    if kind == "fault.opened":
        survive_kill(pool)
    until(lambda: count_rows(pool, "fault_evidence") == 1, "the first XID")
    report_xid(control, 0, 154, RecoveryAction.GPU_RESET)
    if kind == "fault.changed":
        survive_kill(pool)
    until(lambda: count_rows(pool, "fault_evidence") == 2, "the second XID")
    with pool.api() as api:
        (row,) = api.request("GET", "faults")
        if kind == "fault.accepted":
            with pytest.raises(PoolLost):
                api.request("POST", f"faults/{row['id']}/accept", {})
    if kind == "fault.accepted":
        survive_kill(pool)
    with pool.api() as api:
        accepted = api.request("POST", f"faults/{row['id']}/accept", {})
        (only,) = api.request("GET", "faults")
    assert (accepted["xid"], accepted["repair"], only["state"]) == (94, "reset", "accepted")
    assert [one["xid"] for one in accepted["evidence"]] == [94, 154]
    assert [count_events(pool, one) for one in KINDS] == [1, 1, 1]
    until(lambda: not list((pool.paths.agent / "faults").glob("*")), "an empty journal")


def survive_kill(pool: FaultPool) -> None:
    until(lambda: pool.server_pid() is None, "the kill")
    pool.up()


def count_rows(pool: FaultPool, table: str) -> int:
    return int(pool.rows(f"SELECT count(*) AS n FROM {table}")[0]["n"])


def count_events(pool: FaultPool, kind: str) -> int:
    return len(pool.rows("SELECT seq FROM events WHERE kind = ?", kind))
