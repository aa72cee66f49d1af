"""Commands of gpupool that pages show in their code blocks, as words for the command's parser."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

BLOCK = re.compile(r"^( *)```(\w*)\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)
INDENTED = re.compile(r"(?:^ {4}(?!>>>).*\n)+", re.MULTILINE)
PROMPT = re.compile(r"^(?:\w*[$#] )?(?:[A-Z_]+=\S+ )*(?:exec |heavy )?(?=gpupool )")
LANGUAGES = ("", "sh", "console")


def lines(page: Path) -> Iterator[str]:
    """Lines that people type, of the page's blocks for a shell; continued lines are joined."""
    text = page.read_text(encoding="utf-8")
    blocks = [(match[2], match[3]) for match in BLOCK.finditer(text) if match[2] in LANGUAGES]
    blocks.extend(("", found) for found in INDENTED.findall(BLOCK.sub("", text)))
    for language, block in blocks:
        for line in re.sub(r" *\\\n *", " ", block).splitlines():
            prompted = re.match(r"\w*[$#] ", line) is not None
            if prompted or language != "console":
                yield line.strip()


def commands(page: Path) -> Iterator[list[str]]:
    """The words of each `gpupool` command that the page shows, without the program's name."""
    for line in lines(page):
        if PROMPT.match(line):
            typed = re.split(r"  +", PROMPT.sub("", line))[0]
            yield from _commands(typed)


def _commands(typed: str) -> Iterator[list[str]]:
    lexer = shlex.shlex(typed, posix=True, punctuation_chars=";&|<>")
    lexer.whitespace_split = True
    found: list[str] = []
    for word in [*lexer, ";"]:
        if not set(word) <= set(";&|<>"):
            found.append(word)
            continue
        if found[:1] == ["gpupool"]:
            yield [word for word in found[1:] if word not in ("...", "…")]
        found = []
