"""`gpupool restore`: what the host is told to do."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpupool.cli.pool import restore
from tests.unit.cli.golden import TypedLine


@pytest.mark.parametrize(
    ("line", "more"), [("", []), (" --store postgresql://db/x", ["--store", "postgresql://db/x"])]
)
def test_restore_names_the_file_by_its_full_path_and_the_store_where_given(
    line: str,
    more: list[str],
    type_line: TypedLine,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told: list[tuple[str, ...]] = []

    def ask(*words: str) -> int:
        told.append(words)
        return 6

    monkeypatch.setattr(restore, "ask_host", ask)
    monkeypatch.chdir(tmp_path)
    assert type_line(f"--state-dir {tmp_path}/new restore monday{line}")[0] == 6
    assert told == [(f"{tmp_path}/new", "--restore", f"{tmp_path}/monday", *more)]
