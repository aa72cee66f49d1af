"""`gpupool audit`: whole outputs, exit codes, and what is said of a log that does not hold."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.unit.cli.golden import AnswerWith, TypedLine
from tests.unit.client.scripted_pool import ScriptedPool
from tests.unit.wire.audit.test_chain import make_chain

RECORD = {
    "seq": 7,
    "at_ns": 1_700_000_000 * 10**9,
    "kind": "refusal",
    "action": "DELETE /api/v1/tenants/{tenant}",
    "user": "ada",
    "tenant": "blue",
    "role": "user",
    "credential": "token t-1",
    "source": "192.0.2.1",
    "objects": ["red"],
    "status": 403,
    "code": "GP-3002",
    "times": 3,
    "previous": "0" * 64,
    "hash": "ab" * 32,
}


def page(records: list[dict[str, Any]]) -> dict[str, Any]:
    return {"items": records, "next": None}


def write_lines(file: Path, records: list[dict[str, Any]]) -> str:
    file.write_text("".join(json.dumps(one) + "\n" for one in records))
    return str(file)


def test_audit_list_shows_a_line_for_each_record(
    pool: ScriptedPool, answer_with: AnswerWith, type_line: TypedLine
) -> None:
    own = {
        "seq": 6,
        "at_ns": RECORD["at_ns"],
        "kind": "start",
        "data": {},
        "previous": "",
        "hash": "cd",
    }
    answer_with("GET", "audit", page([RECORD, own]))
    code, out, _ = type_line("audit list --user ada --action DELETE --since 2023-11-01")
    assert code == 0
    first, second = out.splitlines()[1:]
    assert first.split("  ")[0].strip() == "7"
    assert "DELETE /api/v1/tenants/{tenant} (3 times)" in first
    assert "403 GP-3002" in first
    assert "--" in second
    target = pool.requests[0].target
    assert "user=ada" in target
    assert "action=DELETE" in target
    assert "since_ns=1698796800000000000" in target
    assert "order=newest" in target


def test_audit_verify_of_the_pool_prints_the_head(
    answer_with: AnswerWith, type_line: TypedLine
) -> None:
    records = make_chain(3)
    answer_with("GET", "audit", page(records))
    code, out, _ = type_line("audit verify")
    assert code == 0
    assert "3 records, from the first on" in out
    assert f"3:{records[-1]['hash']}" in out
    code, out, _ = type_line(f"audit verify --expect 2:{records[1]['hash']}")
    assert code == 0
    assert "is record 2; 1 record came later" in out
    code, out, _ = type_line("audit verify -o json")
    assert json.loads(out)["head_seq"] == 3


def test_audit_verify_names_the_first_record_that_does_not_hold(
    tmp_path: Path, type_line: TypedLine
) -> None:
    records = make_chain(5)
    records[3]["user"] = "eve"
    code, out, err = type_line(f"audit verify --file {write_lines(tmp_path / 'x', records)}")
    assert (code, out) == (3, "")
    assert "GP-2160" in err
    assert "record 4 does not hold" in err


def test_audit_verify_finds_a_tail_that_was_cut(tmp_path: Path, type_line: TypedLine) -> None:
    records = make_chain(5)
    file = write_lines(tmp_path / "x", records[:3])
    code, out, err = type_line(f"audit verify --file {file} --expect {records[4]['hash']}")
    assert code == 3
    assert "3 records" in out
    assert "GP-2162" in err


def test_audit_verify_refuses_a_pool_whose_begin_is_gone_and_accepts_a_part_in_a_file(
    tmp_path: Path, answer_with: AnswerWith, type_line: TypedLine
) -> None:
    records = make_chain(5)[2:]
    answer_with("GET", "audit", page(records))
    code, _, err = type_line("audit verify")
    assert (code, "GP-2163" in err) == (3, True)
    code, out, _ = type_line(f"audit verify --file {write_lines(tmp_path / 'x', records)}")
    assert (code, "what is before is not in the file" in out) == (0, True)


def test_audit_verify_refuses_what_is_no_head(pool: ScriptedPool, type_line: TypedLine) -> None:
    code, _, err = type_line("audit verify --expect 12:abc")
    assert code == 2
    assert "expected 64 hex digits" in err
    assert pool.requests == []


def test_audit_export_writes_what_verify_reads(
    tmp_path: Path, answer_with: AnswerWith, type_line: TypedLine
) -> None:
    records = make_chain(4)
    answer_with("GET", "audit", page(records))
    file = tmp_path / "log.jsonl"
    code, out, err = type_line(f"audit export {file}")
    assert (code, out) == (0, "")
    assert err == f"4 records to {file}, the last is 4:{records[-1]['hash']}\n"
    assert type_line(f"audit verify --file {file}")[0] == 0
    code, _, err = type_line(f"audit export {file}")
    assert (code, "replaces nothing" in err) == (2, True)


def test_audit_head_prints_what_to_note(answer_with: AnswerWith, type_line: TypedLine) -> None:
    head = {
        "seq": 9,
        "hash": "ab" * 32,
        "at_ns": RECORD["at_ns"],
        "first_seq": 1,
        "records": 9,
        "keep_days": 400,
    }
    answer_with("GET", "audit/head", head)
    code, out, _ = type_line("audit head")
    assert code == 0
    assert f"gpupool audit verify --expect 9:{'ab' * 32}" in out
