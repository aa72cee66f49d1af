"""The record of a suspended job survives its agent; that of a newer version is not read."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gpupool.agent.suspension.record import (
    FILE,
    VERSION,
    SuspensionRecord,
    read_record,
    remove_record,
    write_record,
)
from gpupool.base.errors import StateNewer


def test_a_record_is_read_as_it_was_written_until_it_is_removed(tmp_path: Path) -> None:
    assert read_record(tmp_path) is None
    record = SuspensionRecord(supervisor_pid=7, card_bytes=1 << 30, is_suspended=True)
    write_record(tmp_path, record)
    assert read_record(tmp_path) == record
    for _ in range(2):
        remove_record(tmp_path)
    assert read_record(tmp_path) is None


def test_a_record_of_a_newer_version_is_refused(tmp_path: Path) -> None:
    document = {"version": VERSION + 1, "supervisor_pid": 7, "card_bytes": 1}
    (tmp_path / FILE).write_text(json.dumps(document))
    with pytest.raises(StateNewer):
        read_record(tmp_path)
