"""Every gpupool command in a code block of the pages is one that the command line accepts."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpupool.kubernetes.plugin import COMMANDS
from gpupool.terminal.commands import SUMMARIES
from gpupool.terminal.error_pages import explain_code, is_error_code
from gpupool.terminal.parser import HelpShown, parse_command
from tests.support.links import ROOT
from tests.support.typed_commands import commands, lines

PAGES = [
    ROOT / "README.md",
    ROOT / "README.zh.md",
    *sorted((ROOT / "docs" / "concepts").glob("*.md")),
    *sorted((ROOT / "docs" / "how-to").glob("*.md")),
]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_of_a_page_are_accepted(page: Path) -> None:
    for words in commands(page):
        if words[0] == "help" and is_error_code(words[1]):
            assert explain_code(words[1])["guide"], words
            continue
        if words[0] == "--lang":
            words = words[2:]
        assert words[0] in SUMMARIES, words
        try:
            parse_command(words[0], words[1:])
        except HelpShown:
            continue


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_of_the_plugin_exist(page: Path) -> None:
    typed = [line.removeprefix("$ ") for line in lines(page)]
    verbs = [line.split()[2] for line in typed if line.startswith("kubectl gpupool ")]
    assert set(verbs) <= set(COMMANDS)


def test_the_pages_show_commands() -> None:
    assert sum(len(list(commands(page))) for page in PAGES) > 150
