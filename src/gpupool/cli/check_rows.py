"""The rows of `doctor`: what was checked, its state, what was found, what to do next; and their table."""

from __future__ import annotations

from gpupool.cli.output import Column, paint, table

OK, WARN, FAIL = "ok", "warn", "fail"

Check = dict[str, str]

_COLORS = {OK: "green", WARN: "yellow", FAIL: "red"}


def check(name: str, state: str, said: str, following: str = "") -> Check:
    return {"name": name, "state": state, "text": said, "next": following}


def checks_table(checks: list[Check], *, color: bool = False) -> str:
    """The table of checks, what to type below those that need it, and the verdict."""
    columns = (
        Column("CHECK", lambda row: row["name"]),
        Column("STATE", lambda row: row["state"], color=lambda row: _COLORS[row["state"]]),
        Column("FOUND", lambda row: row["text"]),
    )
    lines = [table(checks, columns, color=color)]
    following = [f"  {row['name']}: {row['next']}" for row in checks if row["next"]]
    if following:
        lines += ["", "next:", *following]
    wrong = sum(1 for row in checks if row["state"] == FAIL)
    verdict = f"{wrong} of {len(checks)} checks failed" if wrong else "nothing is wrong"
    return "\n".join([*lines, "", paint(verdict, ("red" if wrong else "green") if color else None)])
