"""`make gpu-bench`: figures of a real card in one JSON file: calibration, launches, shares, verify;
HAMi-core beside.

Builds its two small C programs with the machine's compiler, starts a pool of its own on the first
card, and leaves nothing but the files. `--out DIR` says where (bench/results/gpu).
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench import hami_peer
from bench.gpu.calibrate import calibrate
from bench.pool import GPUPOOL, command, gpupool
from tests.gpu.conftest import why_not

HERE = Path(__file__).parent
SHARES = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
SECONDS = "10"
BURN = (
    sys.executable,
    "-m",
    "gpupool.cli.main",
    "burn",
    "-o",
    "json",
    "--seconds",
    SECONDS,
    "--kernel-us",
    "500",
)


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.gpu", description=__doc__)
    parser.add_argument("--out", type=Path, default=HERE.parent / "results" / "gpu")
    asked = parser.parse_args(words)
    reason = why_not()
    if reason:
        print(f"nothing measured: {reason}", file=sys.stderr)
        return 0
    asked.out.mkdir(parents=True, exist_ok=True)
    launches = HERE / "launches"
    if not launches.exists():  # a bundle brings it, for a machine without a compiler
        launches = build(asked.out / "launches", HERE / "launches.c")
    figures: dict[str, Any] = {}

    def note(name: str, figure: Any) -> None:
        """Written at once: a run that is cut off leaves what it had."""
        figures[name] = figure
        (asked.out / "figures.json").write_text(json.dumps(figures, indent=1) + "\n")

    note("machine", platform.platform())
    note("launch_bare", _json(os.environ.copy(), str(launches)))
    note("calibration", calibrate(launches, asked.out / "calibration.json"))
    with pool() as env:
        measure(env, launches, asked.out, note)
    note("peer", peer(launches))
    print(f"{asked.out}/figures.json, calibration.json, verify.json, verify.html")
    return 0


def build(program: Path, *sources: Path) -> Path:
    subprocess.run(
        [
            "cc",
            "-std=gnu11",
            "-O2",
            "-Wall",
            "-Wextra",
            "-o",
            program,
            *sources,
            "-ldl",
            "-lpthread",
        ],
        check=True,
    )
    return program


@contextmanager
def pool() -> Iterator[dict[str, str]]:
    """The environment of a pool on the first card, gone at the end with all it had."""
    with tempfile.TemporaryDirectory(prefix="gpupool-gpu-bench-") as directory:
        env = {name: value for name, value in os.environ.items() if not name.startswith("GPUPOOL_")}
        env["GPUPOOL_STATE_DIR"] = str(Path(directory) / "state")
        gpupool(env, "up", "-d")
        try:
            gpupool(env, "adopt", "0")
            yield env
        finally:
            gpupool(env, "down", "--purge", "--yes")


def measure(
    env: dict[str, str], launches: Path, out: Path, note: Callable[[str, Any], None]
) -> None:
    """Launches in shares with and without a limit, what shares get, and the whole verification."""
    note("launch_no_limit", _in_share(env, "1", str(launches)))
    note("launch_limit", _in_share(env, "0.5", str(launches)))
    shares: dict[str, Any] = {}
    for share in SHARES:
        shares[str(share)] = _in_share(env, str(share), *BURN)["rate"]
        note("shares", shares)
    done = subprocess.run([GPUPOOL, "verify", "--out", str(out)], env=env, check=False)
    note("verify_exit_code", done.returncode)


def peer(launches: Path) -> dict[str, Any] | None:
    """The same of HAMi-core on the same card without a pool; None where GPUPOOL_BENCH_HAMI names no
    library."""
    try:
        found = hami_peer.find()
    except hami_peer.PeerMissingError as error:
        print(f"no peer: {error}", file=sys.stderr)
        return None
    with tempfile.TemporaryDirectory(prefix="gpupool-gpu-bench-") as directory:

        def below(percent: int, *words: str) -> dict[str, Any]:
            cache = Path(directory) / f"cache-{percent}-{len(words)}"  # of its own for each limit
            own = found.environment(cache, memory_bytes=4 << 30, percent=percent)
            return _json(os.environ | own, *words)

        return {
            "library": found.told(),
            "launch_no_limit": below(0, str(launches)),
            "launch_limit": below(50, str(launches)),
            "shares": {str(share): below(round(share * 100), *BURN)["rate"] for share in SHARES},
        }


def _in_share(env: dict[str, str], gpu: str, *words: str) -> dict[str, Any]:
    return _json(env, GPUPOOL, "run", "--quiet", "--gpu", gpu, "--memory", "4GiB", "--", *words)


def _json(env: dict[str, str], *words: str) -> dict[str, Any]:
    """The last line that a program printed."""
    found: dict[str, Any] = json.loads(command(env, words).splitlines()[-1])
    return found


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
