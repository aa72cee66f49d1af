"""A page that is gone or damaged is a finding; one that could not be looked at is none."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from gpupool.audit import ledger_check
from gpupool.mechanisms import regions
from gpupool.mechanisms.fenced_files import FencedFiles
from gpupool.mechanisms.regions import DeviceLimit, ShareLimits

UUID = "GPU-5109a0b1-c2d3-e4f5-0617-28394a5b6c7d"
WANTED = ShareLimits("al-1", "job-1", "team", "soft", (DeviceLimit(UUID, 8 << 30, 48 << 30),), 2)


def make_files(folder: Path) -> FencedFiles:
    regions.write_limits(folder / "limits", WANTED)
    regions.make_file(folder / "grants", regions.empty_grants())
    return FencedFiles(
        folder / "limits", folder / "grants", folder / "region", (UUID,), WANTED, True
    )


CHECKS = {"limits": ledger_check._check_limits, "grants": ledger_check._check_grants_page}


@pytest.mark.parametrize("page", CHECKS)
def test_a_page_that_is_as_it_was_made_is_no_finding(page: str, tmp_path: Path) -> None:
    assert CHECKS[page](make_files(tmp_path)) == []


@pytest.mark.parametrize("page", CHECKS)
def test_a_page_that_is_gone_or_damaged_is_a_finding(page: str, tmp_path: Path) -> None:
    known = make_files(tmp_path)
    (tmp_path / page).write_bytes(b"short")
    (finding,) = CHECKS[page](known)
    assert finding.kind == page
    (tmp_path / page).unlink()
    (finding,) = CHECKS[page](known)
    assert finding.kind == page


@pytest.mark.parametrize("code", [errno.EMFILE, errno.ENFILE, errno.ENOMEM])
@pytest.mark.parametrize("page", CHECKS)
def test_an_agent_that_is_short_of_something_finds_nothing(
    page: str, code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = make_files(tmp_path)

    def fail(path: Path) -> None:
        raise OSError(code, "short of something", str(path))

    monkeypatch.setattr(ledger_check, "read_limits", fail)
    monkeypatch.setattr(ledger_check, "check_grants", fail)
    with pytest.raises(OSError, match="short of something"):
        CHECKS[page](known)
