"""YAML from outside: values, or one error with its line."""

from __future__ import annotations

import pytest

from gpupool.client import yaml_text
from gpupool.client.yaml_text import BadYaml, read_documents


def values(text: str) -> list[object]:
    return [value for _, value in read_documents(text)]


def test_documents_leave_out_the_empty_ones() -> None:
    assert values("a: 1\n---\n---\n# words\n---\n- x\n") == [{"a": 1}, ["x"]]
    assert values("") == []


def test_documents_keep_a_null_that_is_written() -> None:
    assert values("null\n") == [None]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("a: [1\nb: 2\n", 2),
        ('a: 1\nb: !!int ""\n', 1),
        ("!!bool x\n", 1),
        ("x: 1\n---\n!!timestamp x\n", 3),
    ],
)
def test_document_that_is_no_yaml_names_its_line(text: str, line: int) -> None:
    with pytest.raises(BadYaml) as caught:
        read_documents(text)
    assert caught.value.line == line


def test_document_whose_aliases_mean_too_much_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(yaml_text, "MOST_VALUES", 12)
    bomb = "a: &a [1, 1, 1]\nb: [*a]\n"
    assert values(bomb) == [{"a": [1, 1, 1], "b": [[1, 1, 1]]}]
    with pytest.raises(BadYaml, match="more than 12 values"):
        read_documents("a: &a [1, 1, 1]\nb: [*a, *a]\n")


def test_document_that_holds_itself_is_refused() -> None:
    with pytest.raises(BadYaml, match="its aliases written out"):
        read_documents("&a [*a]\n")


def test_document_that_is_nested_too_deep_is_refused() -> None:
    with pytest.raises(BadYaml, match="recursion"):
        read_documents("[" * 5000 + "]" * 5000)
