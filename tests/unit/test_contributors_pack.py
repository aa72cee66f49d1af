"""What contributors are told exists: paths in CONTRIBUTING, the form of decision records, links."""

import re
import shlex
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
DECISIONS = ROOT / "docs" / "decisions"
PAGES = (
    ROOT / "CONTRIBUTING.md",
    ROOT / "SECURITY.md",
    ROOT / "changelog.d" / "README.md",
    *sorted(DECISIONS.glob("*.md")),
)
RECORDS = sorted(DECISIONS.glob("0*.md"))
HEADINGS = ["Status", "Context", "Decision", "Consequences"]
LINK = re.compile(r"\[[^]]*\]\((?!https?:|#)([^)#\s]+)(?:#[^)]*)?\)")
#: A path of the repository in backticks; `A` and `B` stand for any name.
PATH = re.compile(r"`((?:src|tests|tools|docs|bench|native|changelog\.d)/[\w./-]*|base/[\w.]+)`")


def list_paths(text: str) -> list[str]:
    paths = [path for path in PATH.findall(text) if not re.search(r"\b[AB]\b|test_B", path)]
    return [path if not path.startswith("base/") else f"src/gpupool/{path}" for path in paths]


def test_every_path_in_contributing_exists() -> None:
    paths = list_paths((ROOT / "CONTRIBUTING.md").read_text())
    assert len(paths) > 40
    assert [path for path in paths if not (ROOT / path).exists()] == []


def test_every_make_target_in_contributing_exists() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = re.findall(r"(?:^|`)make ([a-z-]+)", (ROOT / "CONTRIBUTING.md").read_text(), re.M)
    assert set(named) - targets == set()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_leads_to_a_file(page: Path) -> None:
    links = LINK.findall(page.read_text())
    assert [link for link in links if not (page.parent / link).exists()] == []


@pytest.mark.parametrize("record", RECORDS, ids=lambda page: page.stem)
def test_a_record_has_the_four_headings_in_order(record: Path) -> None:
    text = record.read_text()
    assert re.match(rf"# {record.name[:4]}: \S.*\n\nDate: \d{{4}}-\d\d-\d\d\.", text)
    assert re.findall(r"^## (.*)$", text, re.MULTILINE) == HEADINGS
    assert not re.search(r"^## .*\n\n(## |\Z)", text, re.MULTILINE), "an empty section"


def test_no_number_of_a_record_is_taken_twice() -> None:
    numbers = Counter(record.name[:4] for record in RECORDS)
    assert [number for number, count in numbers.items() if count > 1] == []


@pytest.mark.parametrize("path", sorted((ROOT / ".github").rglob("*.yml")), ids=lambda p: p.name)
def test_an_issue_form_is_complete(path: Path) -> None:
    form = yaml.safe_load(path.read_text())
    if path.name == "config.yml":
        assert form == {"blank_issues_enabled": True}
        return
    assert {"name", "description", "body"} <= set(form)
    assert all(part["attributes"]["label"] for part in form["body"])


def test_the_hooks_run_what_make_check_runs() -> None:
    config = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())
    check = (ROOT / "Makefile").read_text()
    hooks = config["repos"][0]["hooks"]
    for hook in [one for one in hooks if "commit-msg" not in one.get("stages", [])]:
        program = hook["entry"].removeprefix(".venv/bin/").removesuffix(" --force-exclude")
        assert program in check, hook["id"]


@pytest.mark.parametrize(("length", "accepted"), [(1, True), (72, True), (73, False)])
def test_the_hook_of_subjects_counts_characters(
    tmp_path: Path, length: int, accepted: bool
) -> None:
    config = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())
    [hook] = [one for one in config["repos"][0]["hooks"] if one["id"] == "subject"]
    message = tmp_path / "message"
    message.write_text("x" * length + "\n\n" + "y" * 100 + "\n")
    done = subprocess.run([*shlex.split(hook["entry"]), str(message)], check=False)
    assert (done.returncode == 0) == accepted


def test_fragments_become_a_section_above_the_newest(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "changelog.d", tmp_path / "changelog.d")
    (tmp_path / "src" / "gpupool").mkdir(parents=True)
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    shutil.copy(ROOT / "CHANGELOG.md", tmp_path)
    (tmp_path / "changelog.d" / "node-of-a-job.added.md").write_text("`ps` shows the node.\n")
    words = ["build", "--yes", "--version", "9.8.7", "--dir", str(tmp_path), "--date", "2030-01-02"]
    subprocess.run(
        [sys.executable, "-m", "towncrier", *words], cwd=tmp_path, check=True, capture_output=True
    )
    text = (tmp_path / "CHANGELOG.md").read_text()
    assert "`ps` shows the node." in text
    sections = re.findall(r"^## (.*)$", text, re.MULTILINE)
    before = re.findall(r"^## (.*)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert sections == ["9.8.7 (2030-01-02)", *before]
