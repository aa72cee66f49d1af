"""Write a statement as a workbook. XlsxWriter is imported when the first one is written."""

from __future__ import annotations

from collections.abc import Sequence
from io import BytesIO
from typing import Any

from gpupool.base.errors import DocumentUnavailable
from gpupool.billing.documents.cells import (
    HOUR_MICRO,
    HOUR_MS,
    KWH_MILLI,
    describe_project,
    format_factor,
    guard_cell,
)
from gpupool.billing.documents.lines import PAID_KINDS
from gpupool.billing.documents.words import get_words
from gpupool.billing.money import UNIT_MICRO
from gpupool.wire.billing.statements import StatementOut, TenantTotal

#: Characters of a column, by its index: names are wider than numbers.
_WIDTHS = (28, 20, 18, 14, 14, 12, 16, 16, 16, 12, 16)


def write_workbook(statement: StatementOut, language: str) -> bytes:
    """Write a statement as XLSX.

    Raises:
        DocumentUnavailable: XlsxWriter is not installed.
    """
    try:
        import xlsxwriter  # type: ignore[import-untyped]  # it ships none
    except ImportError:
        raise DocumentUnavailable(
            "workbooks need XlsxWriter, which is not installed on the server",
            hint="pip install 'gpupool[report]', or -o focus for CSV",
        ) from None
    stream = BytesIO()
    # In memory and row by row: no temporary file, and no cell is a formula or a link by itself.
    settings = {
        "in_memory": True,
        "constant_memory": True,
        "strings_to_formulas": False,
        "strings_to_numbers": False,
        "strings_to_urls": False,
    }
    with xlsxwriter.Workbook(stream, settings) as book:
        _Sheets(book, statement, language).write()
    return stream.getvalue()


class _Sheets:
    """Writes the sheets of one workbook, row after row."""

    def __init__(self, book: Any, statement: StatementOut, language: str) -> None:
        self._book = book
        self._statement = statement
        self._words = get_words(language)
        self._bold = book.add_format({"bold": True})
        self._money = book.add_format({"num_format": "#,##0.00"})
        self._price = book.add_format({"num_format": "#,##0.00####"})
        self._hours = book.add_format({"num_format": "#,##0.0000"})

    def write(self) -> None:
        self._write_summary()
        self._write_lines()
        if self._statement.adjustments:
            self._write_adjustments()

    def _add_sheet(self, title: str, heads: Sequence[str]) -> Any:
        sheet = self._book.add_worksheet(title[:31])
        for column, width in enumerate(_WIDTHS):
            sheet.set_column(column, column, width)
        for column, head in enumerate(heads):
            sheet.write_string(0, column, head, self._bold)
        if heads:
            sheet.freeze_panes(1, 0)
        return sheet

    def _write_summary(self) -> None:
        words = self._words
        statement = self._statement
        sheet = self._add_sheet(words["statement"], ())
        facts = [
            (words["tenant"], statement.tenant or words["pool"]),
            (words["month"], statement.month),
            (words["zone"], statement.timezone),
            (words["seal"], statement.sha256 or words["draft"]),
        ]
        if statement.simulated:
            facts.append((words["simulated"], ""))
        if statement.unpriced:
            facts.append((words["unpriced"], ", ".join(statement.unpriced)))
        row = 0
        for head, text in facts:
            sheet.write_string(row, 0, head, self._bold)
            sheet.write_string(row, 1, guard_cell(text))
            row += 1
        row = self._write_totals(sheet, row + 1)
        self._write_closing(sheet, row + 1)

    def _write_totals(self, sheet: Any, row: int) -> int:
        words = self._words
        heads = (
            words["tenant"],
            words["promised"],
            words["delivered"],
            words["denied"],
            words["subtotal"],
            words["entries_sum"],
            words["tax"],
            f"{words['total']} {self._statement.currency}".strip(),
            words["energy"],
            words["carbon"],
        )
        for column, head in enumerate(heads):
            sheet.write_string(row, column, head, self._bold)
        for total in self._statement.totals:
            row += 1
            self._write_total(sheet, row, total)
        statement = self._statement
        closing = statement.closing
        if closing is not None:
            # What no tenant held: with it the energy of the rows is that of the pool.
            row += 1
            sheet.write_string(row, 0, words["unheld"])
            self._write_energy(
                sheet, row, closing.unheld_energy_milliwatt_hours, closing.unheld_co2e_milligrams
            )
        row += 1
        sheet.write_string(row, 0, words["total"], self._bold)
        sheet.write_number(row, 7, statement.total_micro / UNIT_MICRO, self._money)
        self._write_energy(sheet, row, statement.energy_milliwatt_hours, statement.co2e_milligrams)
        return row + 1

    def _write_total(self, sheet: Any, row: int, total: TenantTotal) -> None:
        sheet.write_string(row, 0, guard_cell(total.tenant))
        self._write_hours(sheet, row, 1, total.card_milliseconds)
        self._write_hours(sheet, row, 2, total.delivered_milliseconds)
        self._write_hours(sheet, row, 3, total.denied_milliseconds)
        amounts = (
            total.lines_micro,
            total.adjustments_micro,
            total.tax_micro,
            total.total_micro,
        )
        for column, amount in enumerate(amounts, 4):
            sheet.write_number(row, column, amount / UNIT_MICRO, self._money)
        self._write_energy(sheet, row, total.energy_milliwatt_hours, total.co2e_milligrams)

    def _write_energy(
        self, sheet: Any, row: int, milliwatt_hours: int | None, co2e_milligrams: int | None
    ) -> None:
        for column, number in ((8, milliwatt_hours), (9, co2e_milligrams)):
            if number is None:
                # Unknown is never 0.
                sheet.write_string(row, column, self._words["unknown"])
            else:
                sheet.write_number(row, column, number / KWH_MILLI, self._hours)

    def _write_hours(self, sheet: Any, row: int, column: int, milliseconds: int | None) -> None:
        if milliseconds is None:
            sheet.write_string(row, column, self._words["unknown"])
        else:
            sheet.write_number(row, column, milliseconds / HOUR_MS, self._hours)

    def _write_closing(self, sheet: Any, row: int) -> None:
        closing = self._statement.closing
        if closing is None:
            return
        words = self._words
        sheet.write_string(row, 0, words["closing"], self._bold)
        reserved = (("reserved", closing.reserved_micro),) if closing.reserved_micro else ()
        parts = (
            ("tenants_list", closing.tenants_micro),
            *reserved,
            ("idle", closing.idle_micro),
            ("overhead", closing.overhead_micro),
            ("unmanaged", closing.unmanaged_micro),
            ("capacity", closing.capacity_micro),
            ("discounts", closing.discounts_micro),
        )
        for name, amount in parts:
            row += 1
            sheet.write_string(row, 0, words[name])
            sheet.write_number(row, 1, amount / UNIT_MICRO, self._price)
        sheet.write_string(row + 1, 0, words["closes" if closing.closes else "does_not_close"])

    def _write_lines(self) -> None:
        words = self._words
        heads = (
            words["tenant"],
            words["project"],
            words["model"],
            words["mechanism"],
            words["sharing"],
            words["preemptible"],
            words["gpu_hours"],
            words["charged_hours"],
            words["unit_price"],
            words["factor"],
            f"{words['amount']} {self._statement.currency}".strip(),
        )
        sheet = self._add_sheet(words["lines"], heads)
        for row, line in enumerate(self._statement.lines, 1):
            is_paid = line.kind in PAID_KINDS
            owner = line.tenant if is_paid else words[line.kind]
            texts = (
                owner,
                describe_project(line.project, line.reservation, words),
                line.model,
                line.mechanism or words["unknown"],
                line.sharing or words["unknown"],
                words["yes" if line.preemptible else "no"],
            )
            for column, text in enumerate(texts):
                # The unknown mark is ours and no formula.
                safe = text if text == words["unknown"] else guard_cell(text)
                sheet.write_string(row, column, safe)
            sheet.write_number(row, 6, line.card_milliseconds / HOUR_MS, self._hours)
            sheet.write_number(row, 7, line.charged_micro_seconds / HOUR_MICRO, self._hours)
            if line.price_micro is None:
                sheet.write_string(row, 8, words["unknown"])
            else:
                sheet.write_number(row, 8, line.price_micro / UNIT_MICRO, self._price)
            sheet.write_string(row, 9, format_factor(line.factor_milli))
            # What was left of the cards is at the price of the card; a tenant pays for none of it.
            amount = line.amount_micro if is_paid else line.list_micro
            sheet.write_number(row, 10, amount / UNIT_MICRO, self._money)

    def _write_adjustments(self) -> None:
        words = self._words
        heads = (words["tenant"], words["reason"], words["corrects"], words["amount"])
        sheet = self._add_sheet(words["adjustments"], heads)
        for row, entry in enumerate(self._statement.adjustments, 1):
            sheet.write_string(row, 0, guard_cell(entry.tenant))
            sheet.write_string(row, 1, guard_cell(entry.reason))
            sheet.write_string(row, 2, entry.corrects or "")
            sheet.write_number(row, 3, entry.amount_micro / UNIT_MICRO, self._price)
