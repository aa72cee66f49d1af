"""Write invoices as PDF with Typst. What tenants typed is data of the template, never markup."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from gpupool.base.errors import DocumentUnavailable
from gpupool.billing.documents.cells import (
    describe_project,
    format_charged,
    format_energy,
    format_factor,
    format_hours,
    format_part,
)
from gpupool.billing.documents.lines import PAID_KINDS
from gpupool.billing.documents.words import get_words
from gpupool.billing.money import format_cents, format_money
from gpupool.wire.billing.statements import StatementOut, TenantTotal

#: Families with Chinese characters, the best first. All have free licences.
_CHINESE_FONTS = (
    "Noto Sans CJK SC",
    "Noto Sans SC",
    "Source Han Sans SC",
    "WenQuanYi Zen Hei",
    "WenQuanYi Micro Hei",
    "Droid Sans Fallback",
)
_LATIN_FONTS = ("Noto Sans", "DejaVu Sans", "Libertinus Serif")


def write_pdf(statements: Sequence[StatementOut], language: str) -> bytes:
    """Write statements as one PDF, each from a new page on.

    Raises:
        DocumentUnavailable: Typst or, for Chinese, a font is not installed.
    """
    typst = _import_typst()
    data = {
        "words": dict(get_words(language)),
        "language": language,
        "fonts": list(_choose_fonts(language)),
        "statements": [_describe(statement, language) for statement in statements],
    }
    template = files("gpupool.billing.documents").joinpath("invoice.typ").read_bytes()
    made: bytes = typst.compile(
        template, sys_inputs={"data": json.dumps(data)}, font_paths=_list_font_folders()
    )
    return made


def _list_font_folders() -> list[str]:
    """List the folders of fonts that came with this installation, beside the system's own."""
    # `install.sh` of a bundle puts a font there: machines without a network cannot fetch one.
    folder = Path(sys.prefix) / "share" / "gpupool" / "fonts"
    return [str(folder)] if folder.is_dir() else []


def _import_typst() -> Any:
    try:
        import typst
    except ImportError:
        raise DocumentUnavailable(
            "PDF needs Typst, which is not installed on the server",
            hint="pip install 'gpupool[report]', or -o xlsx",
        ) from None
    return typst


@cache
def _list_families() -> frozenset[str]:
    typst = _import_typst()
    return frozenset(typst.Fonts(font_paths=_list_font_folders()).families())


def _choose_fonts(language: str) -> Sequence[str]:
    families = _list_families()
    latin = [name for name in _LATIN_FONTS if name in families]
    chinese = [name for name in _CHINESE_FONTS if name in families]
    if language == "zh" and not chinese:
        raise DocumentUnavailable(
            "a Chinese PDF needs a font with Chinese characters, and the server has none",
            hint="apt-get install fonts-noto-cjk on the server, or -o xlsx",
        )
    # Names may be Chinese in an English document, too.
    return [*chinese, *latin] if language == "zh" else [*latin, *chinese]


def _describe(statement: StatementOut, language: str) -> dict[str, Any]:
    closing = statement.closing
    words = get_words(language)
    return {
        "tenant": statement.tenant,
        "month": statement.month,
        "timezone": statement.timezone,
        "sha256": statement.sha256,
        "currency": statement.currency,
        "simulated": bool(statement.simulated),
        "unpriced": ", ".join(statement.unpriced),
        "tax_percent": format_factor(statement.tax_basis_points // 10)
        if statement.tax_basis_points % 10 == 0
        else f"{statement.tax_basis_points / 100:g} %",
        "lines": [_describe_line(line, words) for line in statement.lines],
        "entries": [
            {
                "tenant": entry.tenant,
                "reason": entry.reason,
                "corrects": entry.corrects or "",
                "amount": format_money(entry.amount_micro),
            }
            for entry in statement.adjustments
        ],
        "totals": [_describe_total(total) for total in statement.totals],
        "total": format_cents(statement.total_micro),
        "energy": format_energy(statement.energy_milliwatt_hours),
        "carbon": format_energy(statement.co2e_milligrams),
        "measured": format_part(statement.measured_card_milliseconds, _sum_card_time(statement)),
        "closing": closing
        and {
            "tenants_list": format_money(closing.tenants_micro),
            # A month without such time has no line of it.
            "reserved": format_money(closing.reserved_micro) if closing.reserved_micro else None,
            "idle": format_money(closing.idle_micro),
            "overhead": format_money(closing.overhead_micro),
            "unmanaged": format_money(closing.unmanaged_micro),
            "capacity": format_money(closing.capacity_micro),
            "discounts": format_money(closing.discounts_micro),
            "closes": closing.closes,
            "energy": format_energy(closing.unheld_energy_milliwatt_hours),
            "carbon": format_energy(closing.unheld_co2e_milligrams),
        },
    }


def _sum_card_time(statement: StatementOut) -> int:
    closing = statement.closing
    if closing is not None:
        return closing.capacity_card_milliseconds
    return sum(total.card_milliseconds for total in statement.totals)


def _describe_line(line: Any, words: Mapping[str, str]) -> dict[str, Any]:
    is_paid = line.kind in PAID_KINDS
    amount = format_cents(line.amount_micro) if is_paid else format_money(line.list_micro)
    facts = [text for text in (line.mechanism, line.sharing) if text]
    return {
        "owner": line.tenant if is_paid else words[line.kind],
        "project": describe_project(line.project, line.reservation, words),
        "model": line.model,
        "facts": ", ".join(facts),
        "preemptible": line.preemptible,
        "charged": format_charged(line.charged_micro_seconds),
        "price": None if line.price_micro is None else format_money(line.price_micro),
        "factor": format_factor(line.factor_milli),
        "amount": amount,
    }


def _describe_total(total: TenantTotal) -> dict[str, Any]:
    return {
        "tenant": total.tenant,
        "promised": format_hours(total.card_milliseconds),
        "delivered": format_hours(total.delivered_milliseconds),
        "denied": format_hours(total.denied_milliseconds),
        "lines": format_cents(total.lines_micro),
        "entries": format_cents(total.adjustments_micro),
        "tax": format_cents(total.tax_micro),
        "total": format_cents(total.total_micro),
        "energy": format_energy(total.energy_milliwatt_hours),
        "carbon": format_energy(total.co2e_milligrams),
    }
