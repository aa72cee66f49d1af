"""The rows of `doctor` and their table.

A row says what was checked, its state, what was found and what to do next.
"""

from __future__ import annotations

from gpupool.terminal.language import localize, localize_cell
from gpupool.terminal.output import TableColumn, format_table, paint_text

OK = "ok"
WARN = "warn"
FAIL = "fail"

Check = dict[str, str]

_COLORS = {OK: "green", WARN: "yellow", FAIL: "red"}


def make_check(name: str, state: str, text: str, following: str = "") -> Check:
    """Make a row; `following` is the next command to type, empty where nothing is to be done."""
    return {"name": name, "state": state, "text": text, "next": following}


def format_checks(checks: list[Check], *, color: bool = False) -> str:
    """Format the rows as a table, then the commands that help, then the verdict."""
    columns = (
        TableColumn("CHECK", lambda row: row["name"]),
        TableColumn("STATE", lambda row: row["state"], color=lambda row: _COLORS[row["state"]]),
        TableColumn("FOUND", lambda row: row["text"]),
    )
    lines = [format_table(checks, columns, color=color)]
    following = []
    for row in checks:
        if row["next"]:
            following.append(f"  {localize_cell('CHECK', row['name'])}: {localize(row['next'])}")
    if following:
        lines += ["", localize("next:"), *following]
    states = [row["state"] for row in checks]
    # A warning is not wrong: without a driver the pool works with simulated cards.
    wrong = states.count(FAIL)
    verdict = f"{wrong} of {len(checks)} checks failed" if wrong else "nothing is wrong"
    painted = paint_text(localize(verdict), ("red" if wrong else "green") if color else None)
    return "\n".join([*lines, "", painted])


def format_fixes(checks: list[Check]) -> str:
    """Format what mends the rows that are not well, below what was found; one a line."""
    lines = []
    for row in checks:
        if row["state"] != OK:
            found = f"# {row['name']}: {row['text']}"
            lines += [found, row["next"] or "# nothing to type helps here"]
    return "\n".join(lines or ["# nothing is wrong"]) + "\n"
