"""Print the figures of the code's shape beside their limits.

`python tools/measure_style.py [FOLDER]` measures `src/gpupool`, migrations left out: names, folders,
comprehensions, comments, functions, lines, tests at the mirrored path and subjects of commits. Each
figure stands beside its limit, its goal, its value at commit 48bd9b7 and in kopf, measured by the
same rules. `--untested` lists the modules with logic that have no test at their mirrored path.
"""

from __future__ import annotations

import argparse
import ast
import io
import subprocess
import sys
import tokenize
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "gpupool"
#: The tests of `src/gpupool/PATH/MODULE.py` are `tests/unit/PATH/test_MODULE.py` or
#: `test_MODULE_SUBJECT.py` beside it.
UNIT_TESTS = ROOT / "tests" / "unit"
#: The commit at which the figures of the column `before` were taken.
BASE_COMMIT = "48bd9b7"
#: Columns of a line, and of a commit's subject.
LINE_LENGTH = 100
SUBJECT_LENGTH = 72

COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
#: What makes a function more than a value or a call; a module without them needs no test file.
BRANCHES = (ast.If, ast.For, ast.While, ast.Try, ast.IfExp)


@dataclass(frozen=True)
class Figure:
    """A measured value with its limits, and with the same value elsewhere.

    Attributes:
        limit: the most that is accepted now, or the least with `at_least`; None without a limit.
        goal: the limit in the end.
        before: the value at `BASE_COMMIT`.
        model: the value in kopf.
    """

    name: str
    value: float
    limit: float | None = None
    goal: float | None = None
    before: float | None = None
    model: float | None = None
    at_least: bool = False

    @property
    def is_within_limit(self) -> bool:
        """Whether the value is within the present limit."""
        if self.limit is None:
            return True
        return self.value >= self.limit if self.at_least else self.value <= self.limit


@dataclass(frozen=True)
class Module:
    """A parsed source file."""

    path: Path
    text: str
    nodes: Sequence[ast.AST]

    @property
    def lines(self) -> int:
        """The number of its lines."""
        return self.text.count("\n")


def read_modules(folder: Path) -> list[Module]:
    """Parse every module below a folder except migrations."""
    modules = []
    for path in sorted(folder.rglob("*.py")):
        if "migrations" not in path.parts:
            text = path.read_text(encoding="utf-8")
            modules.append(Module(path, text, list(ast.walk(ast.parse(text)))))
    return modules


def iterate_nodes(modules: Sequence[Module]) -> Iterator[ast.AST]:
    """Yield every node of every module."""
    for module in modules:
        yield from module.nodes


def is_one_word(name: str) -> bool:
    """Whether a name without its leading underscores is one word, in snake or in camel case."""
    bare = name.strip("_")
    return "_" not in bare and not any(letter.isupper() for letter in bare[1:])


def count_lines(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Count a function's lines, its signature and docstring included."""
    return (function.end_lineno or function.lineno) - function.lineno + 1


def count_comments(module: Module) -> int:
    """Count the lines of a module that hold a comment."""
    if "#" not in module.text:
        return 0
    tokens = tokenize.generate_tokens(io.StringIO(module.text).readline)
    return sum(token.type == tokenize.COMMENT for token in tokens)


def is_nested(comprehension: ast.AST) -> bool:
    """Whether a comprehension contains another."""
    inner = (node for node in ast.walk(comprehension) if node is not comprehension)
    return any(isinstance(node, COMPREHENSIONS) for node in inner)


def measure_percent(part: int, whole: int) -> float:
    """Return a part in percent; 0 of nothing."""
    return 100 * part / whole if whole else 0.0


def measure_names(modules: Sequence[Module]) -> Iterator[Figure]:
    """Measure the names of functions and classes and the sizes of folders."""
    functions = []
    classes = []
    for node in iterate_nodes(modules):
        if isinstance(node, ast.ClassDef):
            classes.append(node.name)
        elif isinstance(node, FUNCTIONS) and not node.name.startswith("__"):
            functions.append(node.name)
    words = sum(len(name.strip("_").split("_")) for name in functions)
    one_word = measure_percent(sum(map(is_one_word, functions)), len(functions))
    yield Figure("one-word functions %", one_word, 45, 35, 70, 47)
    one_word = measure_percent(sum(map(is_one_word, classes)), len(classes))
    yield Figure("one-word classes %", one_word, 25, 20, 65, 18)
    yield Figure("words per function name", words / max(1, len(functions)), None, None, 1.32, 1.73)
    paths = [module.path for module in modules if module.path.name != "__init__.py"]
    folders = Counter(path.parent for path in paths).values()
    yield Figure("modules per folder, median", median(folders), 10, 10, 13, 8)
    yield Figure("modules per folder, most", max(folders), 22, 22, 88, 11)


def measure_shape(modules: Sequence[Module]) -> Iterator[Figure]:
    """Measure comprehensions, comments, functions, files and lines."""
    lines = sum(module.lines for module in modules)
    found = [node for node in iterate_nodes(modules) if isinstance(node, COMPREHENSIONS)]
    nested = sum(map(is_nested, found))
    comments = sum(map(count_comments, modules))
    yield Figure("comprehensions per 1,000 lines", 1000 * len(found) / lines, 20, 12, 46.9, 9.0)
    yield Figure("nested ones per 1,000 lines", 1000 * nested / lines, 1.5, 0.5, 4.8, 0.5)
    yield Figure("comments %", 100 * comments / lines, 2.5, 4, 0.7, 9.5, at_least=True)
    found_functions = (node for node in iterate_nodes(modules) if isinstance(node, FUNCTIONS))
    lengths = sorted(map(count_lines, found_functions))
    yield Figure("function lines, median", median(lengths), None, None, 6, 9)
    yield Figure("function lines, 90th percentile", lengths[len(lengths) * 9 // 10], 30, 30, 16, 49)
    yield Figure("function lines, most", lengths[-1], 80, 80)
    sizes = [module.lines for module in modules]
    yield Figure("file lines, median", median(sizes), None, None, 106, 149)
    yield Figure("file lines, most", max(sizes), None, None, 500, 968)
    long_lines = 0
    for module in modules:
        long_lines += sum(len(line) > LINE_LENGTH for line in module.text.splitlines())
    yield Figure("lines over 100 columns %", 100 * long_lines / lines, None, 0, 9.5, 0.4)


def has_logic(module: Module) -> bool:
    """Whether a function of the module has a branch or a loop."""
    if module.path.name in ("__init__.py", "__main__.py"):
        return False
    functions = (node for node in module.nodes if isinstance(node, FUNCTIONS))
    return any(isinstance(node, BRANCHES) for each in functions for node in ast.walk(each))


def has_own_test(path: Path, tests: Path) -> bool:
    """Whether a test file stands at the mirrored path of a module's path in its package."""
    folder = tests / path.parent
    return (folder / f"test_{path.stem}.py").exists() or any(folder.glob(f"test_{path.stem}_*.py"))


def measure_tests(
    modules: Sequence[Module], source: Path, tests: Path = UNIT_TESTS
) -> Iterator[Figure]:
    """Measure how many modules with logic have a test at their mirrored path."""
    paths = [module.path.relative_to(source) for module in modules if has_logic(module)]
    tested = sum(has_own_test(path, tests) for path in paths)
    percent = measure_percent(tested, len(paths))
    yield Figure("modules with a test beside %", percent, 80, 80, at_least=True)


def measure_commits(root: Path) -> Iterator[Figure]:
    """Count long subjects among the commits after `BASE_COMMIT`; nothing without its history."""
    command = ["git", "-C", str(root), "log", "--format=%s", "--no-merges", f"{BASE_COMMIT}.."]
    log = subprocess.run(command, capture_output=True, text=True, check=False)
    if log.returncode == 0:
        subjects = log.stdout.splitlines()
        long = sum(len(subject) > SUBJECT_LENGTH for subject in subjects)
        yield Figure(f"subjects over 72 of {len(subjects)}", long, None, 0)


def format_value(value: float | None) -> str:
    """Format a figure for the table; an unknown one is `-`."""
    if value is None:
        return "-"
    return f"{value:.0f}" if value == int(value) else f"{value:.1f}"


def print_figures(figures: Sequence[Figure]) -> None:
    """Print the table."""
    print(f"{'figure':<33}{'now':>7}{'limit':>7}{'goal':>7}{'before':>8}{'kopf':>7}")
    for one in figures:
        columns = f"{format_value(one.value):>7}{format_value(one.limit):>7}"
        columns += f"{format_value(one.goal):>7}{format_value(one.before):>8}"
        mark = "" if one.is_within_limit else "  beyond"
        print(f"{one.name:<33}{columns}{format_value(one.model):>7}{mark}")


def main(words: Sequence[str]) -> int:
    """Print the table; 1 if a figure is beyond its limit."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", nargs="?", type=Path, default=SOURCE, help="what to measure")
    parser.add_argument(
        "--untested", action="store_true", help="list modules without a test beside"
    )
    options = parser.parse_args(words)
    modules = read_modules(options.folder)
    figures = [
        *measure_names(modules),
        *measure_shape(modules),
        *measure_tests(modules, options.folder),
        *measure_commits(ROOT),
    ]
    print_figures(figures)
    if options.untested:
        for module in modules:
            path = module.path.relative_to(options.folder)
            if has_logic(module) and not has_own_test(path, UNIT_TESTS):
                print(path)
    return 0 if all(one.is_within_limit for one in figures) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
