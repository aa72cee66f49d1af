"""Starting is cheap because little is imported: counted by module, on the real commands."""

import os
from pathlib import Path

import pytest

from bench.figures.imports import HOT, heavy, imported

A_HANDFUL = 25
NO_POOL = 7
"""How a command ends that finds no pool: it has imported what it speaks to one with."""


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    return {"PATH": os.environ["PATH"], "GPUPOOL_STATE_DIR": str(tmp_path / "state")}


def test_the_version_is_told_without_web_database_and_scheduler(env: dict[str, str]) -> None:
    modules = imported(HOT["--version"], env)
    assert "gpupool.cli.main" in modules
    assert heavy(modules) == []


def test_the_version_is_told_with_a_handful_of_modules(env: dict[str, str]) -> None:
    modules = imported(HOT["--version"], env)
    assert len(modules) <= A_HANDFUL, modules


@pytest.mark.parametrize("name", sorted(set(HOT) - {"--version"}))
def test_a_hot_command_speaks_to_its_pool_without_them_too(name: str, env: dict[str, str]) -> None:
    modules = imported(HOT[name], env, code=NO_POOL)
    assert "gpupool.client.transport" in modules
    assert heavy(modules) == []


def test_a_package_is_found_by_any_of_its_modules() -> None:
    assert heavy(
        [
            "sqlalchemy.sql.base",
            "gpupool.scheduling.engine.cycle",
            "gpupool.cli.work.run",
            "numpyro",
        ]
    ) == [
        "sqlalchemy.sql.base",
        "gpupool.scheduling.engine.cycle",
    ]
