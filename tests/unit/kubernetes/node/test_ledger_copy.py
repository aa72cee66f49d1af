"""The copy of a ledger on disk is the newest that was noted, also after a full disk."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gpupool.base.durable import write_durably
from gpupool.base.errors import CardNotReady
from gpupool.kubernetes.node import ledger_copy
from gpupool.kubernetes.node.ledger_copy import LedgerCopy
from tests.support.kube_builders import gpu_node


@pytest.mark.parametrize("content", [None, "", '{"metadata": {}}', '{"spec"'])
def test_copy_that_is_missing_or_torn_is_an_empty_ledger(
    tmp_path: Path, content: str | None
) -> None:
    file = tmp_path / "ledger.json"
    if content is not None:
        file.write_text(content)
    found = LedgerCopy(file, "n0").read_ledger()
    assert (found.name, found.entries, found.version) == ("n0", (), 0)


def test_stored_ledger_is_read_back_by_the_next_agent(tmp_path: Path) -> None:
    copy = LedgerCopy(tmp_path / "ledger.json", "n0")
    for version in (4, 5):
        copy.note_ledger(gpu_node(version=version))
    copy.store_ledger()
    assert LedgerCopy(tmp_path / "ledger.json", "n0").read_ledger().version == 5


def test_ledger_is_written_once(tmp_path: Path) -> None:
    file = tmp_path / "ledger.json"
    copy = LedgerCopy(file, "n0")
    copy.note_ledger(gpu_node(version=4))
    copy.store_ledger()
    file.unlink()
    copy.store_ledger()
    assert not file.exists()


def test_ledger_noted_during_a_failed_write_is_not_replaced_by_the_older(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = LedgerCopy(tmp_path / "ledger.json", "n0")

    def fail_and_note(*_: Any) -> None:
        copy.note_ledger(gpu_node(version=5))
        raise OSError(28, "No space left on device")

    copy.note_ledger(gpu_node(version=4))
    monkeypatch.setattr(ledger_copy, "write_durably", fail_and_note)
    with pytest.raises(CardNotReady, match="No space left on device") as refusal:
        copy.store_ledger()
    assert refusal.value.hint == f"free space below {tmp_path}"
    monkeypatch.setattr(ledger_copy, "write_durably", write_durably)
    copy.store_ledger()
    assert copy.read_ledger().version == 5
