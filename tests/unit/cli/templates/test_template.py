"""Tests of how `gpupool template` writes what a template says."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from gpupool.cli.templates import template
from gpupool.terminal.language import speak


@pytest.fixture
def chinese() -> Iterator[None]:
    speak("zh")
    yield
    speak("en")


SUMMARY = {"en": "One job for each choice", "zh": "每个组合一个任务"}


def test_a_template_speaks_english_by_default() -> None:
    assert template.COLUMNS[-1].text({"summary": SUMMARY}) == SUMMARY["en"]


@pytest.mark.usefixtures("chinese")
def test_a_template_speaks_chinese_where_it_has_it() -> None:
    assert template.COLUMNS[-1].text({"summary": SUMMARY}) == SUMMARY["zh"]
    assert template.FIELD_COLUMNS[-1].text({"title": {"en": "Port", "zh": None}}) == "Port"
