"""XIDs on disk: the oldest first, each once, and no file that stops an agent."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpupool.agent.monitoring.fault_journal import FaultJournal
from gpupool.wire.faults.incidents import CardFaultIn


def test_what_is_left_is_read_in_order_and_a_damaged_file_goes(tmp_path: Path) -> None:
    folder = tmp_path / "faults"
    journal = FaultJournal(folder)
    assert journal.read() == []
    late = CardFaultIn(uuid="GPU-1", xid=79, at_ns=1000)
    early = CardFaultIn(uuid="GPU-1", xid=94, at_ns=9, recovery="gpu-reset")
    for fault in (late, early, late):
        journal.add(fault)
    (folder / "5-1-GPU.json").write_text("{")
    assert FaultJournal(folder).read() == [early, late]
    assert len(list(folder.iterdir())) == 2
    journal.remove([early, early])
    assert journal.read() == [late]


def test_an_xid_that_cannot_be_written_or_removed_is_no_failure(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    journal = FaultJournal(tmp_path / "file" / "faults")
    fault = CardFaultIn(uuid="GPU-1", xid=79, at_ns=1)
    journal.add(fault)
    assert journal.read() == []
    journal.remove([fault])


def test_of_too_many_the_newest_are_read_and_the_others_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gpupool.agent.monitoring.fault_journal.MOST_WAITING", 3)
    journal = FaultJournal(tmp_path)
    # The digits are no order: a machine without a clock begins in 1970.
    instants = (9, 80, 700, 6000, 50_000)
    for at_ns in instants:
        journal.add(CardFaultIn(uuid="GPU-1", xid=79, at_ns=at_ns))
    (tmp_path / "7-79-GPU-1.json.new").touch()
    (tmp_path / "other.json").mkdir()
    assert [fault.at_ns for fault in journal.read()] == [700, 6000, 50_000]
    assert len(list(tmp_path.glob("*-*"))) == 3
