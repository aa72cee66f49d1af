"""Pages of the docs as tests read them: blocks that are typed, files that they name, and what is
printed.

A block `sh` is typed line by line. A block `yaml` whose first line is `# NAME` is that file. A
block `console` has lines `$ command`, each followed by what it prints.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = ROOT / "docs" / "how-to"
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
NAME = re.compile(r"# ([\w.-]+)\n")


def blocks(page: str, language: str) -> list[str]:
    """The texts of its blocks in that language, in order."""
    return [text for kind, text in BLOCK.findall((PAGES / page).read_text()) if kind == language]


def typed(page: str) -> list[str]:
    """Every line that people type."""
    return [line for text in blocks(page, "sh") for line in text.splitlines() if line]


def write_files(page: str, place: Path) -> list[str]:
    """The files that the page shows, written there; their names."""
    found = []
    for text in blocks(page, "yaml"):
        if match := NAME.match(text):
            (place / match[1]).write_text(text[match.end() :])
            found.append(match[1])
    return found


def printed(page: str, run: Callable[[str], str]) -> str:
    """The page with what `run` says to each `$ command` of its consoles in the place of what stands
    there."""

    def again(match: re.Match[str]) -> str:
        if match[1] != "console":
            return match[0]
        commands = [line for line in match[2].splitlines() if line.startswith("$ ")]
        return "```console\n" + "".join(f"{line}\n{run(line[2:])}" for line in commands) + "```"

    return BLOCK.sub(again, (PAGES / page).read_text())
