"""Transcripts in pages: blocks between markers whose outputs a test produces and compares.

    <!-- transcript: NAME -->
    ```console
    $ command
    output
    ```
    <!-- end of transcript -->

What differs from run to run (process ids, durations, instants, generated names, the use of a card
at one moment) is replaced before two outputs are compared.
"""

from __future__ import annotations

import re
from collections.abc import Callable

BLOCK = re.compile(
    r"(<!-- transcript: (?P<name>[\w-]+) -->\n```console\n)(?P<text>.*?)(```\n<!-- end of transcript -->)",
    re.DOTALL,
)
#: Of every command's output: pattern and what stands for it.
VARIES = (
    (re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ"), "INSTANT"),
    (re.compile(r"\bpid \d+"), "pid N"),
    (re.compile(r"\bj-[0-9a-z]{10}\b"), "j-ID"),
    (re.compile(r"\bgpupool-[0-9a-z]{4}\b"), "gpupool-NAME"),
    (re.compile(r"\bafter \d+ ms"), "after N ms"),
    (re.compile(r"(?<=sim-\d:\d)\s+(?:--|\d+ %)\s+\d+:\d\d\b"), " USE TIME"),
    (re.compile(r"\bdefault/\w+"), "default/USER"),
)
#: Further parts of one command's output, by the beginning of the command.
VARIES_OF = {
    "gpupool quota": ((re.compile(r"\d+\.\d card-h"), "N card-h"),),
    "gpupool report": (
        (re.compile(r"\d+\.\d+(?: %)?"), "N"),
        (re.compile(r"\d+ card-milliseconds"), "N card-milliseconds"),
    ),
}


def transcripts(page: str) -> dict[str, list[tuple[str, str]]]:
    """By name of the transcript, its commands and what the page says each prints."""
    return {match["name"]: _steps(match["text"]) for match in BLOCK.finditer(page)}


def _steps(text: str) -> list[tuple[str, str]]:
    steps: list[tuple[str, str]] = []
    for line in text.splitlines(keepends=True):
        if line.startswith("$ "):
            steps.append((line[2:].rstrip("\n"), ""))
        else:
            command, output = steps[-1]
            steps[-1] = (command, output + line)
    return steps


def with_outputs(page: str, outputs: dict[str, list[tuple[str, str]]]) -> str:
    """The page with these outputs in its transcripts."""

    def replaced(match: re.Match[str]) -> str:
        steps = outputs[match["name"]]
        text = "\n".join(f"$ {command}\n{output}" for command, output in steps)
        return f"{match[1]}{text}{match[4]}"

    return BLOCK.sub(replaced, page)


def comparable(command: str, output: str) -> str:
    """An output without what varies from run to run, and with one space between columns."""
    patterns = list(VARIES)
    for beginning, further in VARIES_OF.items():
        if command.startswith(beginning):
            patterns.extend(further)
    for pattern, word in patterns:
        output = pattern.sub(word, output)
    lines = [" ".join(line.split()) for line in output.strip().splitlines()]
    return "\n".join(lines)


def played(page: str, run: Callable[[str], str]) -> dict[str, list[tuple[str, str]]]:
    """Every command of the page's transcripts, run in order, with what it printed."""
    found: dict[str, list[tuple[str, str]]] = {}
    for name, steps in transcripts(page).items():
        found[name] = [(command, run(command)) for command, _ in steps]
    return found
