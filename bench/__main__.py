"""Run the benches and print their figures: `python -m bench [NAME…] [--list] [--out DIR]`.

A bench is a module in bench/figures with `NAME` and `run(out) -> list[Row]`; being in the folder
registers it. Every bench runs in its own process, so that none inherits another's memory, imports
or failures.
"""

import argparse
import datetime
import importlib
import json
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

from bench.ending import run_child, unwind_on_signals
from bench.rows import Row, table

HERE = Path(__file__).parent
FIGURES = HERE / "figures"
REPOSITORY = HERE.parent
EXIT_MISSED = 1


class Bench(Protocol):
    """What a module in bench/figures offers; its docstring says what it measures."""

    NAME: str

    def run(self, out: Path) -> list[Row]: ...


def main(arguments: list[str]) -> int:
    asked = _parser().parse_args(arguments)
    benches = registered(FIGURES)
    unknown = sorted(set(asked.names) - set(benches))
    if unknown:
        print(
            f"no bench named {', '.join(unknown)}; there are: {', '.join(benches) or 'none'}",
            file=sys.stderr,
        )
        return 2
    if asked.list:
        print("\n".join(f"{name:20} {_first_line(module)}" for name, module in benches.items()))
        return 0
    if asked.count is not None:
        os.environ["BENCH_KILLS"] = str(asked.count)
    if asked.seed is not None:
        os.environ["BENCH_SEED"] = str(asked.seed)
    if asked.out is None:
        # Committed records change only where a reader asks for it.
        with tempfile.TemporaryDirectory(prefix="gpupool-bench-") as out:
            return _run_all(asked.names or list(benches), Path(out))
    asked.out.mkdir(parents=True, exist_ok=True)
    if asked.in_this_process:
        return _run_here(benches[asked.names[0]], asked.out)
    return _run_all(asked.names or list(benches), asked.out)


def registered(folder: Path) -> dict[str, str]:
    """Module names by bench name, in the order of their files."""
    modules = [f"bench.figures.{path.stem}" for path in sorted(folder.glob("[a-z]*.py"))]
    return {_load(module).NAME: module for module in modules}


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m bench", description="Measure the figures the docs quote."
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="benches to run; default: all")
    parser.add_argument(
        "--list", action="store_true", help="say which there are, and measure nothing"
    )
    parser.add_argument(
        "--out", type=Path, help="write results.json and records there; default: print alone"
    )
    parser.add_argument(
        "--count", type=int, metavar="KILLS", help="how often benches of kills kill (BENCH_KILLS)"
    )
    parser.add_argument(
        "--seed", type=int, metavar="SEED", help="of benches of kills (BENCH_SEED; default: random)"
    )
    parser.add_argument("--in-this-process", action="store_true", help=argparse.SUPPRESS)
    return parser


def _load(module: str) -> Bench:
    loaded: Any = importlib.import_module(module)
    bench: Bench = loaded
    return bench


def _first_line(module: str) -> str:
    return (importlib.import_module(module).__doc__ or "").strip().split("\n", 1)[0]


def _run_here(module: str, out: Path) -> int:
    """The child's part: measure one bench and leave its rows as JSON."""
    bench = _load(module)
    rows = bench.run(out)
    (out / f"{bench.NAME}.json").write_text(
        json.dumps([row.as_json() for row in rows], indent=1) + "\n"
    )
    return 0


def _run_all(names: Sequence[str], out: Path) -> int:
    rows: list[Row] = []
    broken = [name for name in names if not _run_in_child(name, out, rows)]
    (out / "results.json").write_text(json.dumps(_record(rows, broken), indent=1) + "\n")
    print(table(rows))
    if broken:
        print(f"did not finish: {', '.join(broken)}", file=sys.stderr)
    return EXIT_MISSED if broken or any(row.holds is False for row in rows) else 0


def _run_in_child(name: str, out: Path, rows: list[Row]) -> bool:
    """Whether the bench finished; its rows are added to `rows`."""
    print(f"bench {name} …", file=sys.stderr, flush=True)
    result = out / f"{name}.json"
    result.unlink(missing_ok=True)
    command = [
        sys.executable,
        "-m",
        "bench",
        name,
        "--in-this-process",
        "--out",
        str(out.resolve()),
    ]
    if run_child(command, REPOSITORY) != 0:
        return False
    rows += [_row(fields) for fields in json.loads(result.read_text())]
    return True


def _row(fields: dict[str, Any]) -> Row:
    derived = {"ratio", "holds"}
    kept: dict[str, Any] = {
        n: tuple(v) if isinstance(v, list) else v for n, v in fields.items() if n not in derived
    }
    return Row(**kept)


def _record(rows: Sequence[Row], broken: Sequence[str]) -> dict[str, Any]:
    """The rows with what a reader needs to judge them: which code, on what machine, when."""
    commit = subprocess.run(
        ["git", "describe", "--always", "--dirty"], cwd=REPOSITORY, capture_output=True, text=True
    )
    return {
        "at": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "commit": commit.stdout.strip() or None,
        "machine": {
            "system": platform.platform(),
            "python": platform.python_version(),
            "cpus": os.cpu_count(),
            "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        },
        "rows": [row.as_json() for row in rows],
        "did_not_finish": list(broken),
    }


if __name__ == "__main__":
    unwind_on_signals()
    sys.exit(main(sys.argv[1:]))
