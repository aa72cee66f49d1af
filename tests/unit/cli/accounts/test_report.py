"""`gpupool report`: rows that add up to the capacity, for people and for spreadsheets."""

from __future__ import annotations

import csv
import io

import pytest

from gpupool.cli.accounts import report
from gpupool.cli.main import main
from tests.unit.cli.golden import GoldenLine, TypedLine
from tests.unit.cli.sample import answers
from tests.unit.cli.sample import report as sample_report
from tests.unit.client.scripted_pool import ScriptedPool


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("report", "report"),
        ("report-wide", "report -o wide"),
        ("report-csv", "report -o csv"),
        ("report-promises", "report --promises"),
    ],
)
def test_report_prints_the_recorded_output(name: str, line: str, golden_line: GoldenLine) -> None:
    golden_line(name, line)


def test_a_report_whose_rows_are_not_the_capacity_says_so_whatever_it_claims() -> None:
    broken = sample_report()
    broken["rows"][0]["card_milliseconds"] -= 1
    assert broken["closes"] is True
    assert (
        report.describe_closing(broken)
        == "DOES NOT CLOSE: rows 17999999, capacity 18000000 card-milliseconds"
    )


def test_a_csv_of_the_report_sums_to_the_capacity(
    pool: ScriptedPool, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["report", "-o", "csv"]) == 0
    *rows, capacity = csv.DictReader(io.StringIO(capsys.readouterr().out))
    assert capacity["kind"] == "capacity"
    assert sum(int(row["card_milliseconds"]) for row in rows) == int(capacity["card_milliseconds"])
    assert int(capacity["card_milliseconds"]) == answers()["report"]["capacity_card_milliseconds"]
    assert {row["simulated"] for row in (*rows, capacity)} == {"SIMULATED"}
    assert all(row["since"] < row["until"] for row in rows)


def test_report_resolution_above_a_second_is_said_below_the_rows() -> None:
    coarse = {**sample_report(), "resolution_seconds": 3600}
    assert "books of this range are kept by 3600 s" in report.format_report(coarse)
    assert "are kept by" not in report.format_report(sample_report())


def test_report_shows_processors_and_memory_where_they_have_a_price() -> None:
    priced = sample_report()
    held = {"host_cpu_milli_seconds": 7_200_000, "host_memory_mib_seconds": 3600 * 1536}
    priced["rows"][0] |= held
    lines = report.format_report(priced).splitlines()
    assert "CPU-HOURS  RAM GiB-HOURS" in lines[2]
    assert [word for word in lines[3].split() if word in ("2.0000", "1.50")] == ["2.0000", "1.50"]
    assert lines[4].split().count("--") == 4
    assert "CPU-HOURS" not in report.format_report(sample_report())


def test_report_of_a_pool_without_cards_divides_by_no_capacity() -> None:
    empty = {**sample_report(), "rows": [], "capacity_card_milliseconds": 0, "total_cost": None}
    lines = report.format_report(empty).splitlines()
    assert lines[3].split() == ["capacity", "0.0000", "--", "13.07", "1.0723", "0.7946"]
    assert "COST" not in lines[2]
    assert lines[5] == "closes: the rows are the capacity exactly, 0 card-milliseconds"


@pytest.mark.parametrize(
    ("energy", "co2e", "line"),
    [
        (None, None, "energy: no card reported its power in this range"),
        (
            2_000_000,
            None,
            "energy: 2.0000 kWh, measured 50.0 % of the time; CO2e --: gpupool energy set --pue RATIO --grid GRAMS",
        ),
        (0, 0, "energy: 0.0000 kWh, measured 50.0 % of the time; CO2e 0.0000 kg"),
    ],
)
def test_report_says_how_much_of_the_energy_is_known(
    energy: int | None, co2e: int | None, line: str
) -> None:
    measured = None if energy is None else 9_000_000
    known = {"energy_milliwatt_hours": energy, "co2e_milligrams": co2e}
    text = report.format_report(
        {**sample_report(), **known, "measured_card_milliseconds": measured}
    )
    assert line in text.splitlines()


def test_report_by_card_has_no_columns_of_energy() -> None:
    by_card = {**sample_report(), "by": ["card"]}
    assert "ENERGY" not in report.format_report(by_card)


def test_report_asks_for_every_unit_and_refuses_an_unknown_one(
    pool: ScriptedPool, type_line: TypedLine
) -> None:
    assert type_line("report --by tenant,,user")[0] == 0
    assert "by=tenant&by=user" in pool.requests[-1].target
    code, _, err = type_line("report --by tennant")
    assert (code, err.splitlines()[0]) == (2, "gpupool: GP-1005: --by 'tennant' is not known")
    assert len(pool.requests) == 1
