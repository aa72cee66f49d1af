"""The image's context has what its build copies, and nothing that was made here. It is built in
tests/e2e."""

from __future__ import annotations

import re
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


def test_the_image_has_what_is_locked_and_the_extra_that_a_cluster_needs() -> None:
    text = (ROOT / "deploy" / "Containerfile").read_text()
    (uv,) = re.findall(
        r'^VERSION = "(.+)"$', (ROOT / "tools" / "get_uv.py").read_text(), re.MULTILINE
    )
    assert f"uv=={uv} " in text
    assert "--require-hashes" in text
    assert "--extra kubernetes" in text
    assert "'gpupool[kubernetes]'" in text
    assert "USER 65532" in text
