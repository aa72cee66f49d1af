"""The reference pages that are made from the code itself: error codes, lifecycles, the API. Run by
`make docs`."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from generated import ROOT, write_or_check

from gpupool.base.clock import LedgerClock
from gpupool.base.errors import list_error_classes
from gpupool.model import allocation, deadlines, device, job, reservation, suspension
from gpupool.server.app import create_app
from gpupool.server.compose import compose_services
from gpupool.server.config import ServerConfig
from gpupool.server.http.problems import status_of
from gpupool.store.database import Store, connect
from gpupool.terminal.error_pages import GUIDES

REFERENCE = ROOT / "docs" / "reference"
_MADE = "<!-- Made by `make docs`; change the code instead. -->\n"


STAYS: Mapping[str, Mapping[Any, deadlines.StateDeadline]] = {
    "Job": deadlines.JOBS,
    "Allocation": deadlines.ALLOCATIONS,
    "Suspension": deadlines.SUSPENSIONS,
}


def errors_page() -> str:
    """List every public code: over HTTP, at the end of a command, and the guide of its subject."""
    rows = []
    for code, cls in list_error_classes().items():
        anchor = f'<a id="{code.lower()}"></a>{code}'
        guide = _link_guide(code)
        rows.append(f"| {anchor} | {cls.title} | {status_of(cls)} | {cls.exit_code} | {guide} |")
    return "\n".join(
        [
            "# Error codes",
            _MADE,
            "A code never changes its meaning. Every error says what happened, the numbers, and what to type next.",
            "`gpupool run` ends with the job's own exit code; these are for what gpupool itself has to say.",
            "`gpupool help GP-2002` prints a line of this table; with `GPUPOOL_DOCS_URL` it names pages of the site",
            "that `make site` builds.",
            "",
            "| code | meaning | HTTP | exit code | guide |",
            "|---|---|---|---|---|",
            *rows,
            "",
        ]
    )


def _link_guide(code: str) -> str:
    page = GUIDES.get(code)
    if page is None:
        return ""
    return f"[{Path(page).stem}]({os.path.relpath(ROOT / page, REFERENCE)})"


LIFECYCLES: Mapping[str, Mapping[Any, Iterable[Any]]] = {
    "Job": job.TRANSITIONS,
    "Allocation": allocation.TRANSITIONS,
    "Device": device.TRANSITIONS,
    "Reservation": reservation.TRANSITIONS,
    "Suspension": {
        str(old or "running"): [str(new or "running") for new in news]
        for old, news in suspension.TRANSITIONS.items()
    },
}


def lifecycles_page() -> str:
    """The tables the services ask, drawn."""
    parts = [
        "# Lifecycles",
        _MADE,
        "What may follow what. A step that is not drawn here is refused by the code.",
    ]
    for noun, table in LIFECYCLES.items():
        arrows = [
            f"    {old} --> {new}" for old, news in table.items() for new in sorted(map(str, news))
        ]
        ends = [f"    {old} --> [*]" for old, news in table.items() if not set(news)]
        parts += ["", f"## {noun}", "", "```mermaid", "stateDiagram-v2", *arrows, *ends, "```"]
        parts += _stays(STAYS.get(noun, {}))
    return "\n".join([*parts, ""])


def _stays(table: Mapping[Any, deadlines.StateDeadline]) -> list[str]:
    """How long each state may last, as a table; nothing where it is not told."""
    if not table:
        return []
    rows = [
        f"| {state} | {f'{stay.seconds} s' if stay.seconds else '--'} | {stay.why} |"
        for state, stay in table.items()
    ]
    return ["", "| state | at most | then, or why it may stay |", "|---|---|---|", *rows]


def openapi_page() -> str:
    """The whole HTTP API, as the server itself describes it at /openapi.json."""
    store = Store(connect("sqlite://"), LedgerClock())
    app = create_app(ServerConfig(state_dir=""), compose_services(store, owner_uid=0))
    return json.dumps(app.openapi(), indent=1, ensure_ascii=False) + "\n"


PAGES = {"errors.md": errors_page, "lifecycles.md": lifecycles_page, "openapi.json": openapi_page}


if __name__ == "__main__":
    sys.exit(write_or_check({REFERENCE / name: make() for name, make in PAGES.items()}))
