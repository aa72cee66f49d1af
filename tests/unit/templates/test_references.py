"""References: values are put in once, elements are never split, what has no value is left out."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gpupool.templates.references import fill_command, fill_text, fill_value, list_references

TEXTS = st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=40)


@given(TEXTS, TEXTS)
def test_a_value_stays_text_whatever_is_in_it(a: str, b: str) -> None:
    filled = fill_command(["x", "${a}", "--b=${b}", "${a}${b}"], {"a": a, "b": b})
    assert filled == ["x", a, f"--b={b}", a + b]


def test_a_reference_in_a_value_is_not_read_again() -> None:
    values = {"a": "${b} $(id) `id`; rm -rf /", "b": "secret"}
    assert fill_command(["echo", "${a}"], values) == ["echo", "${b} $(id) `id`; rm -rf /"]


@given(st.lists(TEXTS, max_size=5))
def test_an_array_gives_one_element_for_each_item(items: list[str]) -> None:
    assert fill_command(["p", "${a}"], {"a": list(items)}) == ["p", *items]


def test_what_names_a_field_without_a_value_is_left_out() -> None:
    argv = ["p", "--a=${a}", ["--b", "${b}"], ["--c", "${c}"], "${a}"]
    assert fill_command(argv, {"b": 1.0}) == ["p", "--b", "1"]
    assert fill_value("${a}", {}) is None


def test_numbers_keep_their_type_where_they_are_the_whole_part() -> None:
    assert fill_value("${a}", {"a": 0.5}) == 0.5
    assert fill_value("${a}h", {"a": 8.0}) == "8h"
    assert fill_text("${a} ${b}", {"a": True, "b": ["x", "y"]}) == "true x,y"


def test_shell_variables_and_doubled_dollars_are_no_references() -> None:
    text = "$HOME ${HOME} ${GPUPOOL_RUN} $${lr} $1"
    assert list_references(text) == []
    assert fill_text(text, {"lr": "1"}) == "$HOME ${HOME} ${GPUPOOL_RUN} ${lr} $1"
