"""Reads and checks the values of a template's fields. Pure."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, Any, Final

from pydantic import StringConstraints, TypeAdapter, ValidationError
from pydantic_core import SchemaError

from gpupool.base.errors import BadTemplateValue, GpupoolError
from gpupool.base.units import GIB, parse_duration, parse_memory
from gpupool.wire.templates.documents import MOST, FieldValue, TemplateField

#: Characters of a value that a message repeats.
_SHOWN: Final = 80
#: Wrong fields that a message names; `details` has all.
_LINES: Final = 8
#: Units of which a value may have its own, as `8GiB` or `90m`: (reader, size of the unit).
_UNITS: Final = {
    "GiB": (parse_memory, GIB),
    "h": (parse_duration, 3600),
    "min": (parse_duration, 60),
}
_TRUTH: Final = {"true": True, "yes": True, "false": False, "no": False}


@dataclass(frozen=True)
class FieldFault:
    """What is wrong with the value of one field."""

    field: str
    problem: str
    value: Any
    bounds: str

    def describe(self) -> dict[str, Any]:
        """Return it as an entry of `details`."""
        shown = self.value
        if isinstance(shown, str):
            shown = shown[:_SHOWN]
        if isinstance(shown, list):
            shown = [str(item)[:_SHOWN] for item in shown[:10]]
        return {
            "field": self.field,
            "problem": self.problem,
            "value": shown,
            "bounds": self.bounds,
        }


class _Wrong(ValueError):
    """A value that a field does not take; the text is the problem."""


def check_values(
    fields: Mapping[str, TemplateField], given: Mapping[str, FieldValue], template: str
) -> dict[str, FieldValue]:
    """Return the values of all fields that have one, defaults too, as their types.

    Args:
        fields: The fields of the template.
        given: Values as they were sent. An empty text is no value.
        template: Its name, for the hint.

    Raises:
        BadTemplateValue: Some are wrong; `details` names every one.
    """
    faults = [
        FieldFault(name, "the template has no such field", given[name], "")
        for name in given
        if name not in fields
    ]
    values: dict[str, FieldValue] = {}
    for name, field in sorted(fields.items(), key=lambda item: (item[1].order, item[0])):
        value = given.get(name)
        if value is None or value in ("", []):
            value = field.default
        if value is None:
            if field.required:
                faults.append(FieldFault(name, "a value is needed", None, describe_bounds(field)))
            continue
        try:
            values[name] = read_value(field, value)
        except _Wrong as error:
            faults.append(FieldFault(name, str(error), value, describe_bounds(field)))
    refuse_faults(faults, template)
    return values


def refuse_faults(faults: list[FieldFault], template: str) -> None:
    """Raise BadTemplateValue if there is a fault."""
    if not faults:
        return
    lines = list[str]()
    for fault in faults[:_LINES]:
        bounds = f"; it takes {fault.bounds}" if fault.bounds else ""
        lines.append(f"{fault.field}: {fault.problem}{bounds}")
    if len(faults) > _LINES:
        lines.append(f"and {len(faults) - _LINES} more")
    raise BadTemplateValue(
        "\n".join(lines),
        hint=f"gpupool template show {template}  lists the fields",
        fields=[fault.describe() for fault in faults],
    )


def read_value(field: TemplateField, value: FieldValue) -> FieldValue:
    """Return a value as the type of its field. Raises ValueError with the problem."""
    if field.type != "array":
        if isinstance(value, list):
            raise _Wrong(f"got {len(value)} values, expected one")
        found = _read_scalar(field, value)
        _check_enum(field, found)
        return found
    items = _split_items(value)
    if field.max_items is not None and len(items) > field.max_items:
        raise _Wrong(f"got {len(items)} values, expected at most {field.max_items}")
    texts = [_read_text(field, item) for item in items]
    for text in texts:
        _check_enum(field, text)
    return list(texts)


def describe_bounds(field: TemplateField) -> str:
    """Say what a field takes: `a number from 0.01 to 1 GPU`."""
    kind = {
        "string": "text",
        "integer": "a whole number",
        "number": "a number",
        "boolean": "true or false",
        "array": "a text each time that it is given, or a JSON list",
    }[field.type]
    if field.enum is not None:
        return "one of " + ", ".join(show_scalar(choice) for choice in field.enum)
    unit = f" {field.unit}" if field.unit else ""
    if field.minimum is not None and field.maximum is not None:
        kind += f" from {field.minimum:.10g} to {field.maximum:.10g}{unit}"
    elif field.minimum is not None:
        kind += f" of at least {field.minimum:.10g}{unit}"
    elif field.maximum is not None:
        kind += f" of at most {field.maximum:.10g}{unit}"
    elif field.unit:
        kind += f" in {field.unit}"
    if field.pattern is not None:
        kind += f" like {field.pattern}"
    if field.max_length is not None:
        kind += f", at most {field.max_length} characters"
    if field.max_items is not None:
        kind += f", at most {field.max_items} of them"
    return kind


@lru_cache(maxsize=1024)
def compile_pattern(pattern: str) -> TypeAdapter[str]:
    """Compile a pattern of a whole text. Raises ValueError for one that is wrong.

    The engine is that of Rust: its time is linear in the text, so no pattern of a tenant can keep
    the server busy.
    """
    try:
        return TypeAdapter(Annotated[str, StringConstraints(pattern=f"^(?:{pattern})$")])
    except SchemaError as error:
        raise ValueError(f"pattern {pattern[:_SHOWN]!r} cannot be read") from error


def _split_items(value: FieldValue) -> list[Any]:
    if isinstance(value, list):
        return value
    text = show_scalar(value)
    if text.lstrip().startswith("["):
        try:
            found = json.loads(text)
        except ValueError as error:
            raise _Wrong(f"got {text[:_SHOWN]!r}, which is no JSON list") from error
        if not isinstance(found, list) or any(isinstance(one, (list, dict)) for one in found):
            raise _Wrong(f"got {text[:_SHOWN]!r}, expected a list of texts")
        return found
    # Never split: a text may have commas and blanks of its own.
    return [text]


def _read_scalar(field: TemplateField, value: Any) -> bool | int | float | str:
    if field.type == "string":
        return _read_text(field, value)
    if field.type == "boolean":
        if isinstance(value, bool):
            return value
        found = _TRUTH.get(str(value).strip().lower())
        if found is None:
            raise _Wrong(f"got {show_scalar(value)[:_SHOWN]!r}, expected true or false")
        return found
    return _read_number(field, value)


def _read_text(field: TemplateField, value: Any) -> str:
    text = show_scalar(value)
    if "\0" in text:
        raise _Wrong("it holds a NUL character")
    if field.max_length is not None and len(text) > field.max_length:
        raise _Wrong(f"got {len(text)} characters, expected at most {field.max_length}")
    if field.pattern is not None:
        try:
            compile_pattern(field.pattern).validate_python(text)
        except ValidationError as error:
            raise _Wrong(f"got {text[:_SHOWN]!r}") from error
    return text


def _read_number(field: TemplateField, value: Any) -> int | float:
    number = _parse_number(field, value)
    if field.type == "integer":
        if number != int(number):
            raise _Wrong(f"got {number:g}, expected a whole number")
        number = int(number)
    if field.minimum is not None and number < field.minimum:
        raise _Wrong(f"got {number:g}")
    if field.maximum is not None and number > field.maximum:
        raise _Wrong(f"got {number:g}")
    return number


def _parse_number(field: TemplateField, value: Any) -> int | float:
    if isinstance(value, bool):
        raise _Wrong(f"got {show_scalar(value)}, expected a number")
    number = value if isinstance(value, (int, float)) else _parse_typed(field, value.strip())
    # In this order: a whole number of hundreds of digits is no float. No number at all compares.
    if not abs(number) <= MOST:
        raise _Wrong(f"got {show_scalar(value)[:_SHOWN]}, expected a finite number")
    return number


def _parse_typed(field: TemplateField, text: str) -> int | float:
    try:
        return float(text) if "_" not in text else math.nan
    except ValueError:
        pass
    if field.unit not in _UNITS:
        raise _Wrong(f"got {text[:_SHOWN]!r}, expected a number")
    parse, size = _UNITS[field.unit]
    try:
        return parse(text) / size
    except GpupoolError as error:
        raise _Wrong(error.message) from error


def _check_enum(field: TemplateField, value: Any) -> None:
    if field.enum is not None and show_scalar(value) not in [
        show_scalar(choice) for choice in field.enum
    ]:
        raise _Wrong(f"got {show_scalar(value)[:_SHOWN]!r}")


def show_scalar(value: bool | int | float | str) -> str:
    """Return a value as a command line has it.

    >>> show_scalar(True), show_scalar(8.0), show_scalar(1e-05), show_scalar("a b")
    ('true', '8', '1e-05', 'a b')
    """
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return str(int(value))
    return str(value)
