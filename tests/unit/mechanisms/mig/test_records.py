"""Records survive a restart as they were written; a damaged one proves nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpupool.base.errors import DamagedRecord
from gpupool.mechanisms.mig.mechanism import MigMechanism
from gpupool.mechanisms.mig.records import (
    InstanceRecord,
    Piece,
    read_pieces,
    read_record,
    remove_record,
    write_pieces,
    write_record,
)
from tests.support.mig_cards import MigHost

PIECE = Piece("GPU-1", "1g.18gb", 19, 6, 1)


def test_a_record_is_read_as_it_was_written(tmp_path: Path) -> None:
    record = InstanceRecord(PIECE, "boot-1", 7, 0, "MIG-1")
    write_record(tmp_path / "one", record)
    assert read_record(tmp_path / "one") == record
    assert record.is_complete
    assert not InstanceRecord(PIECE, "boot-1").is_complete
    remove_record(tmp_path / "one")
    remove_record(tmp_path / "one")
    assert read_record(tmp_path / "one") is None


def test_pieces_are_read_as_they_were_written() -> None:
    assert read_pieces({"pieces": write_pieces((PIECE, PIECE))}) == (PIECE, PIECE)
    assert read_pieces({}) == ()


def test_of_a_damaged_record_nothing_is_destroyed(
    host: MigHost, mechanism: MigMechanism, tmp_path: Path
) -> None:
    mechanism.prepare(host.make_view("1g.18gb"), tmp_path)
    (tmp_path / "prepared/al-1/instance-0.json").write_text("{}")
    assert "cannot be looked at" in mechanism.observe(tmp_path)["al-1"].problem
    with pytest.raises(DamagedRecord, match="cannot be understood") as caught:
        mechanism.unprepare("al-1", 5, tmp_path)
    assert "nvidia-smi mig -lgi" in caught.value.hint
    assert host.list_numbers() == [7]
