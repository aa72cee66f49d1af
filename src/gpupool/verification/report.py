"""What an auditor keeps: one JSON document and one self-contained HTML page of the same figures.

The document is version 1: fields may be added, none changes its meaning.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from html import escape
from pathlib import Path
from typing import Any, Final

from gpupool.base.units import format_instant, format_mib
from gpupool.drawing.page import page, write_files
from gpupool.verification.findings import Finding, Findings
from gpupool.verification.plots import bars, timeline

FORMAT: Final = "gpupool-verification 1"
VERDICTS: Final = {True: "kept", False: "NOT KEPT", None: "not shown"}


@dataclass(frozen=True)
class Identity:
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
    processors: int | None
    load: float | None
    """Of the machine that ran `verify`, where the card is its own: processors, and programs that wanted one."""


def document(identity: Identity, found: Findings) -> dict[str, Any]:
    """Everything, ready for JSON."""
    return {
        "format": FORMAT,
        "kept": found.kept,
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


def write(folder: Path, identity: Identity, found: Findings) -> tuple[Path, Path]:
    """The two files, made whole or not at all; the folder is made. Raises OSError."""
    text = json.dumps(document(identity, found), indent=1) + "\n"
    data, whole = write_files(folder, {"verify.json": text, "verify.html": html(identity, found)})
    return data, whole


def facts(identity: Identity) -> Iterator[tuple[str, str]]:
    """The identity in words, for people."""
    mark = "   SIMULATED" if identity.simulated else ""
    yield "card", f"{identity.card}: {identity.card_model}, {format_mib(identity.card_memory_bytes)}{mark}"
    yield "uuid", identity.card_uuid
    yield "driver", f"CUDA {identity.driver_version // 1000}.{identity.driver_version % 1000 // 10}"
    yield "pool", f"{identity.pool}, gpupool {identity.pool_version}"
    yield "fence", f"{identity.fence}" + (f": {identity.fence_why}" if identity.fence_why else "")
    yield "run by", f"{identity.user} of {identity.tenant}"
    if identity.processors is not None and identity.load is not None:
        yield "host", f"{identity.processors} processors, {identity.load:.1f} programs wanted one at the end"
    kind = "quick" if identity.quick else "full"
    yield "when", f"{format_instant(identity.began_ns)}, {kind}, took {identity.seconds:.0f} s"


def verdict(identity: Identity, found: Findings) -> str:
    """One sentence."""
    broken = sum(1 for one in found.findings if one.kept is False)
    unseen = sum(1 for one in found.findings if one.kept is None)
    if found.kept:
        said = f"Every promise that could be shown was kept ({len(found.findings) - unseen} of them)"
    else:
        said = f"{broken} of {len(found.findings)} promises were NOT KEPT" if broken else "Nothing could be shown"
    level = {"soft": SOFT, "none": "none: nothing is enforced"}
    more = level.get(identity.fence, f"{identity.fence}: a program that looks away is not held")
    simulated = " The card is SIMULATED." if identity.simulated else ""
    if identity.load is not None and identity.load > (identity.processors or 1):
        simulated += f" The host was overloaded ({identity.load:.1f} programs on {identity.processors} processors)"
        simulated += ", which costs programs time that no share can give back."
    return f"{said}. The fence is {more}.{simulated}"


_STYLE = """
.kept{color:#2a9d62}.broken{color:#d1495b;font-weight:bold}.unseen{opacity:.7}
.verdict{font-size:1.2em;padding:.6em .8em;border-left:6px solid #2a9d62;background:#2a9d621a}
.verdict.bad{border-color:#d1495b;background:#d1495b1a}
"""


def html(identity: Identity, found: Findings) -> str:
    """One page that needs nothing else."""
    title = f"Verification of {identity.card}"
    bad = "" if found.kept else " bad"
    parts = [
        f'<p class="verdict{bad}">{escape(verdict(identity, found))}</p>',
        _table([f"<tr><th>{escape(name)}</th><td>{escape(text)}</td></tr>" for name, text in facts(identity)]),
        "<h2>Promises</h2>",
        _table(["<tr><th>Promise</th><th>Promised</th><th>Measured</th><th></th></tr>", *map(_row, found.findings)]),
    ]
    if found.bars:
        parts += ["<h2>Compute: asked and measured, with 95 % intervals</h2>", bars(found.bars)]
    for one in found.timelines:
        parts += [f"<h2>{escape(one.title)}</h2>", timeline(one)]
    parts.append(
        "<p>Rates are parts of a whole card's time, as programs in the shares counted them (gpupool burn).</p>"
    )
    return page(title, parts, _STYLE)


def _table(rows: list[str]) -> str:
    return f"<table>{''.join(rows)}</table>"


def _row(one: Finding) -> str:
    style = {True: "kept", False: "broken", None: "unseen"}[one.kept]
    cells = "".join(f"<td>{escape(text)}</td>" for text in (one.title, one.promised, one.measured))
    return f'<tr>{cells}<td class="{style}">{VERDICTS[one.kept]}</td></tr>'


def table_rows(found: Findings) -> list[Mapping[str, Any]]:
    """For the terminal."""
    return [
        {"title": one.title, "promised": one.promised, "measured": one.measured, "verdict": VERDICTS[one.kept]}
        for one in found.findings
    ]
