"""Puts values into texts of a template. Pure.

A reference is read once: a value that holds `${x}` stays as it is. A text is never read by a shell
here, and an element of a command is never split.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from gpupool.templates.values import show_scalar
from gpupool.wire.templates.documents import FieldValue

#: `${lr}`; `$${lr}` is the text `${lr}`. Variables of a shell in upper case are no references.
_REFERENCE: Final = re.compile(r"\$?\$\{([a-z][a-z0-9_]{0,62})\}")


class Missing(Exception):
    """A reference to a field without a value: what holds it is left out."""


def list_references(text: str) -> list[str]:
    """List the fields that a text refers to."""
    return [
        match.group(1) for match in _REFERENCE.finditer(text) if not match.group().startswith("$$")
    ]


def is_reference(text: str) -> str | None:
    """Return the field of a text that is one reference and nothing else."""
    match = _REFERENCE.fullmatch(text)
    return match.group(1) if match is not None and not match.group().startswith("$$") else None


def fill_text(text: str, values: Mapping[str, FieldValue]) -> str:
    """Return the text with the values in it. Raises Missing."""

    def replace(match: re.Match[str]) -> str:
        if match.group().startswith("$$"):
            return match.group()[1:]
        value = _find(match.group(1), values)
        if isinstance(value, list):
            return ",".join(show_scalar(item) for item in value)
        return show_scalar(value)

    return _REFERENCE.sub(replace, text)


def fill_value(part: Any, values: Mapping[str, FieldValue]) -> Any:
    """Return a part of a document with the values in it, typed where it is one reference.

    Returns:
        None where it names a field without a value.
    """
    if not isinstance(part, str):
        return part
    try:
        named = is_reference(part)
        return fill_text(part, values) if named is None else _find(named, values)
    except Missing:
        return None


def fill_command(argv: list[str | list[str]], values: Mapping[str, FieldValue]) -> list[str]:
    """Return the elements of a command.

    An element that names a field without a value is left out, a list of elements as a whole. A
    reference to an array that is a whole element gives as many elements as the array has.
    """
    words = list[str]()
    for part in argv:
        group = part if isinstance(part, list) else [part]
        try:
            filled = list[str]()
            for element in group:
                filled += _fill_element(element, values)
        except Missing:
            continue
        words += filled
    return words


def _fill_element(element: str, values: Mapping[str, FieldValue]) -> list[str]:
    named = is_reference(element)
    if named is not None:
        value = _find(named, values)
        if isinstance(value, list):
            return [show_scalar(item) for item in value]
    return [fill_text(element, values)]


def _find(name: str, values: Mapping[str, FieldValue]) -> FieldValue:
    if name not in values:
        raise Missing(name)
    return values[name]
