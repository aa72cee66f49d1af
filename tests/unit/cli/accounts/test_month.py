"""`report --month` and its verbs: files, how a month closes, exit codes."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from gpupool.base.errors import BadOption, GpupoolError
from gpupool.cli.accounts.month import describe_closing, name_month
from gpupool.cli.accounts.report import run
from gpupool.cli.main import main
from gpupool.terminal.context import CommandContext
from gpupool.terminal.parser import parse_command
from tests.unit.client.scripted_pool import Request, ScriptedPool, reply

CLOSING = {
    "tenants_micro": 8_355_113,
    "idle_micro": 14_644_892,
    "overhead_micro": 0,
    "unmanaged_micro": 0,
    "capacity_micro": 23_000_005,
    "closes": True,
}
SEAL = {
    "month": "2026-10",
    "lines": 2,
    "amount_micro": 1_000_000,
    "currency": "EUR",
    "sha256": "ab" * 32,
    "sealed_by": "root",
}


def report(tmp_path: Path, *words: str) -> int:
    return run(parse_command("report", list(words)), CommandContext(str(tmp_path)))


def test_a_document_is_written_under_its_name_or_the_one_given(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    content = b"PK\x03\x04\xff"

    def answer(_asked: Request) -> bytes:
        kind = "Content-Type: application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"
        head = f"HTTP/1.1 200 OK\r\n{kind}\r\nContent-Length: {len(content)}\r\n\r\n"
        return head.encode() + content

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GPUPOOL_LANG", "zh")
    with ScriptedPool(tmp_path, answer) as server:
        words = ["--state-dir", str(tmp_path), "report", "--month", "2026-11", "-o", "xlsx"]
        assert main([*words, "--tenant", "nlp"]) == 0
        assert main([*words, "--file", "mine", "--language", "en"]) == 0
        first, second = (asked.target for asked in server.requests)
    assert (tmp_path / "2026-11-nlp.xlsx").read_bytes() == content
    assert (tmp_path / "mine").read_bytes() == content
    assert "language=zh" in first
    assert "language=en" in second
    assert capsys.readouterr().out.splitlines() == ["2026-11-nlp.xlsx", "mine"]


def test_a_file_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    with (
        ScriptedPool(tmp_path, lambda _asked: reply("x")),
        pytest.raises(BadOption, match="cannot be written"),
    ):
        report(tmp_path, "--month", "2026-11", "-o", "focus", "--file", str(tmp_path / "no/file"))


def test_a_document_without_a_month_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadOption, match="of a month"):
        report(tmp_path, "-o", "pdf")


def test_the_closing_is_counted_and_not_believed() -> None:
    assert describe_closing(CLOSING, "EUR").startswith("closes: tenants 8.355113, idle 14.644892")
    wrong = CLOSING | {"idle_micro": 14_644_891}
    assert describe_closing(wrong, "EUR").startswith("DOES NOT CLOSE")
    assert describe_closing(CLOSING | {"closes": False}, "").startswith("DOES NOT CLOSE")


@pytest.mark.parametrize(("intact", "code"), [(True, 0), (False, 1)])
def test_seals_end_with_1_where_a_row_was_changed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], intact: bool, code: int
) -> None:
    with ScriptedPool(tmp_path, lambda _asked: reply([SEAL | {"intact": intact}])):
        assert report(tmp_path, "seals") == code
    assert ("CHANGED" in capsys.readouterr().out) is not intact


@pytest.mark.parametrize(
    ("timezone", "month"),
    [("Asia/Shanghai", "2026-12"), ("UTC", "2026-11"), ("No/Such_Zone", "2026-11")],
)
def test_now_is_a_month_in_the_time_zone_of_the_prices(timezone: str, month: str) -> None:
    evening = datetime(2026, 11, 30, 17, tzinfo=UTC)
    assert name_month([{"timezone": timezone}], evening) == month


def test_now_is_the_month_of_today(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    def answer(asked: Request) -> bytes:
        is_prices = asked.target == "/api/v1/prices"
        return reply([]) if is_prices else reply({"code": "GP-9999"}, 404)

    before = datetime.now(UTC)
    with ScriptedPool(tmp_path, answer) as running:
        with pytest.raises(GpupoolError):
            report(tmp_path, "--month", "now", "--format", "xlsx")
        _prices, asked = running.requests
    # The month may end meanwhile.
    months = {f"/api/v1/documents/{now:%Y-%m}" for now in (before, datetime.now(UTC))}
    assert asked.target.partition("?")[0] in months
