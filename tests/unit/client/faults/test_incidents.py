"""Incidents in the SDK: one request each, and answers as the wire has them."""

from __future__ import annotations

from pathlib import Path

from gpupool.client import Pool
from gpupool.client.faults.incidents import Incidents
from tests.unit.cli.pool.test_faults import INCIDENT, ROW
from tests.unit.client.scripted_pool import Request, ScriptedPool, reply


def answer(asked: Request) -> bytes:
    return reply([ROW] if asked.target.startswith("/api/v1/faults?") else INCIDENT)


def test_each_verb_is_one_request_and_its_answer_is_typed(tmp_path: Path) -> None:
    with ScriptedPool(tmp_path, answer) as server, Pool(tmp_path) as pool:
        incidents = Incidents(pool.api)
        (row,) = incidents.list_incidents(node="node-1", every=True)
        found = incidents.find(row.id)
        incidents.accept(row.id)
        incidents.close(row.id, "reset", still_failed=True)
    assert (row.xid, found.evidence[0].mnemonic) == (94, "ROBUST_CHANNEL_CONTAINED_ERROR")
    assert [(one.method, one.target) for one in server.requests] == [
        ("GET", "/api/v1/faults?node=node-1&all=true"),
        ("GET", f"/api/v1/faults/{row.id}"),
        ("POST", f"/api/v1/faults/{row.id}/accept"),
        ("POST", f"/api/v1/faults/{row.id}/close"),
    ]
    assert server.requests[-1].json == {"note": "reset", "still_failed": True}
