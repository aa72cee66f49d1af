"""Everything that the tests, benches and the guard's questions for a real card need, for a machine
without a network.

    python tools/make_gpu_bundle.py dist/gpu-bundle.tar.gz        # here, over the network: make gpu-bundle

There, with Python 3.12 on x86-64 and an NVIDIA driver, one command; each takes 10 minutes at most:

    tar xzf gpu-bundle.tar.gz && sh gpu-bundle/run.sh test OUT    # or bench, guard, simulated

Results are written to OUT as they come, so a run that is cut off leaves what it had. `simulated`
runs the tests of shares on a simulated card, which shows that the bundle is whole. Nothing is
compiled or fetched there.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parent.parent
NAME: Final = "gpu-bundle"
VERSION: Final = "3.12"
MOST_BYTES: Final = 60 << 20
TESTS: Final = ("pytest", "pytest-xdist", "hypothesis")
#: Of the tree: what the tests and benches for a card import or compile.
TREE: Final = ("pyproject.toml", "LICENSE", "bench", "tests", "native")
NOT_OF_TREE: Final = (
    "tests/kubernetes/",
    "tests/golden/",
    "tests/fuzz/corpus/",
    "bench/results/",
    "bench/kubernetes/",
)

RUN: Final = """#!/bin/sh
# sh run.sh test|bench|guard|simulated OUT: one part, results in OUT as they come. Unpacks itself the first time.
set -eu
part=${1:?test, bench, guard or simulated}
mkdir -p "${2:?a directory for the results}"
out=$(cd "$2" && pwd)
cd "$(dirname "$0")"
python=${PYTHON:-python3.12}
if [ ! -e .venv/ready ]; then
    "$python" -m venv --without-pip .venv
    for pip in wheels/pip-*.whl; do :; done
    .venv/bin/python "$pip/pip" install --quiet --no-index --find-links wheels gpupool gpupool-native TESTS
    touch .venv/ready
fi
case $part in
test) set -- .venv/bin/python -u -m pytest -n 0 -p no:cacheprovider -vv -rA tests/gpu ;;
bench) set -- .venv/bin/python -u -m bench.gpu --out "$out" ;;
guard) set -- bench/gpu/guard/guard ;;
simulated) set -- .venv/bin/python -u -m pytest -n 0 -p no:cacheprovider -vv tests/e2e/test_fence_shares.py ;;
*) echo "run.sh: got $part, expected test, bench, guard or simulated" >&2; exit 2 ;;
esac
{ timeout 570 "$@" 2>&1 || echo "$?" >"$out/$part.status"; } | tee "$out/$part.txt"
[ ! -e "$out/$part.status" ] || exit "$(cat "$out/$part.status")"
"""


def main(words: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("out", type=Path, help="the archive to write")
    asked = parser.parse_args(words)
    with tempfile.TemporaryDirectory(prefix="gpupool-gpu-bundle-") as temporary:
        folder = Path(temporary) / NAME
        folder.mkdir()
        gather(folder / "wheels", Path(temporary))
        copy_tree(folder)
        build_programs(folder)
        (folder / "run.sh").write_text(RUN.replace("TESTS", " ".join(TESTS)))
        asked.out.parent.mkdir(parents=True, exist_ok=True)
        with tarfile.open(asked.out, "w:gz") as archive:
            archive.add(folder, NAME)
    size = asked.out.stat().st_size
    print(f"{asked.out}: {size >> 20} MiB")
    if size > MOST_BYTES:
        print(f"make gpu-bundle: {size} bytes, expected at most {MOST_BYTES}", file=sys.stderr)
        return 1
    return 0


def gather(wheels: Path, temporary: Path) -> None:
    """Ours from here, the others' of uv.lock's versions for Python 3.12 on x86-64."""
    locked, wanted = temporary / "locked.txt", temporary / "wanted.txt"
    plain = ("export", "--quiet", "--frozen", "--no-annotate", "--no-hashes", "--no-emit-workspace")
    _uv(*plain, "--group", "dev", "--output-file", str(locked))
    _uv(*plain, "--no-dev", "--output-file", str(wanted))
    _uv("build", "--quiet", "--wheel", "--all-packages", "--out-dir", str(wheels))
    platforms = [f"--platform=manylinux{one}_x86_64" for one in ("_2_28", "_2_17", "2014")]
    target = (
        *platforms,
        "--only-binary=:all:",
        f"--python-version={VERSION}",
        "--implementation=cp",
    )
    _uv(
        *("tool", "run", "pip", "download", "--quiet", *target, "--constraint", str(locked)),
        *("--requirement", str(wanted), *TESTS, "pip", "--dest", str(wheels)),
    )


def _uv(*words: str) -> None:
    found = subprocess.run(
        [sys.executable, "-I", "-S", ROOT / "tools/get_uv.py"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    subprocess.run([found.stdout.split()[-1], *words], cwd=ROOT, check=True)


def copy_tree(folder: Path) -> None:
    """What git knows of it, as it stands in the working tree."""
    listed = subprocess.run(
        ["git", "ls-files", *TREE], cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True
    )
    for name in listed.stdout.splitlines():
        if name.startswith(NOT_OF_TREE) or not (ROOT / name).is_file():
            continue
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, target)


def build_programs(folder: Path) -> None:
    """The two C programs, since the machine with the card may have no compiler."""
    guard = folder / "bench/gpu/guard"
    options = ["cc", "-std=gnu11", "-O2", "-Wall", "-Wextra", "-o"]
    libraries = ["-ldl", "-lpthread"]
    subprocess.run([*options, guard / "guard", *sorted(guard.glob("*.c")), *libraries], check=True)
    launches = folder / "bench/gpu/launches"
    subprocess.run([*options, launches, folder / "bench/gpu/launches.c", *libraries], check=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
