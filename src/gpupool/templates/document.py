"""What a version of a template must fulfil before it is kept. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any, Final

from gpupool.base.errors import BadTemplate
from gpupool.base.ids import check_name
from gpupool.templates.references import is_reference, list_references
from gpupool.templates.rendering import JOB, LISTEN
from gpupool.templates.values import compile_pattern, read_value
from gpupool.wire.templates.documents import TemplateField, TemplateIn

#: Names that options of `gpupool template run` have already.
RESERVED: Final = frozenset(
    (
        *("name", "version", "set", "output", "tenant", "project", "priority", "owner"),
        *("dry_run", "preview", "help", "state_dir", "no_color", JOB, LISTEN),
    )
)
#: Programs whose word after `-c` is a program itself: a value in it could be one too.
_SHELLS: Final = frozenset(
    ("sh", "bash", "dash", "zsh", "ksh", "fish", "python", "python3", "perl")
)
_NUMBERS: Final = ("integer", "number")
#: Parts of `job` that must be a number, or a reference to one.
_NUMERIC: Final = (
    *("gpu", "memory_gib", "count", "cpus", "host_memory_gib", "max_hours", "idle_minutes"),
    "array",
)
_FLAGS: Final = ("preemptible", "requeue")


def check_document(document: TemplateIn) -> None:
    """Raise BadTemplate for a document that could never be rendered, or that is unsafe."""
    check_name(document.name, "template name")
    for name, field in document.fields.items():
        if name in RESERVED:
            _refuse(f"fields.{name}", f"the name {name} is an option of every template")
        _check_field(name, field)
    _check_references(document)
    _check_command(document)
    _check_numbers(document)
    _check_kinds(document)


def _check_field(name: str, field: TemplateField) -> None:
    place = f"fields.{name}"
    is_number = field.type in _NUMBERS
    if not is_number and (field.minimum is not None or field.maximum is not None or field.unit):
        _refuse(place, f"minimum, maximum and unit are of numbers, and it is a {field.type}")
    if is_number and (field.pattern is not None or field.max_length is not None):
        _refuse(place, f"pattern and max_length are of texts, and it is a {field.type}")
    if field.max_items is not None and field.type != "array":
        _refuse(place, f"max_items is of an array, and it is a {field.type}")
    if None not in (field.minimum, field.maximum) and field.minimum > field.maximum:  # type: ignore[operator]
        _refuse(place, f"minimum {field.minimum:g} is above maximum {field.maximum:g}")
    if field.pattern is not None:
        try:
            compile_pattern(field.pattern)
        except ValueError as error:
            _refuse(place, str(error))
    for choice in field.enum or ():
        _check_value(f"{place}.enum", field.model_copy(update={"enum": None}), choice)
    if field.default is not None:
        _check_value(f"{place}.default", field, field.default)


def _check_value(place: str, field: TemplateField, value: Any) -> None:
    is_item = field.type == "array" and not isinstance(value, list)
    try:
        read_value(field, [value] if is_item else value)
    except ValueError as error:
        _refuse(place, str(error))


def _check_references(document: TemplateIn) -> None:
    job = document.job.model_dump()
    for place, text in _walk("job", job):
        for name in list_references(text):
            if name not in document.fields and name != LISTEN:
                _refuse(place, f"it refers to {name}, which is no field")
    for number, line in enumerate(document.follow):
        for name in list_references(line):
            if name not in document.fields and name != JOB:
                _refuse(f"follow.{number}", f"it refers to {name}, which is no field")


def _check_command(document: TemplateIn) -> None:
    words = list[str]()
    for part in document.job.argv:
        words += part if isinstance(part, list) else [part]
    program = words[0].rsplit("/", 1)[-1]
    if program not in _SHELLS:
        return
    for option, script in pairwise(words):
        if option.startswith("-") and option.endswith("c") and list_references(script):
            _refuse(
                "job.argv",
                f"{program} {option} would read a value as a program: "
                "hand it over as an element after the script, and read it as $1",
            )


def _check_numbers(document: TemplateIn) -> None:
    job = document.job
    places: list[tuple[str, Any]] = [(name, getattr(job, name)) for name in _NUMERIC]
    if job.gang is not None:
        places += [("gang.size", job.gang.size), ("gang.minimum", job.gang.minimum)]
    if job.sweep is not None:
        places += [("sweep.trials", job.sweep.trials), ("sweep.seed", job.sweep.seed)]
    if job.port is not None:
        places.append(("port.number", job.port.number))
    for place, written in places:
        _check_typed(document, place, written, _NUMBERS, "a number")
    for place in _FLAGS:
        _check_typed(document, place, getattr(job, place), ("boolean",), "true or false")


def _check_typed(
    document: TemplateIn, place: str, written: Any, kinds: tuple[str, ...], what: str
) -> None:
    if not isinstance(written, str):
        return
    named = is_reference(written)
    field = None if named is None else document.fields.get(named)
    if field is None or field.type not in kinds:
        _refuse(f"job.{place}", f"got {written[:80]!r}, expected {what} or a field that is one")


def _check_kinds(document: TemplateIn) -> None:
    job = document.job
    given = [name for name in ("array", "sweep", "gang") if getattr(job, name) is not None]
    if len(given) > 1:
        _refuse("job", f"{given[0]} and {given[1]} exclude each other")
    if job.mounts and job.image is None:
        _refuse("job.mounts", "only a container has mounts, and there is no image")
    if job.sweep is None:
        return
    named = is_reference(job.sweep.parameters)
    field = None if named is None else document.fields.get(named)
    if field is None or field.type != "array":
        _refuse("job.sweep.parameters", "expected a reference to a field of type array")
    if "{value}" not in job.sweep.argument:
        _refuse("job.sweep.argument", "expected {value} in it, as --{name}={value}")


def _walk(place: str, part: Any) -> Iterator[tuple[str, str]]:
    """Yield every text of a part of the document with its place."""
    if isinstance(part, str):
        yield place, part
    elif isinstance(part, dict):
        for name, inner in part.items():
            yield from _walk(f"{place}.{name}", inner)
    elif isinstance(part, list):
        for number, inner in enumerate(part):
            yield from _walk(f"{place}.{number}", inner)


def _refuse(place: str, problem: str) -> None:
    raise BadTemplate(
        f"{place}: {problem}",
        hint="gpupool template show notebook -o yaml  is an example",
        place=place,
    )
