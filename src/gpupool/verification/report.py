"""Write the report of a verification: one JSON document and one HTML page of the same figures.

The document is version 1: fields may be added, none changes its meaning.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from html import escape
from pathlib import Path
from typing import Any, Final

from gpupool.base.units import format_instant, format_mib
from gpupool.drawing.page import build_page, write_files
from gpupool.verification.findings import PromiseFinding, VerificationFindings
from gpupool.verification.plots import draw_shares, draw_timeline

#: The document's kind and version, by which programs know it.
FORMAT: Final = "gpupool-verification 1"
#: Words for a promise that was kept, broken, or could not be shown here.
VERDICTS: Final = {True: "kept", False: "NOT KEPT", None: "not shown"}


@dataclass(frozen=True)
class ReportIdentity:
    """The pool, the time and the user of a report, which make it comparable later."""

    pool: str
    pool_version: str
    node: str
    card: str
    card_model: str
    card_uuid: str
    card_memory_bytes: int
    driver_version: int
    simulated: bool
    fence: str
    fence_why: str
    user: str
    tenant: str
    began_ns: int
    seconds: float
    quick: bool
    #: Of the machine that ran `verify`, if the card is its own: its processors, and the number of
    #: programs that wanted one. Shares are late on an overloaded host, whatever the fence does.
    processors: int | None
    load: float | None


def build_document(identity: ReportIdentity, found: VerificationFindings) -> dict[str, Any]:
    """Build the document, ready for JSON."""
    return {
        "format": FORMAT,
        "kept": found.is_kept,
        "identity": asdict(identity),
        "findings": [asdict(one) for one in found.findings],
        "bars": [asdict(one) for one in found.bars],
        "timelines": [asdict(one) for one in found.timelines],
    }


#: What `soft` means, as plainly as in docs/concepts/fence.md.
SOFT: Final = (
    "soft: unmodified programs are held, a hostile one is not: it can load the driver without the fence, call the "
    "loaded driver's own functions or change its own memory; most of that is found and answered, not prevented"
)


def write_report(
    folder: Path, identity: ReportIdentity, found: VerificationFindings
) -> tuple[Path, Path]:
    """Write the two files, completely or not at all; the folder is created. Raises OSError."""
    text = json.dumps(build_document(identity, found), indent=1) + "\n"
    data, whole = write_files(
        folder, {"verify.json": text, "verify.html": render_page(identity, found)}
    )
    return data, whole


def list_facts(identity: ReportIdentity) -> Iterator[tuple[str, str]]:
    """Yield the identity as (name, words), for people."""
    mark = "   SIMULATED" if identity.simulated else ""
    yield (
        "card",
        f"{identity.card}: {identity.card_model}, {format_mib(identity.card_memory_bytes)}{mark}",
    )
    yield "uuid", identity.card_uuid
    yield "driver", f"CUDA {identity.driver_version // 1000}.{identity.driver_version % 1000 // 10}"
    yield "pool", f"{identity.pool}, gpupool {identity.pool_version}"
    yield "fence", f"{identity.fence}" + (f": {identity.fence_why}" if identity.fence_why else "")
    yield "run by", f"{identity.user} of {identity.tenant}"
    if identity.processors is not None and identity.load is not None:
        yield (
            "host",
            f"{identity.processors} processors, {identity.load:.1f} programs wanted one at the end",
        )
    kind = "quick" if identity.quick else "full"
    yield "when", f"{format_instant(identity.began_ns)}, {kind}, took {identity.seconds:.0f} s"


def format_verdict(identity: ReportIdentity, found: VerificationFindings) -> str:
    """Format the verdict as sentences: what was kept, and what the fence can do at all."""
    counts = Counter(one.kept for one in found.findings)
    if found.is_kept:
        result = f"Every promise that could be shown was kept ({counts[True]} of them)"
    elif counts[False]:
        result = f"{counts[False]} of {len(found.findings)} promises were NOT KEPT"
    else:
        result = "Nothing could be shown"
    level = {"soft": SOFT, "none": "none: nothing is enforced"}
    more = level.get(identity.fence, f"{identity.fence}: a program that looks away is not held")
    simulated = " The card is SIMULATED." if identity.simulated else ""
    if identity.load is not None and identity.load > (identity.processors or 1):
        simulated += f" The host was overloaded ({identity.load:.1f} programs on {identity.processors} processors)"
        simulated += ", which costs programs time that no share can give back."
    return f"{result}. The fence is {more}.{simulated}"


_STYLE = """
.kept{color:#2a9d62}.broken{color:#d1495b;font-weight:bold}.unseen{opacity:.7}
.verdict{font-size:1.2em;padding:.6em .8em;border-left:6px solid #2a9d62;background:#2a9d621a}
.verdict.bad{border-color:#d1495b;background:#d1495b1a}
"""


def render_page(identity: ReportIdentity, found: VerificationFindings) -> str:
    """Render one page that needs nothing else."""
    title = f"Verification of {identity.card}"
    bad = "" if found.is_kept else " bad"
    fact_rows: list[str] = []
    for name, text in list_facts(identity):
        fact_rows.append(f"<tr><th>{escape(name)}</th><td>{escape(text)}</td></tr>")
    parts = [
        f'<p class="verdict{bad}">{escape(format_verdict(identity, found))}</p>',
        _render_table(fact_rows),
        "<h2>Promises</h2>",
        _render_table(
            [
                "<tr><th>Promise</th><th>Promised</th><th>Measured</th><th></th></tr>",
                *map(_render_row, found.findings),
            ]
        ),
    ]
    if found.bars:
        parts += [
            "<h2>Compute: asked and measured, with 95 % intervals</h2>",
            draw_shares(found.bars),
        ]
    for one in found.timelines:
        parts += [f"<h2>{escape(one.title)}</h2>", draw_timeline(one)]
    parts.append(
        "<p>Rates are parts of a whole card's time, as programs in the shares counted them (gpupool burn).</p>"
    )
    return build_page(title, parts, _STYLE)


def _render_table(rows: list[str]) -> str:
    return f"<table>{''.join(rows)}</table>"


def _render_row(one: PromiseFinding) -> str:
    style = {True: "kept", False: "broken", None: "unseen"}[one.kept]
    cells = "".join(f"<td>{escape(text)}</td>" for text in (one.title, one.promised, one.measured))
    return f'<tr>{cells}<td class="{style}">{VERDICTS[one.kept]}</td></tr>'


def list_rows(found: VerificationFindings) -> list[Mapping[str, Any]]:
    """List the findings as rows for the terminal."""
    return [
        {
            "title": one.title,
            "promised": one.promised,
            "measured": one.measured,
            "verdict": VERDICTS[one.kept],
        }
        for one in found.findings
    ]
