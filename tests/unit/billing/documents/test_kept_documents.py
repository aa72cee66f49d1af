"""A document of a sealed month is the same at every download, whatever comes between."""

from __future__ import annotations

from base64 import b64encode
from datetime import UTC, datetime
from hashlib import sha256
from typing import get_args

import pytest
import sqlalchemy as sa

from gpupool.billing.charging.marks import ChargeMarks, write_charge_marks
from gpupool.billing.charging.tables import charges
from gpupool.billing.documents import kept_documents
from gpupool.billing.documents.kept_documents import build_key, keep_document, read_document
from gpupool.billing.documents.service import DocumentFormat
from gpupool.billing.documents.tables import month_documents
from gpupool.billing.service import Billing
from tests.support.billing_books import ADMIN, bill, make_prices, settle
from tests.support.metering_books import DAY, START_S, Pool, S

MONTH = "2023-11"
END_S = int(datetime(2023, 12, 1, tzinfo=UTC).timestamp())


@pytest.fixture
def billing(pool: Pool) -> Billing:
    made = bill(pool)
    pool.grant(0, 0, 500, 8192)
    settle(pool, made)
    # The hours up to the end of the month cost seconds to make, and would say nothing more here.
    with pool.store.write() as write:
        write_charge_marks(write, ChargeMarks(START_S, END_S))
    return made


def download(billing: Billing, form: DocumentFormat, tenant: str | None = None) -> bytes:
    made = billing.statements.make_document(ADMIN, MONTH, tenant, form, "en")
    assert made.digest == f"sha-256=:{b64encode(sha256(made.content).digest()).decode()}:"
    return made.content


def test_documents_of_a_sealed_month_stay_whatever_changes(pool: Pool, billing: Billing) -> None:
    billing.seals.seal(ADMIN, MONTH)
    forms = get_args(DocumentFormat)
    before = {form: download(billing, form) for form in forms}
    later = make_prices(from_ns=END_S * S, reserved_milli=500)
    billing.prices.put("later", later)
    with pool.store.write() as write:
        # Hours of sealed months are deleted after a while, and FOCUS is made of them.
        write.execute(charges.delete())
    pool.time.forward(DAY)
    pool.start()
    again = Billing(pool.store)
    assert {form: download(again, form) for form in forms} == before
    assert download(again, "focus", "vision") != before["focus"]
    with pool.store.read() as connection:
        rows = connection.execute(
            sa.select(month_documents.c.form, month_documents.c.sha256).where(
                month_documents.c.tenant == ""
            )
        ).all()
    assert dict(map(tuple, rows)) == {
        form: sha256(content).hexdigest() for form, content in before.items()
    }


def test_of_two_documents_that_are_made_at_once_the_first_stays(
    pool: Pool, billing: Billing, monkeypatch: pytest.MonkeyPatch
) -> None:
    billing.seals.seal(ADMIN, MONTH)
    key = build_key(MONTH, "vision", "pdf", "zh")
    for content in (b"one", b"two"):
        with pool.store.write() as write:
            assert keep_document(write, key, content) == b"one"
    monkeypatch.setattr(kept_documents, "MOST_BYTES", 2)
    large = build_key(MONTH, None, "pdf", "zh")
    with pool.store.write() as write:
        assert keep_document(write, large, b"123") == b"123"
    with pool.store.read() as connection:
        assert read_document(connection, key) == b"one"
        assert read_document(connection, large) is None


def test_a_document_of_an_open_month_is_not_kept(pool: Pool, billing: Billing) -> None:
    download(billing, "focus")
    assert pool.count(month_documents) == 0
