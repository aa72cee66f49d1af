"""`price set`: what is sent, and what is refused before that."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest

from gpupool.base.errors import BadOption
from gpupool.cli.accounts.price import parse_rate, plan_changes, run
from gpupool.terminal.context import CommandContext
from gpupool.terminal.output import Row
from gpupool.terminal.parser import parse_command
from tests.unit.client.scripted_pool import Request, ScriptedPool, reply

HOUR = 3600 * 10**9
SET = ["set", "winter", "--from", "2099-12", "--currency", "EUR", "--price", "*:1.20"]


def answer(asked: Request) -> bytes:
    if asked.method == "GET":
        return reply([{"name": "autumn", "from_ns": HOUR}])
    body: dict[str, Any] = asked.json or {}
    blank = {"mechanism": None, "sharing": None, "from_hour": None, "until_hour": None}
    rates = [blank | rate for rate in body["rates"]]
    more = {"name": "winter", "until_ns": None, "generation": 1, "rates": rates}
    return reply(body | more)


def test_prices_are_sent_as_integers_and_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [*SET, "--price", "H200,sharing=burst,hours=22-08:0.000001"]
    words += ["--preemptible-discount", "12.5", "--tax", "19"]
    with ScriptedPool(tmp_path, answer) as server:
        assert run(parse_command("price", words), CommandContext(str(tmp_path))) == 0
        _lists, asked = server.requests
    assert (asked.method, asked.target) == ("PUT", "/api/v1/prices/winter")
    assert asked.json["rates"] == [
        {"model": "*", "price_micro": 1_200_000},
        {
            "model": "H200",
            "price_micro": 1,
            "sharing": "burst",
            "from_hour": 22,
            "until_hour": 8,
        },
    ]
    assert asked.json["from_ns"] == 4_099_766_400 * 10**9
    assert (asked.json["preemptible_discount_milli"], asked.json["tax_basis_points"]) == (125, 1900)
    shown = capsys.readouterr().out
    assert "22-08" in shown
    assert "0.000001" in shown


@pytest.mark.parametrize(
    "text",
    [
        "H200",
        ":1",
        "H200:x",
        "H200:-1",
        "H200:0.0000001",
        "H200,colour=red:1",
        "H200,hours=8:1",
        "H200,hours=8-8:1",
        "H200,hours=0-25:1",
    ],
)
def test_text_that_is_no_price_is_refused(text: str) -> None:
    with pytest.raises(BadOption):
        parse_rate(text)


@pytest.mark.parametrize("words", [["--tax", "101"], ["--preemptible-discount", "0.05"]])
def test_a_percentage_out_of_bounds_is_refused(tmp_path: Path, words: list[str]) -> None:
    with ScriptedPool(tmp_path, answer) as server:
        with pytest.raises(BadOption):
            run(parse_command("price", [*SET, *words]), CommandContext(str(tmp_path)))
        assert server.requests == []


def test_a_past_beginning_is_set_once_it_is_agreed_to(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("y\n"))
    words = ["set", "winter", "--from", "2026-01", "--currency", "EUR", "--price", "*:1"]
    with ScriptedPool(tmp_path, answer) as server:
        context = CommandContext(str(tmp_path))
        with pytest.raises(BadOption) as refusal:
            run(parse_command("price", words), context)
        assert refusal.value.hint == "add --yes"
        assert [one.method for one in server.requests] == ["GET"]
        assert run(parse_command("price", [*words, "--yes"]), context) == 0
        assert [one.method for one in server.requests] == ["GET", "GET", "PUT"]
    shown = capsys.readouterr().out
    assert "from 2026-01-01T00:00:00Z to now: by winter, and no longer by autumn" in shown


LISTS: list[Row] = [{"name": "one", "from_ns": HOUR}, {"name": "two", "from_ns": 4 * HOUR}]


@pytest.mark.parametrize(
    ("name", "since", "changes"),
    [
        ("two", 4 * HOUR, [(5, "by the new prices of two")]),
        ("two", 20 * HOUR, [(5, "by one, and no longer by two")]),
        ("two", None, [(5, "by one, and no longer by two")]),
        ("one", None, [(3, "without a price, and no longer by one")]),
        ("first", 0, [(1, "by first, and no longer by no list")]),
        ("one", 2 * HOUR, [(1, "without a price, and no longer by one"), (2, "by the new")]),
        ("next", 9 * HOUR, []),
    ],
)
def test_every_hour_that_gets_other_prices_is_named(
    name: str, since: int | None, changes: list[tuple[int, str]]
) -> None:
    found = plan_changes(LISTS, name, since, 9 * HOUR)
    assert len(found) == len(changes)
    for line, (hours, text) in zip(found, changes, strict=True):
        assert line.startswith(f"charge {hours} hour{'s' * (hours > 1)} again, ")
        assert text in line
