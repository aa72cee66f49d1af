"""tools/check_style.py: what it finds, and a baseline that only shrinks."""

import importlib.util
import subprocess
import sys
from collections import Counter
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def style() -> ModuleType:
    path = ROOT / "tools" / "check_style.py"
    spec = importlib.util.spec_from_file_location("check_style", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["check_style"] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def project(style: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A source tree with one package, `pool`, and no baseline."""
    package = tmp_path / "src" / "gpupool" / "pool"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    monkeypatch.setattr(style, "SOURCE", package.parent)
    monkeypatch.setattr(style, "BASELINE", tmp_path / "baseline")
    monkeypatch.setattr(style, "CACHE", tmp_path / "cache.json")
    return package


def write_module(project: Path, name: str, body: str = "", *, tuples: int = 0) -> None:
    lines = ['"""A module."""', body, *["a, b = 1, 2"] * tuples]
    path = project / name
    path.parent.mkdir(exist_ok=True)
    path.write_text("\n".join(lines) + "\n")


def read_entry(project: Path, style: ModuleType) -> dict[str, Counter[str]]:
    entry: dict[str, Counter[str]] = style.read_baseline(style.BASELINE / "pool.toml")
    return entry


@pytest.mark.parametrize(
    ("source", "rule"),
    [
        ("def told(): pass", "banned-name"),
        ("class Seen: pass", "banned-name"),
        ("def _seen_to(): pass", "banned-name"),
        ("class Job:\n    @property\n    def ended(self): pass", "banned-name"),
        ('def stop():\n    """Stop a job.\n\n    Tell who waits."""', "banned-word"),
        ('LIMIT = 3\n"""Nobody waits longer."""', "banned-word"),
        ("pairs = {a: [b for b in a] for a in x}", "nested-comprehension"),
        ("def f(self, a, b):\n    self.a, self.b = a, b", "tuple-assignment"),
        ("x = 1\n" * 351, "long-module"),
    ],
)
def test_a_breach_is_found_once(style: ModuleType, source: str, rule: str) -> None:
    findings = style.find_in_module(Path("jobs.py"), f'"""Jobs."""\n{source}\n')
    assert [one.rule for one in findings] == [rule]


@pytest.mark.parametrize(
    "source",
    [
        "def is_held(): pass",
        "def read_seen(): pass",
        "class HeldSeat: pass",
        "def seed(): pass",
        "a, b = b, a",
        "low, high = middle, high",
        "a, b = f()",
        "pairs = [(a, b) for a in x for b in a]",
        'NAME = "who"',
        'def stop():\n    """Stop a job whose lease ended."""',
    ],
)
def test_plain_code_is_not_found(style: ModuleType, source: str) -> None:
    assert style.find_in_module(Path("jobs.py"), f'"""Jobs."""\n{source}\n') == []


def test_a_module_by_a_participle_is_found(style: ModuleType) -> None:
    assert [one.rule for one in style.find_in_module(Path("owed.py"), '"""X."""\n')] == [
        "banned-name"
    ]


def test_a_module_without_docstring_is_found_unless_empty(style: ModuleType) -> None:
    assert [one.rule for one in style.find_in_module(Path("jobs.py"), "x = 1\n")] == [
        "no-docstring"
    ]
    assert style.find_in_module(Path("__init__.py"), "") == []


def test_a_class_name_used_in_two_modules_is_found(
    style: ModuleType, project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_module(project, "a.py", "class Job: pass")
    write_module(project, "sub/b.py", "class Job: pass")
    assert style.main([]) == 1
    assert "sub/b.py:1: class Job, also in a.py" in capsys.readouterr().out


def test_a_folder_counts_each_module_over_its_limit(style: ModuleType, project: Path) -> None:
    for number in range(24):
        write_module(project, f"sub/m{number}.py")
    found = style.find_in_package(project, style.FindingsCache(style.CACHE))
    assert style.count_findings(found) == {"sub/": Counter({"long-folder": 2})}


def test_a_count_above_its_entry_fails_and_is_not_adopted(
    style: ModuleType, project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    style.write_baseline(style.BASELINE / "pool.toml", {"a.py": Counter({"tuple-assignment": 1})})
    write_module(project, "a.py", tuples=2)
    assert style.main([]) == 1
    assert "src/gpupool/pool/a.py:4: tuple assignment" in capsys.readouterr().out
    assert style.main(["--shrink"]) == 1
    assert read_entry(project, style) == {"a.py": Counter({"tuple-assignment": 1})}


def test_a_count_below_its_entry_warns_and_shrinks(
    style: ModuleType, project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    style.write_baseline(style.BASELINE / "pool.toml", {"a.py": Counter({"tuple-assignment": 3})})
    write_module(project, "a.py", tuples=2)
    assert style.main([]) == 0
    assert "1 entries can shrink" in capsys.readouterr().out
    assert style.main(["--shrink"]) == 0
    assert read_entry(project, style) == {"a.py": Counter({"tuple-assignment": 2})}


def test_an_empty_baseline_removes_its_file(style: ModuleType, project: Path) -> None:
    path = style.BASELINE / "pool.toml"
    style.write_baseline(path, {"a.py": Counter({"no-docstring": 1})})
    write_module(project, "a.py")
    assert style.main(["--shrink"]) == 0
    assert not path.exists()


def test_a_moved_module_takes_its_counts_along(style: ModuleType, project: Path) -> None:
    style.write_baseline(style.BASELINE / "pool.toml", {"old.py": Counter({"tuple-assignment": 2})})
    write_module(project, "new.py", tuples=2)
    assert style.main([]) == 0
    assert style.main(["--shrink"]) == 0
    assert read_entry(project, style) == {"new.py": Counter({"tuple-assignment": 2})}


def test_a_new_module_uses_no_more_than_others_gave_up(style: ModuleType, project: Path) -> None:
    style.write_baseline(style.BASELINE / "pool.toml", {"a.py": Counter({"tuple-assignment": 2})})
    write_module(project, "a.py", tuples=1)
    write_module(project, "b.py", tuples=2)
    assert style.main([]) == 1
    write_module(project, "b.py", tuples=1)
    assert style.main([]) == 0


def test_the_cache_answers_for_unchanged_modules_only(style: ModuleType, project: Path) -> None:
    write_module(project, "a.py", tuples=1)
    assert style.main([]) == 1
    assert style.main([]) == 1
    write_module(project, "a.py")
    assert style.main([]) == 0


def test_a_torn_cache_is_made_anew(style: ModuleType, project: Path) -> None:
    style.CACHE.write_text('{"rules":')
    write_module(project, "a.py", tuples=1)
    assert style.main([]) == 1


def test_a_changed_module_with_an_entry_is_listed(
    style: ModuleType,
    project: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    root = project.parents[2]
    monkeypatch.setattr(style, "ROOT", root)
    for name in ("a.py", "b.py", "c.py"):
        write_module(project, name, tuples=1)
    entry = {"tuple-assignment": 1}
    counts = {"a.py": Counter(entry), "b.py": Counter(entry)}
    style.write_baseline(style.BASELINE / "pool.toml", counts)
    git(root, "init", "-q")
    git(root, "add", ".")
    git(root, "commit", "-qm", "first")
    write_module(project, "a.py", tuples=0)
    write_module(project, "c.py", tuples=0)
    git(root, "commit", "-qam", "second")
    assert style.main(["--since", "HEAD~1"]) == 1
    assert capsys.readouterr().out == "src/gpupool/pool/a.py\n"
    assert style.main(["--since", "HEAD"]) == 0


def git(root: Path, *words: str) -> None:
    author = ["-c", "user.name=test", "-c", "user.email=test@example.com"]
    subprocess.run(["git", *author, *words], cwd=root, check=True)
