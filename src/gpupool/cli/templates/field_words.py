"""Words of `gpupool template run` that are values of fields: `--gpu 0.5`, `--set gpu=0.5`, `-- ARG...`.

Which fields there are, only the pool knows; so every option that the command itself does not have
is one of a field.
"""

from __future__ import annotations

from collections.abc import Sequence

from gpupool.base.errors import BadOption
from gpupool.terminal.parser import CommandParser

#: The field that takes the words after `--`.
ARGUMENTS = "arguments"


class FieldSplitter:
    """Splits the words of a verb into its own and those of fields.

    Args:
        parser: The verb; its options are known when words are split.
    """

    def __init__(self, parser: CommandParser) -> None:
        self._parser = parser

    def __call__(self, words: Sequence[str]) -> tuple[list[str], list[str]]:
        """Return the words of the verb, and `NAME=VALUE` of each field, then `--` and what follows."""
        own = list[str]()
        fields = list[str]()
        rest = list(words)
        while rest:
            word = rest.pop(0)
            if word == "--":
                return own, [*fields, "--", *rest]
            flag, equals, value = word.partition("=")
            action = self._parser._option_string_actions.get(flag)
            if action is not None or not word.startswith("--"):
                own.append(word)
                if action is not None and action.nargs is None and not equals and rest:
                    own.append(rest.pop(0))
                continue
            if not equals:
                if not rest or rest[0].startswith("--"):
                    raise BadOption(
                        f"{flag} needs a value",
                        hint=f"{flag} VALUE; gpupool template show NAME  lists the fields",
                    )
                value = rest.pop(0)
            fields.append(f"{flag[2:].replace('-', '_')}={value}")
        return own, fields


def read_fields(words: Sequence[str], settings: Sequence[str]) -> dict[str, str | list[str]]:
    """Return values by field. A field that is given more than once has a list.

    Args:
        words: As `FieldSplitter` returns them.
        settings: The values of `--set`.

    Raises:
        BadOption: A `--set` is no `NAME=VALUE`.
    """
    named = list(words)
    found: dict[str, str | list[str]] = {}
    if "--" in named:
        place = named.index("--")
        found[ARGUMENTS] = named[place + 1 :]
        named = named[:place]
    for text in [*named, *settings]:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise BadOption(f"--set {text!r} is no value", hint="write it like --set gpu=0.5")
        before = found.get(name)
        if before is None:
            found[name] = value
        else:
            found[name] = [*(before if isinstance(before, list) else [before]), value]
    return found
