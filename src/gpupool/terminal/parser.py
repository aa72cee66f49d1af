"""argparse in the words of gpupool: one parser per command, built when that command is typed.

Errors are `BadOption` with the nearest option, not a usage dump; help has one layout on every
Python. Commands fill their parser in `register`; nothing here knows a command.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, NoReturn

from gpupool.base.errors import BadInput, BadOption
from gpupool.terminal.commands import GLOBAL_OPTIONS, SUMMARIES, find_module
from gpupool.terminal.nearest import find_nearest
from gpupool.terminal.share_options import OF, make_blank_options, split_command

if TYPE_CHECKING:
    from gpupool.terminal.share_options import Option

#: Formats of lists and of single objects; the first is the default.
LIST_FORMATS = ("table", "wide", "json", "yaml", "csv")
OBJECT_FORMATS = ("table", "json", "yaml")
#: Options of Slurm, Docker and other tools, and the option that does the same here.
OTHER_OPTIONS: Final[Mapping[str, str]] = {
    "gres": "gpu",
    "gpus": "gpu",
    "job-name": "name",
    "qos": "priority",
    "time": "max-time",
    "walltime": "max-time",
}
#: Verbs of other tools, and those that do the same here; some commands have two.
_VERB_SYNONYMS: Final[Mapping[str, frozenset[str]]] = {
    "add": frozenset({"create", "set"}),
    "create": frozenset({"add", "set"}),
    "new": frozenset({"create", "add"}),
    "use": frozenset({"run"}),
    "delete": frozenset({"remove"}),
    "remove": frozenset({"delete"}),
    "rm": frozenset({"delete", "remove"}),
    "ls": frozenset({"list"}),
    "get": frozenset({"show", "list"}),
    "describe": frozenset({"show"}),
}


class CommandParser(argparse.ArgumentParser):
    """The parser of a command.

    Attributes:
        summary: What the command does, in one line.
        about: Sentences below the usage; indentation is removed.
        examples: Command lines, shown as they are.
        placeholder: What stands behind the options in the usage, for `run` and `submit`.
        children: The verbs of a command that has some.
        split_words: Splits words into those of this parser and a command for another program, which
            then is `command` of the options; None where no command follows.
    """

    def __init__(self, prog: str = "", summary: str = "", **settings: Any) -> None:
        settings.setdefault("add_help", False)
        # No abbreviations: --mem would become ambiguous the day another option begins so.
        super().__init__(prog=prog, allow_abbrev=False, **settings)
        self.summary = summary
        self.about = ""
        self.examples: list[str] = []
        self.placeholder = ""
        self.children: argparse._SubParsersAction[CommandParser] | None = None
        #: By verb, the heading that it has in the help; a command of few verbs has none.
        self.headings: dict[str, str] = {}
        self._heading = ""
        self.split_words: Callable[[Sequence[str]], tuple[list[str], list[str]]] | None = None
        self._optionals.title = "options"
        self.add_argument(
            "-h",
            "--help",
            action=_HelpAction,
            nargs=0,
            default=argparse.SUPPRESS,
            help="show this text",
        )

    def error(self, message: str) -> NoReturn:
        """Raise BadOption where argparse would print its usage and exit."""
        if self.children is not None and message.startswith("argument VERB: invalid choice: "):
            raise self._unknown_verb(message.split("'")[1])
        raise BadOption(_reword_error(message), hint=f"{self.prog} --help")

    def _unknown_verb(self, word: str) -> BadOption:
        assert self.children is not None
        longer = [verb for verb in self.children.choices if verb.startswith(f"{word}-")]
        near = ", ".join(longer)
        # Before what is spelled alike: `add` means `create`, and no other short verb.
        near = near or " or ".join(
            sorted(_VERB_SYNONYMS.get(word, frozenset()) & set(self.children.choices))
        )
        near = near or find_nearest(word, self.children.choices) or ""
        meant = f"did you mean {near}?  " if near else ""
        return BadOption(f"{self.prog} has no verb {word!r}", hint=f"{meant}{self.prog} --help")

    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        """Parse the words of this parser; a command behind them is not looked at.

        A verb of two words may be written with a space: `gateway drill` as `gateway-drill`.
        """
        args = self._join_verb(args)
        if self.split_words is None:
            return super().parse_known_args(args, namespace)
        words, command = self.split_words(args or ())
        options, unknown = super().parse_known_args(words, namespace)
        options.command = command
        return options, unknown

    def _join_verb(self, args: Sequence[str] | None) -> Sequence[str] | None:
        if self.children is None or args is None or len(args) < 2:
            return args
        verbs = self.children.choices
        joined = f"{args[0]}-{args[1]}"
        return [joined, *args[2:]] if args[0] not in verbs and joined in verbs else args

    def add_verbs(self) -> argparse._SubParsersAction[CommandParser]:
        """Make this a command with verbs, as `gpupool tenant create`."""
        self.children = self.add_subparsers(dest="verb", metavar="VERB", parser_class=CommandParser)
        return self.children

    def begin_heading(self, heading: str) -> None:
        """Put the verbs that are added from now on below a heading of the help."""
        self._heading = heading

    def add_verb(self, name: str, summary: str) -> CommandParser:
        """Add one verb."""
        assert self.children is not None
        self.headings[name] = self._heading
        child = self.children.add_parser(name, prog=f"{self.prog} {name}", summary=summary)
        add_table(child, GLOBAL_OPTIONS)
        return child

    def list_flags(self) -> list[str]:
        """List the flags that this parser knows."""
        return [
            flag
            for action in self._actions
            if action.help != argparse.SUPPRESS
            for flag in action.option_strings
        ]


class _HelpAction(argparse.Action):
    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        from gpupool.terminal.help import format_command_help
        from gpupool.terminal.language import data_stream

        assert isinstance(parser, CommandParser)
        data_stream().write(f"{format_command_help(parser)}\n")
        raise HelpShown


def build_parser(name: str) -> CommandParser:
    """Build the whole parser of one command. Imports its module."""
    parser = CommandParser(f"gpupool {name}", SUMMARIES[name])
    import_module(find_module(name)).register(parser)
    add_table(parser, GLOBAL_OPTIONS)
    return parser


def parse_command(name: str, words: Sequence[str]) -> Any:
    """Parse the options of one command.

    Raises:
        BadOption: A word is wrong.
        HelpShown: Help was asked for and is printed.
    """
    parser = build_parser(name)
    command: list[str] | None = None
    options: Any = make_blank_options(name) if name in OF else argparse.Namespace()
    if name in OF:
        words, command = split_command(name, words)
    # Not parse_args: that reports unknown words by itself, before the nearest option can be named.
    options, unknown = parser.parse_known_args(list(words), options)
    if unknown:
        raise _unknown_option(_find_innermost(parser, words), unknown[0])
    if command is not None:
        options.command = command
    if parser.children is not None and not options.verb:
        raise BadOption(
            f"{parser.prog} needs one of: {', '.join(parser.children.choices)}",
            hint=f"{parser.prog} --help",
        )
    return options


class HelpShown(Exception):  # no error: help was asked for and printed
    pass


def _find_innermost(parser: CommandParser, words: Sequence[str]) -> CommandParser:
    if parser.children is not None:
        for word in words:
            if word in parser.children.choices:
                return parser.children.choices[word]
    return parser


def _unknown_option(parser: CommandParser, word: str) -> BadInput:
    if not word.startswith("-"):
        return BadOption(
            f"{parser.prog}: {word!r} is one word too many", hint=f"{parser.prog} --help"
        )
    flag = word.partition("=")[0]
    # Without the dashes, which every option has: with them --after looks like --state-dir.
    flags = {known.lstrip("-"): known for known in parser.list_flags()}
    name = flag.lstrip("-")
    near = flags.get(OTHER_OPTIONS.get(name, "")) or flags.get(find_nearest(name, flags) or "")
    hint = f"did you mean {near}?  " if near else ""
    return BadOption(f"{parser.prog}: unknown option {flag}", hint=f"{hint}{parser.prog} --help")


def _reword_error(message: str) -> str:
    """Reword a message of argparse; of `argument -o/--output: …` the last flag is named."""
    if message.startswith("argument ") and ": " in message:
        where, _, what = message[len("argument ") :].partition(": ")
        what = what.replace("expected one argument", "needs a value").replace(
            "expected at least one argument", "needs at least one value"
        )
        flag = where.split("/")[-1]
        return f"{flag} {what}" if what.startswith("needs") else f"{flag}: {what}"
    return message.replace("the following arguments are required: ", "missing: ")


def add_table(parser: argparse.ArgumentParser, table: Iterable[Option]) -> None:
    """Add the options of a table like `share_options.SHARE`."""
    for flags, dest, kind, metavar, text in table:
        if kind == "flag":
            parser.add_argument(*flags, dest=dest, action="store_true", help=text)
        else:
            action = "append" if kind == "append" else "store"
            parser.add_argument(*flags, dest=dest, action=action, metavar=metavar, help=text)


def one_of(option: str, *choices: str) -> Callable[[str], str]:
    """Return a type for options with few values; its error names the nearest."""

    def check(text: str) -> str:
        if text in choices:
            return text
        near = find_nearest(text, choices)
        meant = f"did you mean {near}?  " if near else ""
        raise BadOption(
            f"{option} {text!r} is not known", hint=f"{meant}one of: {', '.join(choices)}"
        )

    return check


def path_of(option: str) -> Callable[[str], str]:
    """Return a type for options that name a file.

    An empty word is refused: it is what an unset variable in a script leaves.
    """

    def check(text: str) -> str:
        if text:
            return text
        raise BadOption(f"{option} has no name of a file", hint=f"{option} FILE")

    return check


def integer_within(option: str, what: str, smallest: int, largest: int) -> Callable[[str], int]:
    """Return a type for options that are whole numbers within bounds."""

    def check(text: str) -> int:
        if (
            # isascii first: str.isdigit() is true of digits of other scripts, and int() reads them.
            not (text.isascii() and text.removeprefix("-").isdigit())
            or not smallest <= int(text) <= largest
        ):
            raise BadOption(
                f"{option} {text}: {what} is a whole number from {smallest} to {largest}"
            )
        return int(text)

    return check


def add_output(parser: argparse.ArgumentParser, formats: Sequence[str] = LIST_FORMATS) -> None:
    """Add `-o`, for commands that list or show."""
    kind = one_of("-o", *formats)
    parser.add_argument(
        "-o",
        "--output",
        type=kind,
        default=formats[0],
        metavar="FORMAT",
        help=f"{', '.join(formats)} (default: {formats[0]})",
    )
    # What other tools call it; the help names one spelling.
    hidden: dict[str, Any] = {
        "dest": "output",
        "default": argparse.SUPPRESS,
        "help": argparse.SUPPRESS,
    }
    parser.add_argument("--format", type=kind, **hidden)
    if "json" in formats:
        parser.add_argument("--json", action="store_const", const="json", **hidden)


def add_yes(parser: argparse.ArgumentParser) -> None:
    """Add `--yes`, for commands that take something away."""
    parser.add_argument("-y", "--yes", action="store_true", help="do not ask")
