"""Values of fields: read from text or JSON, bounded, and refused at their field with the numbers."""

from __future__ import annotations

from typing import Any

import pytest

from gpupool.base.errors import BadTemplateValue
from gpupool.templates.values import check_values
from gpupool.wire.templates.documents import TemplateField

FIELDS: dict[str, dict[str, Any]] = {
    "gpu": {"type": "number", "minimum": 0.01, "maximum": 1, "unit": "GPU", "default": 0.5},
    "memory": {"type": "number", "minimum": 1, "maximum": 80, "unit": "GiB"},
    "hours": {"type": "number", "maximum": 48, "unit": "h"},
    "count": {"type": "integer", "minimum": 1},
    "fast": {"type": "boolean"},
    "method": {"enum": ["grid", "random"]},
    "host": {"pattern": "[a-z]+:[0-9]+", "max_length": 10},
    "words": {"type": "array", "max_items": 3},
}


def read(**given: Any) -> dict[str, Any]:
    fields = {
        name: TemplateField.model_validate({"title": {"en": name}, **field})
        for name, field in FIELDS.items()
    }
    return check_values(fields, given, "some")


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"memory": "8GiB"}, 8),
        ({"memory": "1536MiB"}, 1.5),
        ({"hours": "90m"}, 1.5),
        ({"hours": 2}, 2),
        ({"count": "3"}, 3),
        ({"count": 3.0}, 3),
        ({"fast": "yes"}, True),
        ({"fast": False}, False),
        ({"method": "grid"}, "grid"),
        ({"host": "abc:80"}, "abc:80"),
        ({"words": "lr=0.1, 0.2"}, ["lr=0.1, 0.2"]),
        ({"words": '["a, b"]'}, ["a, b"]),
        ({"words": ["a b", "c"]}, ["a b", "c"]),
    ],
)
def test_a_value_is_read_as_the_type_of_its_field(given: dict[str, Any], expected: Any) -> None:
    name = next(iter(given))
    found = read(**given)
    # The default of `gpu` is there too.
    assert found == {"gpu": 0.5, name: expected}
    assert isinstance(found[name], bool) == isinstance(expected, bool)


@pytest.mark.parametrize(
    ("given", "problem", "bounds"),
    [
        ({"gpu": 2}, "got 2", "a number from 0.01 to 1 GPU"),
        ({"gpu": "much"}, "got 'much', expected a number", "a number from 0.01 to 1 GPU"),
        ({"gpu": float("nan")}, "got nan, expected a finite number", "a number from 0.01 to 1 GPU"),
        ({"gpu": 10**400}, f"got {'1' + '0' * 79}, expected a finite number", None),
        ({"gpu": "1e999"}, "got 1e999, expected a finite number", None),
        ({"gpu": True}, "got true, expected a number", "a number from 0.01 to 1 GPU"),
        ({"gpu": "1_0"}, "got 1_0, expected a finite number", "a number from 0.01 to 1 GPU"),
        ({"hours": "3d"}, "got 72", "a number of at most 48 h"),
        ({"count": 1.5}, "got 1.5, expected a whole number", "a whole number of at least 1"),
        ({"count": [1, 2]}, "got 2 values, expected one", "a whole number of at least 1"),
        ({"fast": "maybe"}, "got 'maybe', expected true or false", "true or false"),
        ({"method": "annealing"}, "got 'annealing'", "one of grid, random"),
        ({"host": "abc:80; rm"}, "got 'abc:80; rm'", None),
        ({"host": "a\0:1"}, "it holds a NUL character", None),
        ({"host": "abcdefghij:1"}, "got 12 characters, expected at most 10", None),
        ({"words": ["a", "b", "c", "d"]}, "got 4 values, expected at most 3", None),
        ({"words": "[1,"}, "got '[1,', which is no JSON list", None),
        ({"lr": 1}, "the template has no such field", ""),
    ],
)
def test_a_wrong_value_is_refused_at_its_field(
    given: dict[str, Any], problem: str, bounds: str | None
) -> None:
    with pytest.raises(BadTemplateValue) as caught:
        read(**given)
    (entry,) = caught.value.details["fields"]
    assert (entry["field"], entry["problem"]) == (next(iter(given)), problem)
    assert bounds is None or entry["bounds"] == bounds
    assert caught.value.message.startswith(f"{entry['field']}: {problem}")


def test_every_wrong_field_is_named_at_once() -> None:
    with pytest.raises(BadTemplateValue) as caught:
        read(gpu=3, count=0, foreign=1)
    named = [entry["field"] for entry in caught.value.details["fields"]]
    assert sorted(named) == ["count", "foreign", "gpu"]
    assert len(caught.value.message.splitlines()) == 3
    assert "gpu: got 3; it takes a number from 0.01 to 1 GPU" in caught.value.message


def test_a_pattern_takes_time_linear_in_the_text() -> None:
    # Exponential for an engine that goes back: 2 to the power of 5000 steps.
    field = TemplateField.model_validate({"title": {"en": "x"}, "pattern": "(a+)+b"})
    with pytest.raises(BadTemplateValue):
        check_values({"x": field}, {"x": "a" * 5000}, "some")


def test_a_field_without_value_is_absent_and_a_required_one_is_refused() -> None:
    fields = {
        "a": TemplateField.model_validate({"title": {"en": "a"}}),
        "b": TemplateField.model_validate({"title": {"en": "b"}, "required": True}),
    }
    assert check_values(fields, {"a": "", "b": "x"}, "some") == {"b": "x"}
    with pytest.raises(BadTemplateValue, match="b: a value is needed"):
        check_values(fields, {"b": ""}, "some")
