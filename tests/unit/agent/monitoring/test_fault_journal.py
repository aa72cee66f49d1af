"""XIDs on disk: the oldest first, each once, and no file that stops an agent."""

from __future__ import annotations

from pathlib import Path

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
