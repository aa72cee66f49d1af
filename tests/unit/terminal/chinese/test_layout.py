"""Chinese lines: as wide as they look, broken where Chinese is broken."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from gpupool.terminal.chinese.layout import wrap_signs
from gpupool.terminal.output import measure_width


def test_a_line_is_broken_by_the_columns_that_signs_take() -> None:
    assert wrap_signs("资源池没有卡", 8) == ["资源池没", "有卡"]


def test_no_line_begins_with_a_closing_sign() -> None:
    assert wrap_signs("资源池没，有卡", 8) == ["资源池", "没，有卡"]
    assert wrap_signs("资源（池）没", 6) == ["资源", "（池）", "没"]


def test_a_latin_word_stays_whole() -> None:
    assert wrap_signs("请用 gpupool ps 查看", 13) == ["请用 gpupool", "ps 查看"]


@settings(max_examples=40)
@given(st.text("资源池，。（）gpu 0-", max_size=60), st.integers(12, 40))
def test_nothing_is_lost_but_blanks_at_the_ends_of_lines(text: str, width: int) -> None:
    lines = wrap_signs(text, width)
    assert "".join("".join(lines).split()) == "".join(text.split())
    assert all(measure_width(line) <= width or " " not in line for line in lines)
