"""Documents read back: what they say is what the statement says."""

from __future__ import annotations

import csv
import shutil
import sys
from decimal import Decimal
from io import BytesIO, StringIO
from pathlib import Path

import openpyxl
import pytest
import typst

from gpupool.base.errors import BadOption, DocumentUnavailable, UnknownTenant
from gpupool.billing.documents import pdf
from gpupool.billing.documents.cells import guard_cell
from gpupool.billing.documents.service import Document
from gpupool.billing.documents.words import LANGUAGES, get_words
from gpupool.billing.service import Billing
from gpupool.tenancy.tables import tenants
from gpupool.wire.billing.statements import AdjustmentIn
from tests.support.billing_books import ADMIN, bill, settle
from tests.support.metering_books import HOUR, Pool, principal

pytest_plugins = ["tests.support.postgres_fixtures"]
MONTH = "2023-11"


@pytest.fixture
def billing(pool: Pool) -> Billing:
    made = bill(pool, tax_basis_points=600, preemptible_discount_milli=300)
    pool.grant(0, 0, 333, 8192)
    pool.time.forward(1000)
    pool.grant(2, 1, 500, 100)
    pool.time.forward(3 * HOUR)
    settle(pool, made)
    entry = AdjustmentIn(tenant="nlp", amount_micro=-250_000, reason="=cmd|'/C calc'!A0")
    made.seals.adjust(ADMIN, entry)
    return made


def make(billing: Billing, form: str, tenant: str | None = None, language: str = "en") -> Document:
    return billing.statements.make_document(ADMIN, MONTH, tenant, form, language)  # type: ignore[arg-type]


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_workbook_has_every_line_and_total(billing: Billing, language: str) -> None:
    words = get_words(language)
    statement = billing.statements.make_statement(ADMIN, MONTH, None)
    book = openpyxl.load_workbook(BytesIO(make(billing, "xlsx", language=language).content))
    lines = list(book[words["lines"]].iter_rows(min_row=2, values_only=True))
    assert [row[0] for row in lines] == [
        line.tenant or words[line.kind] for line in statement.lines
    ]
    paid = sum(Decimal(str(row[10])) for row in lines if row[0] in ("vision", "nlp"))
    assert paid * 1_000_000 == sum(total.lines_micro for total in statement.totals)
    cells = [cell for row in book[words["statement"]].iter_rows(values_only=True) for cell in row]
    assert words["closes"] in cells
    assert statement.total_micro / 1_000_000 in cells


def test_a_reason_that_looks_like_a_formula_is_text(billing: Billing) -> None:
    book = openpyxl.load_workbook(BytesIO(make(billing, "xlsx").content))
    cell = book["Entries"]["B2"]
    assert (cell.data_type, cell.value) == ("s", "'=cmd|'/C calc'!A0")
    text = make(billing, "focus").content.decode("utf-8-sig")
    reasons = [row["ChargeDescription"] for row in csv.DictReader(StringIO(text))]
    assert "'=cmd|'/C calc'!A0" in reasons


@pytest.mark.parametrize("text", ["=1", "+1", "-1", "@a", "\tx"])
def test_a_cell_is_never_a_formula(text: str) -> None:
    assert guard_cell(text) == f"'{text}"


def test_focus_adds_up_to_the_capacity_times_its_price(billing: Billing) -> None:
    text = make(billing, "focus").content.decode("utf-8-sig")
    rows = list(csv.DictReader(StringIO(text)))
    statement = billing.statements.make_statement(ADMIN, MONTH, None)
    assert statement.closing is not None
    listed = sum(Decimal(row["ListCost"]) for row in rows)
    assert listed * 1_000_000 == statement.closing.capacity_micro
    billed = [Decimal(row["BilledCost"]) for row in rows if row["SubAccountId"] != "(pool)"]
    exact = statement.closing.tenants_micro - statement.closing.discounts_micro
    assert sum(billed) * 1_000_000 == exact - 250_000
    # A row for each hour: four hours of the first tenant and as many of the cards.
    assert len({row["ChargePeriodStart"] for row in rows}) >= 4
    assert {row["BillingPeriodStart"] for row in rows} == {"2023-11-01T00:00:00Z"}


def test_a_tenants_documents_show_nothing_of_others(billing: Billing) -> None:
    focus = make(billing, "focus", "vision").content.decode()
    book = make(billing, "xlsx", "vision").content
    words = [
        str(cell)
        for sheet in openpyxl.load_workbook(BytesIO(book))
        for row in sheet.iter_rows(values_only=True)
        for cell in row
    ]
    assert "nlp" not in focus
    assert "vision" in words
    assert not {"nlp", "Idle", "Capacity times price"} & set(words)


def test_a_user_gets_its_tenants_statement_and_no_other(billing: Billing) -> None:
    ada = principal(0)
    assert billing.statements.make_statement(ada, MONTH, None).tenant == "vision"
    with pytest.raises(UnknownTenant):
        billing.statements.make_statement(ada, MONTH, "nlp")


def test_a_deleted_tenant_has_its_statement_and_its_credits(billing: Billing, pool: Pool) -> None:
    with pool.store.write() as write:
        gone = tenants.update().where(tenants.c.name == "nlp")
        write.execute(gone.values(retired_ns=write.now_ns))
    before = billing.statements.make_statement(ADMIN, MONTH, "nlp").totals[0]
    assert before.lines_micro > 0
    assert b"nlp" in make(billing, "focus", "nlp").content
    entry = AdjustmentIn(tenant="nlp", amount_micro=-750_000, reason="outage")
    assert billing.seals.adjust(ADMIN, entry).tenant == "nlp"
    after = billing.statements.make_statement(ADMIN, MONTH, "nlp").totals[0]
    assert after.adjustments_micro == before.adjustments_micro - 750_000
    with pytest.raises(UnknownTenant):
        billing.statements.make_statement(principal(0), MONTH, "nlp")


@pytest.mark.parametrize("month", ["2023-10", "2024-01", "november"])
def test_a_month_without_charges_is_refused(billing: Billing, month: str) -> None:
    with pytest.raises(BadOption):
        billing.statements.make_statement(ADMIN, month, None)


def test_a_pdf_is_made_of_every_statement(billing: Billing) -> None:
    made = make(billing, "pdf")
    assert made.content.startswith(b"%PDF-")
    assert made.name == "2023-11-pool.pdf"


def test_fonts_that_came_with_the_installation_are_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    system = Path("/usr/share/fonts/opentype/noto/NotoSansCJK-Regular.ttc")
    if not system.exists():
        pytest.skip("needs the Debian package fonts-noto-cjk")
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    assert pdf._list_font_folders() == []
    folder = tmp_path / "share" / "gpupool" / "fonts"
    folder.mkdir(parents=True)
    shutil.copy(system, folder)
    found = typst.Fonts(
        include_system_fonts=False,
        include_embedded_fonts=False,
        font_paths=pdf._list_font_folders(),
    )
    assert "Noto Sans CJK SC" in found.families()


def test_what_a_format_lacks_is_said_with_the_next_step(
    billing: Billing, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pdf, "_list_families", lambda: frozenset({"DejaVu Sans"}))
    with pytest.raises(DocumentUnavailable, match="Chinese") as caught:
        make(billing, "pdf", language="zh")
    assert "fonts-noto-cjk" in caught.value.hint
    monkeypatch.setitem(sys.modules, "xlsxwriter", None)
    monkeypatch.setitem(sys.modules, "typst", None)
    for form in ("xlsx", "pdf"):
        with pytest.raises(DocumentUnavailable, match="not installed"):
            make(billing, form)
