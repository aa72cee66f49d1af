"""What the hot commands import, and what of the processor they take before and beside the pool's
own work."""

import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from bench.pool import GPUPOOL, Pool, running_pool
from bench.rows import Row

NAME = "imports"
RUNS = 11
SHARE = ("--gpu", "0.1", "--memory", "1GiB")
HEAVY = frozenset(
    {
        *(
            "fastapi",
            "starlette",
            "uvicorn",
            "httptools",
            "pydantic",
            "requests",
            "httpx",
            "aiohttp",
            "prometheus_client",
        ),
        *("sqlalchemy", "alembic", "sqlite3", "psycopg"),
        *(
            "numpy",
            "gpupool.scheduling",
            "gpupool.server",
            "gpupool.store",
            "gpupool.allocations",
            "gpupool.fleet",
        ),
        *("rich", "textual", "shtab", "yaml", "pynvml"),
    }
)
"""Web, database and scheduler packages, and others that take longer to import than a command may
take."""

HOT: dict[str, tuple[str, ...]] = {
    "--version": ("--version",),
    "run": ("run", *SHARE, "--", "true"),
    "submit": ("submit", *SHARE, "--", "true"),
    "ps": ("ps",),
    "gpus": ("gpus",),
}

_CHILD = """\
import json, os, sys
before = set(sys.modules)
from gpupool.cli.main import main
output = os.dup(1)
os.dup2(2, 1)
code = main(sys.argv[1:])
os.write(output, json.dumps([code, sorted(set(sys.modules) - before)]).encode())
os._exit(0)
"""


def run(out: Path) -> list[Row]:
    with running_pool("4xL40S") as pool:
        found = {name: imported(words, pool.env) for name, words in HOT.items()}
        seconds = {
            name: [cpu_seconds((GPUPOOL, *words), pool.env) for _ in range(RUNS)]
            for name, words in HOT.items()
        }
        bare = [cpu_seconds((sys.executable, "-c", ""), pool.env) for _ in range(RUNS)]
        times = import_times(pool)
    (out / "imports-modules.json").write_text(
        json.dumps({"modules": found, "microseconds": times}, indent=1) + "\n"
    )
    rows = [_heavy_row(name, modules) for name, modules in found.items()]
    return rows + [_time_row(name, samples, bare) for name, samples in seconds.items()]


def imported(words: Sequence[str], env: dict[str, str], code: int = 0) -> list[str]:
    """Modules that a command imports beyond those that Python starts with. Raises when it ends with
    another code."""
    child = [sys.executable, "-c", _CHILD, *words]
    done = subprocess.run(
        child, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True
    )
    ended, modules = json.loads(done.stdout)
    if ended != code:
        raise RuntimeError(f"gpupool {' '.join(words)} exited {ended}: {done.stderr}")
    return list(modules)


def heavy(modules: Sequence[str]) -> list[str]:
    """Those of the modules that belong to a package a hot command may not import."""
    return [name for name in modules if not HEAVY.isdisjoint(_parents(name))]


def _parents(name: str) -> list[str]:
    """`a.b.c` and all it lies in.

    >>> _parents("a.b.c")
    ['a', 'a.b', 'a.b.c']
    """
    parts = name.split(".")
    return [".".join(parts[: n + 1]) for n in range(len(parts))]


def cpu_seconds(words: Sequence[str], env: dict[str, str]) -> float:
    """User and system time of a command itself; the pool's part is the pool's."""
    with tempfile.TemporaryFile() as said:
        child = subprocess.Popen(words, env=env, stdin=subprocess.DEVNULL, stdout=said, stderr=said)
        _pid, status, used = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        if child.returncode != 0:
            said.seek(0)
            raise RuntimeError(
                f"{' '.join(words)} exited {child.returncode}: {said.read().decode()}"
            )
    return used.ru_utime + used.ru_stime


def import_times(pool: Pool) -> dict[str, dict[str, int]]:
    """By command, its ten dearest modules in microseconds of their own, as `python -X importtime`
    has them."""
    return {name: _dearest(words, pool.env) for name, words in HOT.items()}


def _dearest(words: Sequence[str], env: dict[str, str]) -> dict[str, int]:
    child = [sys.executable, "-X", "importtime", "-c", _CHILD, *words]
    done = subprocess.run(
        child, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True
    )
    lines = [
        line.removeprefix("import time:").split("|")
        for line in done.stderr.splitlines()
        if "import time:" in line
    ]
    own = {cells[2].strip(): int(cells[0]) for cells in lines if cells[0].strip().isdigit()}
    return dict(sorted(own.items(), key=lambda item: -item[1])[:10])


def _heavy_row(name: str, modules: Sequence[str]) -> Row:
    found = heavy(modules)
    figure = f"{name}: web, database and scheduler modules imported"
    return Row(
        figure,
        "",
        len(found),
        f"gpupool {' '.join(HOT[name])}",
        limit=0,
        note=", ".join(found[:10]),
    )


def _time_row(name: str, samples: Sequence[float], bare: Sequence[float]) -> Row:
    return Row(
        f"{name}: CPU of the command",
        "ms",
        statistics.median(samples) * 1000,
        f"gpupool {' '.join(HOT[name])}",
        peer=statistics.median(bare) * 1000,
        peer_command="python -c ''",
        samples=tuple(sample * 1000 for sample in samples),
        peer_samples=tuple(sample * 1000 for sample in bare),
    )
