"""A sample pool on a socket, and command lines that are typed to it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gpupool.cli.main import main
from tests.unit.cli.golden import AnswerWith, GoldenLine, TypedLine, compare
from tests.unit.cli.sample import NOW, sample_pool
from tests.unit.client.scripted_pool import Request, ScriptedPool, reply


@pytest.fixture
def pool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ScriptedPool]:
    """The sample pool, found by every command of the test, at a clock that stands."""
    monkeypatch.setattr("time.time_ns", lambda: NOW)
    monkeypatch.setenv("GPUPOOL_STATE_DIR", str(tmp_path))
    with sample_pool(tmp_path) as running:
        yield running


@pytest.fixture
def answer_with(pool: ScriptedPool) -> AnswerWith:
    """Lets the sample pool answer a method and path below /api/v1/ with a value and a status."""
    usual = pool.handler
    given: dict[tuple[str, str], bytes] = {}

    def answer(asked: Request) -> bytes:
        path = asked.target.removeprefix("/api/v1/").partition("?")[0]
        return given.get((asked.method, path)) or usual(asked)

    def add(method: str, path: str, value: Any, status: int = 200) -> None:
        given[method, path] = reply(value, status)

    pool.handler = answer
    return add


@pytest.fixture
def type_line(capsys: pytest.CaptureFixture[str]) -> TypedLine:
    """Runs a command line; returns its exit code, stdout and stderr."""

    def type_words(line: str) -> tuple[int, str, str]:
        code = main(line.split())
        said = capsys.readouterr()
        return code, said.out, said.err

    return type_words


@pytest.fixture
def golden_line(
    pool: ScriptedPool,
    type_line: TypedLine,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> GoldenLine:
    """Runs a command line and compares all that it prints with the golden file of that name."""
    monkeypatch.chdir(tmp_path)

    def check_line(name: str, line: str) -> None:
        code, out, err = type_line(line)
        parts = [
            f"$ gpupool {line}\n",
            out,
            f"--- stderr\n{err}" if err else "",
            f"--- exit {code}\n" if code else "",
        ]
        compare(name, "".join(parts).replace(str(tmp_path), "/STATE"))

    return check_line
