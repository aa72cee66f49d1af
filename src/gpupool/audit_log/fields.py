"""The summary of a request's body for the audit log: which fields it sets, and harmless values.

The wire shape decides, not the text: a value is shown where its type cannot hold a secret (a
number, a truth value, a word of a fixed list) or where `shown_texts` lists the field. Pure.
"""

from __future__ import annotations

import json
import types
import typing
from collections.abc import Mapping, Sequence
from enum import Enum
from functools import cache
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel

from gpupool.audit_log.shown_texts import SHOWN_TEXTS

#: Stands for a value that is not shown.
HIDDEN: Final = "(not shown)"
#: Items of a list, characters of a text, and bytes of a summary that are kept.
ITEMS_SHOWN: Final = 10
TEXT_CHARACTERS: Final = 200
SUMMARY_BYTES: Final = 4096
#: Shapes hold shapes at most that deep; a group of roles may hold itself.
_DEEPEST: Final = 6


def summarize_body(shape: Any, body: bytes) -> dict[str, Any]:
    """Summarize a JSON body by the type that its route declares; `{}` where there is none."""
    if not body or shape is None:
        return {}
    try:
        given = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    found = _summarize(shape, given, False, _DEEPEST)
    if not isinstance(found, dict):
        return {}
    if len(json.dumps(found)) <= SUMMARY_BYTES:
        return found
    short: dict[str, Any] = {}
    for name, value in found.items():
        short[name] = HIDDEN if isinstance(value, (dict, list)) else value
    return short


def _summarize(annotation: Any, value: Any, is_shown: bool, depth: int) -> Any:
    if value is None:
        return None
    options = list_options(annotation)
    if isinstance(value, bool):
        return value if bool in options else HIDDEN
    if isinstance(value, int):
        return value if int in options or float in options else HIDDEN
    if isinstance(value, float):
        # Canonical bytes have no fractions.
        return repr(value) if float in options else HIDDEN
    if isinstance(value, str):
        fits = any(_is_word_of(option, value) for option in options)
        return value[:TEXT_CHARACTERS] if fits or (is_shown and str in options) else HIDDEN
    if depth == 0:
        return HIDDEN
    if isinstance(value, dict):
        return _summarize_object(options, value, depth)
    return _summarize_list(options, value, is_shown, depth)


def _summarize_object(options: Sequence[Any], value: Mapping[str, Any], depth: int) -> Any:
    shapes = [one for one in options if isinstance(one, type) and issubclass(one, BaseModel)]
    for shape in shapes:
        known = list_fields(shape)
        if shape is not shapes[-1] and not value.keys() <= known.keys():
            continue
        shown = SHOWN_TEXTS.get(shape.__name__, frozenset())
        # What the shape does not know is left out: its name is the caller's text.
        return {
            name: _summarize(known[name], one, name in shown, depth - 1)
            for name, one in value.items()
            if name in known
        }
    return f"({len(value)} entries)"


def _summarize_list(
    options: Sequence[Any], value: Sequence[Any], is_shown: bool, depth: int
) -> Any:
    items: list[Any] = []
    for option in options:
        if typing.get_origin(option) in (list, tuple):
            items += typing.get_args(option)
    if not items:
        return HIDDEN
    found = [_summarize(items, one, is_shown, depth - 1) for one in value[:ITEMS_SHOWN]]
    if found and all(one == HIDDEN for one in found):
        return f"({len(value)} items)"
    if len(value) > ITEMS_SHOWN:
        found.append(f"({len(value) - ITEMS_SHOWN} more)")
    return found


def _is_word_of(option: Any, value: str) -> bool:
    if typing.get_origin(option) is Literal:
        return value in typing.get_args(option)
    if isinstance(option, type) and issubclass(option, Enum):
        return any(member.value == value for member in option)
    return False


@cache
def list_fields(shape: type[BaseModel]) -> Mapping[str, Any]:
    """List the fields of a shape by the name that a body gives them, with their types."""
    return {field.alias or name: field.annotation for name, field in shape.model_fields.items()}


def list_options(annotation: Any) -> tuple[Any, ...]:
    """List the types that an annotation, or a list of them, allows: no `Annotated`, no unions."""
    if isinstance(annotation, list):
        return tuple(option for one in annotation for option in list_options(one))
    origin = typing.get_origin(annotation)
    if origin is Annotated:
        return list_options(typing.get_args(annotation)[0])
    if origin is typing.Union or origin is types.UnionType:
        found: list[Any] = []
        for one in typing.get_args(annotation):
            found += list_options(one)
        return tuple(found)
    return (annotation,)
