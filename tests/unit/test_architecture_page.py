"""Every module, command, program and file that docs/architecture.md names exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gpupool.kubernetes.plugin import COMMANDS
from gpupool.terminal.commands import SUMMARIES

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "architecture.md").read_text()
SOURCE = ROOT / "src"


def _named(pattern: str) -> list[str]:
    return sorted(set(re.findall(pattern, PAGE)))


def _sources(folder: str, *endings: str) -> str:
    files = [file for file in (ROOT / folder).rglob("*") if file.suffix in endings]
    return "\n".join(file.read_text() for file in files if "build" not in file.parts)


@pytest.mark.parametrize("name", _named(r"\bgpupool(?:\.[a-z_]+)+\b"))
def test_named_module_exists(name: str) -> None:
    if name == "gpupool.dev":
        return
    place = SOURCE.joinpath(*name.split("."))
    assert place.is_dir() or place.with_suffix(".py").is_file()


@pytest.mark.parametrize("name", _named(r"`((?:native|deploy|bench|tests|tools|docs)/[\w./-]*)`"))
def test_named_path_exists(name: str) -> None:
    assert (ROOT / name).exists()


@pytest.mark.parametrize("name", _named(r"(?<!kubectl )\bgpupool ([a-z]+)\b"))
def test_named_command_exists(name: str) -> None:
    assert name in SUMMARIES


@pytest.mark.parametrize("name", _named(r"\bkubectl gpupool ([a-z]+)\b"))
def test_named_command_of_the_plugin_exists(name: str) -> None:
    assert name in COMMANDS


@pytest.mark.parametrize("name", _named(r"\bgpupool-(?!native\b)[a-z]+\b"))
def test_named_program_is_built(name: str) -> None:
    assert f"add_executable({name}" in _sources("native", ".txt")


@pytest.mark.parametrize("name", _named(r"`JOB/(\w+)`"))
def test_named_file_of_a_job_is_in_the_protocol(name: str) -> None:
    assert f"| `{name}` |" in (ROOT / "docs" / "reference" / "supervisor.md").read_text()


@pytest.mark.parametrize("name", _named(r"\b((?:share|usage)/[a-z.]+)\b"))
def test_named_file_of_an_allocation_is_in_the_source(name: str) -> None:
    text = _sources("src/gpupool/mechanisms", ".py")
    assert f'"{name}"' in text or f'"{Path(name).name}"' in text


def test_the_package_map_names_every_package() -> None:
    found = {file.parent.name for file in (SOURCE / "gpupool").glob("*/__init__.py")}
    assert {name for name in found if f"| `gpupool.{name}` |" not in PAGE} == set()
