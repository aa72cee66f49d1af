"""tools/measure_style.py: each figure on a tree that is small enough to count by hand."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = '''"""A module."""

LIMIT = 3  # nodes that a test machine has


class Seat:
    def held(self):
        return [[b for b in a] for a in self.rows]


class FreeSeat(Seat):
    def count_cards(self):
        return sum(1 for _ in self.rows)

    def __len__(self):
        return 0
'''


@pytest.fixture(scope="module")
def measure() -> ModuleType:
    path = ROOT / "tools" / "measure_style.py"
    spec = importlib.util.spec_from_file_location("measure_style", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["measure_style"] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def values(measure: ModuleType, tmp_path: Path) -> dict[str, float]:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "seats.py").write_text(SOURCE)
    (tmp_path / "a" / "__init__.py").write_text('"""A package."""\n')
    (tmp_path / "migrations").mkdir()
    (tmp_path / "migrations" / "one.py").write_text("def f():\n    pass\n")
    modules = measure.read_modules(tmp_path)
    figures = [*measure.measure_names(modules), *measure.measure_shape(modules)]
    return {one.name: one.value for one in figures}


def test_names_are_counted_without_dunders_and_migrations(values: dict[str, float]) -> None:
    assert values["one-word functions %"] == 50
    assert values["one-word classes %"] == 50
    assert values["words per function name"] == 1.5
    assert values["modules per folder, most"] == 1


def test_comprehensions_comments_and_lengths_are_counted(values: dict[str, float]) -> None:
    lines = SOURCE.count("\n") + 1
    assert values["comprehensions per 1,000 lines"] == pytest.approx(3000 / lines)
    assert values["nested ones per 1,000 lines"] == pytest.approx(1000 / lines)
    assert values["comments %"] == pytest.approx(100 / lines)
    assert values["function lines, most"] == 2
    assert values["lines over 100 columns %"] == 0


def test_a_limit_may_be_the_least(measure: ModuleType) -> None:
    assert measure.Figure("comments", 3, 2.5, at_least=True).is_within_limit
    assert not measure.Figure("comments", 2, 2.5, at_least=True).is_within_limit
    assert not measure.Figure("names", 46, 45).is_within_limit
    assert measure.Figure("names", 46).is_within_limit


def test_a_module_with_a_branch_wants_a_test_at_its_mirrored_path(
    measure: ModuleType, tmp_path: Path
) -> None:
    source = tmp_path / "source"
    tests = tmp_path / "tests"
    for name in ("tested", "untested", "plain"):
        (source / "a").mkdir(parents=True, exist_ok=True)
        branch = "" if name == "plain" else "    if n:\n        return 1\n"
        (source / "a" / f"{name}.py").write_text(f"def count(n):\n{branch}    return 0\n")
    (tests / "a").mkdir(parents=True)
    (tests / "a" / "test_tested_counts.py").write_text("")
    (figure,) = measure.measure_tests(measure.read_modules(source), source, tests)
    assert figure.value == 50
    assert not figure.is_within_limit
