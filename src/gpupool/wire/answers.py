"""Reads answers of a server that may be newer than this program (ADR 0096).

A request with an unknown field is refused, since a misspelt field would take effect as its default.
An answer may have fields that came with a later version: they are left out, and a reader that must
not ignore a demand asks which of them are not empty.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from pydantic import BaseModel

Shape = TypeVar("Shape", bound="BaseModel")
#: Names of fields and indices of lists, from the outside to the field.
Path = tuple[str | int, ...]


def read_answer(shape: type[Shape], answer: Any) -> Shape:
    """Read an answer without the fields that this version does not know.

    Raises:
        pydantic.ValidationError: a field is missing or has another type.
    """
    return shape.model_validate(answer, extra="ignore")


def read_demanding_answer(shape: type[Shape], answer: Any) -> tuple[Shape, list[Path]]:
    """Read an answer, and list the unknown fields that are not empty: they may demand something.

    Raises:
        pydantic.ValidationError: a field is missing or has another type.
    """
    from pydantic import ValidationError

    try:
        return shape.model_validate(answer), []
    except ValidationError as error:
        unknown = list[Path]()
        for fault in error.errors(include_url=False):
            # A server sends null, false, 0 or nothing in it where a feature is not used.
            if fault["type"] == "extra_forbidden" and fault["input"]:
                unknown.append(fault["loc"])
    return read_answer(shape, answer), unknown


def format_path(path: Path) -> str:
    """Format the path of a field without indices: `work.container.runtime`."""
    return ".".join(part for part in path if isinstance(part, str))
