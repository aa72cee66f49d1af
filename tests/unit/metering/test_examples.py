"""The examples in docstrings and in the documentation are true."""

from __future__ import annotations

import doctest
from pathlib import Path
from types import ModuleType

import pytest

from gpupool.metering import books, prices, routes, samples

PAGE = Path(__file__).parents[3] / "docs" / "concepts" / "metering.md"


@pytest.mark.parametrize(
    "module", [books, prices, routes, samples], ids=lambda module: module.__name__
)
def test_the_examples_of_a_module_are_true(module: ModuleType) -> None:
    failed, tried = doctest.testmod(module)
    assert tried > 0
    assert failed == 0


def test_the_figures_on_the_page_about_metering_are_true() -> None:
    failed, tried = doctest.testfile(str(PAGE), module_relative=False, encoding="utf-8")
    assert tried > 5
    assert failed == 0
