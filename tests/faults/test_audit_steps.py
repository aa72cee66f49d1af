"""A server killed at the commit of a change: the change and its record are both there, or neither."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import sqlalchemy as sa

from gpupool.store.database import connect, open_store, sqlite_url
from gpupool.store.faults import STEPS
from gpupool.tenancy.tables import tenants
from tests.support.audit_logs import read_log, verify_log

#: Two tenants are made; the second write about a tenant is the last thing that the process does.
KILLED = """
import os, sys
from pathlib import Path
from gpupool.store.faults import read_fault
from tests.support.api import running_app
with running_app(Path(sys.argv[1])) as pool:
    pool.services.audit.begin()
    assert pool.client().post("tenants", {"name": "before"}).status == 201
    pool.store._fault = read_fault(os.environ)
    pool.client().post("tenants", {"name": "blue"}, headers={"Idempotency-Key": "k-1"})
"""


@pytest.mark.parametrize("step", STEPS)
def test_a_change_and_its_record_are_both_there_or_neither(tmp_path: Path, step: str) -> None:
    fault = {"GPUPOOL_STORE_FAULT": f"{step}:tenant.created", "GPUPOOL_FAULTS_ALLOWED": "1"}
    root = str(Path(__file__).parents[2])
    done = subprocess.run(
        [sys.executable, "-c", KILLED, str(tmp_path)],
        cwd=root,
        env={**os.environ, **fault, "PYTHONPATH": root},
        check=False,
    )
    assert done.returncode == -signal.SIGKILL
    store = open_store(connect(sqlite_url(tmp_path / "gpupool.db")), "test")
    try:
        with store.read() as connection:
            query = sa.select(tenants.c.name).where(tenants.c.name == "blue")
            is_made = connection.execute(query).first() is not None
        recorded = [one["objects"] for one in read_log(store) if one["kind"] == "change"]
        assert is_made == (step == "after-commit")
        assert recorded == ([["before"], ["blue"]] if is_made else [["before"]])
        found = verify_log(store)
        assert (found.fault, found.is_whole) == (None, True)
        # Nothing is repeated or left out by what comes next.
        with store.write() as write:
            write.event("test.done", "next")
        assert verify_log(store).head == found.head
    finally:
        store.close()
