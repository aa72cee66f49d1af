"""The image's context has what its build copies, and nothing that was made here. Of the two ways to build it the tests
take the one without a builder (tests/kubernetes/installed).
"""

from __future__ import annotations

import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
CONTEXT = (ROOT / "deploy" / "Containerfile.dockerignore").read_text().split()
KEPT = [line.removeprefix("!") for line in CONTEXT if line.startswith("!")]


def test_everything_that_is_kept_is_there() -> None:
    assert [path for path in KEPT if not (ROOT / path).exists()] == []


def test_what_the_project_is_built_of_is_kept() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert project["project"]["readme"] in KEPT
    assert set(project["project"]["license-files"]) <= set(KEPT)
    assert {*project["tool"]["uv"]["workspace"]["members"], "src"} <= set(KEPT)


def test_the_image_has_the_extra_that_a_cluster_needs() -> None:
    text = (ROOT / "deploy" / "Containerfile").read_text()
    assert text.count("[kubernetes]") == 2
    assert "USER 65532" in text
