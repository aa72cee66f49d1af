"""What pages show of `gpupool import` is what is printed; GPUPOOL_UPDATE_GOLDEN=1 writes it
anew."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gpupool.cli.main import main
from tests.support import pages

FROM = ("kubernetes-from-hami.md", "kubernetes-from-qgpu.md", "kubernetes-from-kai.md")
PAGES = (*FROM, "kubernetes-gangs.md")


@pytest.mark.parametrize("page", PAGES)
def test_every_console_shows_what_the_command_prints(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    names = pages.write_files(page, tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GPUPOOL_STATE_DIR", str(tmp_path / "none"))
    shown: list[str] = []

    def run(line: str) -> str:
        program, *words = line.split()
        assert program == "gpupool"
        shown.extend(word for word in words if word in names)
        main(words)
        said = capsys.readouterr()
        return said.out + said.err

    now = pages.printed(page, run)
    if os.environ.get("GPUPOOL_UPDATE_GOLDEN") == "1":
        (pages.PAGES / page).write_text(now)
    assert (pages.PAGES / page).read_text() == now
    assert page not in FROM or set(shown) == set(names)
