"""Files of audit records: what is written is read, nothing is replaced, formulas are harmless."""

from __future__ import annotations

import csv
import json
import stat
from pathlib import Path

import pytest

from gpupool.base.errors import AuditFileUnusable, BadOption
from gpupool.cli.accounts.audit_files import FIELDS, read_records, write_records
from gpupool.wire.audit.records import AuditRecordOut
from tests.unit.wire.audit.test_chain import make_chain


def test_json_lines_are_read_as_they_were_written(tmp_path: Path) -> None:
    records = make_chain(3)
    file = tmp_path / "log.jsonl"
    written = write_records(records, str(file), "jsonl")
    assert (written.records, written.head) == (3, f"3:{records[-1]['hash']}")
    assert list(read_records(str(file))) == records
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert [one.name for one in tmp_path.iterdir()] == ["log.jsonl"]


def test_csv_has_every_field_and_no_formula(tmp_path: Path) -> None:
    record = make_chain(1)[0] | {"user": "=cmd|' /C calc'!A0", "objects": ["-1"], "code": "+1"}
    file = tmp_path / "log.csv"
    write_records([record], str(file), "csv")
    (row,) = csv.DictReader(file.read_text().splitlines())
    assert (row["user"], row["code"]) == ("'=cmd|' /C calc'!A0", "'+1")
    assert (row["objects"], row["source"]) == ('["-1"]', "")
    assert set(FIELDS) == set(AuditRecordOut.model_fields)


def test_an_export_replaces_no_file(tmp_path: Path) -> None:
    file = tmp_path / "log.jsonl"
    file.write_text("mine")
    with pytest.raises(BadOption, match="replaces nothing"):
        write_records(make_chain(1), str(file), "jsonl")
    with pytest.raises(BadOption, match="No such file"):
        write_records(make_chain(1), str(tmp_path / "none" / "x"), "jsonl")
    assert file.read_text() == "mine"


def test_an_export_that_fails_half_way_leaves_no_file(tmp_path: Path) -> None:
    def fail():  # type: ignore[no-untyped-def]
        yield make_chain(1)[0]
        raise RuntimeError("the pool is gone")

    with pytest.raises(RuntimeError, match="gone"):
        write_records(fail(), str(tmp_path / "log.jsonl"), "jsonl")
    assert list(tmp_path.iterdir()) == []


def test_a_file_without_records_is_refused_and_a_bad_line_is_named(tmp_path: Path) -> None:
    file = tmp_path / "x"
    with pytest.raises(AuditFileUnusable, match="No such file"):
        list(read_records(str(file)))
    file.write_text("seq,at_ns\n1,2\n")
    with pytest.raises(AuditFileUnusable, match="line 1 is no audit record"):
        list(read_records(str(file)))
    first = make_chain(1)[0]
    file.write_bytes(json.dumps(first).encode() + b"\n\xff\xfe\n")
    assert list(read_records(str(file))) == [first, f"line 2 of {file} is no record"]
