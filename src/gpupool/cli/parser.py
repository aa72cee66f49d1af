"""argparse with our words: one parser per command, built when that command is typed.

Errors are `BadOption` with the nearest option, not a usage dump; help has one layout on every
Python. Commands fill their parser in `register`; nothing here knows a command.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, NoReturn

from gpupool.base.errors import BadInput, BadOption
from gpupool.cli.commands import GLOBAL_OPTIONS, SUMMARIES, module_of
from gpupool.cli.nearest import nearest
from gpupool.cli.share_options import OF, blank, split_command

if TYPE_CHECKING:
    from gpupool.cli.share_options import Option

LIST_FORMATS = ("table", "wide", "json", "yaml", "csv")
OBJECT_FORMATS = ("table", "json", "yaml")


class Parser(argparse.ArgumentParser):
    """A command's parser. `summary`, `about`, `examples` and `placeholder` are what its help says."""

    def __init__(self, prog: str = "", summary: str = "", **settings: Any) -> None:
        settings.setdefault("add_help", False)
        super().__init__(prog=prog, allow_abbrev=False, **settings)
        self.summary = summary
        self.about = ""
        self.examples: list[str] = []
        self.placeholder = ""
        self.children: argparse._SubParsersAction[Parser] | None = None
        self._optionals.title = "options"
        self.add_argument("-h", "--help", action=_Help, nargs=0, default=argparse.SUPPRESS, help="show this text")

    def error(self, message: str) -> NoReturn:
        raise BadOption(_sentence(message), hint=f"{self.prog} --help")

    def group(self) -> argparse._SubParsersAction[Parser]:
        """For commands with verbs: `gpupool tenant create`."""
        self.children = self.add_subparsers(dest="verb", metavar="VERB", parser_class=Parser)
        return self.children

    def verb(self, name: str, summary: str) -> Parser:
        """One verb of this group."""
        assert self.children is not None
        child = self.children.add_parser(name, prog=f"{self.prog} {name}", summary=summary)
        add_table(child, GLOBAL_OPTIONS)
        return child

    def flags(self) -> list[str]:
        return [flag for action in self._actions for flag in action.option_strings]


class _Help(argparse.Action):
    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        from gpupool.cli.help import command_help

        assert isinstance(parser, Parser)
        print(command_help(parser))
        raise HelpShown


def command_parser(name: str) -> Parser:
    """The whole parser of one command. Imports its module."""
    parser = Parser(f"gpupool {name}", SUMMARIES[name])
    import_module(module_of(name)).register(parser)
    add_table(parser, GLOBAL_OPTIONS)
    return parser


def parse(name: str, words: Sequence[str]) -> Any:
    """The options of one command. Raises BadOption; exits after `--help`."""
    parser = command_parser(name)
    command: list[str] | None = None
    options: Any = blank(name) if name in OF else argparse.Namespace()
    if name in OF:
        words, command = split_command(name, words)
    options, unknown = parser.parse_known_args(list(words), options)
    if unknown:
        raise _unknown_option(_innermost(parser, words), unknown[0])
    if command is not None:
        options.command = command
    if parser.children is not None and not options.verb:
        raise BadOption(
            f"{parser.prog} needs one of: {', '.join(parser.children.choices)}", hint=f"{parser.prog} --help"
        )
    return options


class HelpShown(Exception):  # no error: help was asked for and printed
    pass


def _innermost(parser: Parser, words: Sequence[str]) -> Parser:
    if parser.children is not None:
        for word in words:
            if word in parser.children.choices:
                return parser.children.choices[word]
    return parser


def _unknown_option(parser: Parser, word: str) -> BadInput:
    if not word.startswith("-"):
        return BadOption(f"{parser.prog}: {word!r} is one word too many", hint=f"{parser.prog} --help")
    flag = word.partition("=")[0]
    # Without the dashes, which every option has: with them --after looks like --state-dir.
    flags = {known.lstrip("-"): known for known in parser.flags()}
    near = flags.get(nearest(flag.lstrip("-"), flags) or "")
    hint = f"did you mean {near}?  " if near else ""
    return BadOption(f"{parser.prog}: unknown option {flag}", hint=f"{hint}{parser.prog} --help")


def _sentence(message: str) -> str:
    """argparse's words in ours."""
    if message.startswith("argument ") and ": " in message:
        where, _, what = message[len("argument ") :].partition(": ")
        what = what.replace("expected one argument", "needs a value").replace(
            "expected at least one argument", "needs at least one value"
        )
        return f"{where.split('/')[-1]} {what}" if what.startswith("needs") else f"{where.split('/')[-1]}: {what}"
    return message.replace("the following arguments are required: ", "missing: ")


def add_table(parser: argparse.ArgumentParser, table: Iterable[Option]) -> None:
    """Options of a table like `share_options.SHARE` as argparse options."""
    for flags, dest, kind, metavar, text in table:
        if kind == "flag":
            parser.add_argument(*flags, dest=dest, action="store_true", help=text)
        else:
            action = "append" if kind == "append" else "store"
            parser.add_argument(*flags, dest=dest, action=action, metavar=metavar, help=text)


def one_of(option: str, *choices: str) -> Callable[[str], str]:
    """A type for options with few values, whose refusal names the nearest."""

    def check(text: str) -> str:
        if text in choices:
            return text
        near = nearest(text, choices)
        meant = f"did you mean {near}?  " if near else ""
        raise BadOption(f"{option} {text!r} is not known", hint=f"{meant}one of: {', '.join(choices)}")

    return check


def path_of(option: str) -> Callable[[str], str]:
    """A type for options that name a file: an empty word, as of an unset variable, is refused."""

    def check(text: str) -> str:
        if text:
            return text
        raise BadOption(f"{option} has no name of a file", hint=f"{option} FILE")

    return check


def number(option: str, what: str, smallest: int, largest: int) -> Callable[[str], int]:
    """A type for options that are integers within bounds."""

    def check(text: str) -> int:
        if not (text.isascii() and text.lstrip("-").isdigit()) or not smallest <= int(text) <= largest:
            raise BadOption(f"{option} {text}: {what} is a whole number from {smallest} to {largest}")
        return int(text)

    return check


def add_output(parser: argparse.ArgumentParser, formats: Sequence[str] = LIST_FORMATS) -> None:
    """`-o`, for commands that list or show."""
    parser.add_argument(
        "-o",
        "--output",
        type=one_of("-o", *formats),
        default=formats[0],
        metavar="FORMAT",
        help=f"{', '.join(formats)} (default: {formats[0]})",
    )


def add_yes(parser: argparse.ArgumentParser) -> None:
    """`--yes`, for commands that take something away."""
    parser.add_argument("-y", "--yes", action="store_true", help="do not ask")
