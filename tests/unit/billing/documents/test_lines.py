"""Lines add up: to capacity times price at the card's price, and for each tenant in cents."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

from hypothesis import given, settings
from hypothesis import strategies as st

from gpupool.billing.documents.lines import (
    BillLine,
    compute_line_cost,
    price_lines,
    read_line,
    write_line,
)
from gpupool.billing.documents.month import AdjustmentEntry, MonthBill
from gpupool.billing.documents.statement import build_statement
from gpupool.metering.books import HOUR_S, MICRO

LINE = BillLine(
    kind="tenant",
    tenant="nlp",
    project="default",
    model="H200",
    mechanism="fence",
    sharing="fixed",
    preemptible=False,
    base_micro=1,
    price_micro=1,
    factor_milli=1000,
    card_milliseconds=0,
    memory_mib_seconds=0,
    charged_micro_seconds=0,
)
PRICES = st.integers(0, 10**9) | st.none()


@st.composite
def draw_lines(draw: st.DrawFn) -> list[BillLine]:
    """Lines of a few tenants, and what was left of the cards, which may be below 0."""
    found = []
    for number in range(draw(st.integers(1, 12))):
        kind = draw(st.sampled_from(("tenant", "tenant", "idle", "overhead")))
        line = replace(
            LINE,
            kind=kind,
            tenant=draw(st.sampled_from(("nlp", "vision"))) if kind == "tenant" else "",
            model=f"M{number}",
            base_micro=draw(PRICES),
            price_micro=draw(PRICES),
            factor_milli=draw(st.integers(0, 1000)),
            charged_micro_seconds=draw(st.integers(0 if kind == "tenant" else -(10**12), 10**17)),
        )
        found.append(line)
    return price_lines(found)


@settings(max_examples=40)
@given(draw_lines())
def test_lines_at_the_cards_price_are_the_exact_sum_to_the_micro_unit(
    lines: list[BillLine],
) -> None:
    exact = Fraction(0)
    for line in lines:
        exact += Fraction(line.charged_micro_seconds * (line.base_micro or 0), MICRO * HOUR_S)
    assert sum(line.list_micro for line in lines) == round(exact)


@settings(max_examples=40)
@given(draw_lines(), st.integers(-(10**12), 10**12), st.integers(0, 10_000))
def test_a_statement_is_its_lines_entries_and_tax_in_cents(
    lines: list[BillLine], credit: int, tax: int
) -> None:
    entry = AdjustmentEntry("e-1", "nlp", "2026-11", None, credit, "credit", "root", 0)
    bill = MonthBill("2026-11", "UTC", 0, 3600, True, "EUR", tax, None, 0, lines, {}, [entry])
    statement = build_statement(bill, None)
    for total in statement.totals:
        mine = [line for line in statement.lines if line.tenant == total.tenant]
        assert total.lines_micro == sum(line.amount_micro for line in mine)
        exact = sum(
            (compute_line_cost(line) for line in lines if line.tenant == total.tenant), Fraction(0)
        )
        assert abs(total.lines_micro - exact) <= 5_000
        parts = total.lines_micro + total.adjustments_micro + total.tax_micro
        assert (total.total_micro, total.total_micro % 10_000) == (parts, 0)
    assert statement.total_micro == sum(total.total_micro for total in statement.totals)
    assert statement.closing is not None
    paid = statement.closing.tenants_micro - statement.closing.discounts_micro
    assert paid == sum(line.amount_micro for line in lines)


@settings(max_examples=40)
@given(draw_lines())
def test_a_line_is_read_back_as_it_was_sealed(lines: list[BillLine]) -> None:
    assert [read_line(write_line(line)) for line in lines] == lines
