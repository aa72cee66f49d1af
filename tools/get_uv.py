"""Print the path of a `uv` to use, fetching the pinned one into .tools/ when none is at hand.

Standard library only and no venv: this is the first thing that runs in a fresh clone, on whatever
Python the machine has. A `uv` on PATH that is recent enough is taken as it is. Otherwise the
machine's pip gets the pinned wheel, from wherever it is set up to get packages (its own
configuration, or UV_DEFAULT_INDEX, UV_INDEX_URL and UV_FIND_LINKS), checks it against the sums
below, and its one program is put into place in one step.

    python3 tools/get_uv.py [--into .tools]
"""

from __future__ import annotations  # the machine's own python3 may be older than the one we run on

import argparse
import io
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Mapping

VERSION = "0.13.8"
OLDEST = (0, 8, 0)  # reads our lock file and knows every option the Makefile uses
#: SHA-256 of the wheel for each kind of machine.
WHEELS = {
    "x86_64": "e18a57b8b352eb7c8feb317b9f6f533c8f0ad9673fd6cf34bbe3cf1a9f6a8984",
    "aarch64": "0b3e8b1a4f5e405e31e2ff33de8af4744831e9f7338539671efbd8c3c94e791d",
}
TIMEOUT_SECONDS = 60
WHAT_TO_DO = (
    f"install uv {VERSION} on PATH, or have pip find it:"
    " `pip config set global.index-url URL`, or PIP_FIND_LINKS=FOLDER"
)


class NoUv(Exception):
    """Why there is no uv, and what to type next."""


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument(
        "--into", default=".tools", help="where the fetched program lives (default: .tools)"
    )
    into = os.path.abspath(parser.parse_args(arguments).into)
    try:
        print(find(into) or fetch(into, os.environ))
    except NoUv as reason:
        print(f"get_uv: {reason}", file=sys.stderr)
        return 1
    return 0


def find(into: str) -> str | None:
    """A recent enough uv on PATH, or the pinned one fetched before."""
    on_path = shutil.which("uv")
    if on_path and version_of(on_path) >= OLDEST:
        return on_path
    fetched = os.path.join(into, "uv")
    return fetched if ".".join(map(str, version_of(fetched))) == VERSION else None


def version_of(program: str) -> tuple[int, ...]:
    """What `uv --version` says; () where it does not run or says something else."""
    try:
        said = subprocess.run(
            [program, "--version"], capture_output=True, text=True, timeout=TIMEOUT_SECONDS
        )
    except (OSError, subprocess.TimeoutExpired):
        return ()
    match = re.match(r"uv (\d+)\.(\d+)\.(\d+)", said.stdout)
    return tuple(map(int, match.groups())) if match and said.returncode == 0 else ()


def fetch(into: str, environ: Mapping[str, str]) -> str:
    """Have pip get the pinned wheel, unpack `uv` from it; returns the program's path."""
    machine = platform.machine()
    if sys.platform != "linux" or machine not in WHEELS:
        raise NoUv(
            f"no pinned uv for {sys.platform} {machine}; install uv {VERSION} yourself, then try again"
        )
    with tempfile.TemporaryDirectory() as place:
        return unpack(download(place, environ), into)


def download(place: str, environ: Mapping[str, str]) -> bytes:
    """The wheel as pip finds it: by this machine's index, proxy, certificates and folders. pip
    checks the sum."""
    asked = os.path.join(place, "uv.txt")
    with open(asked, "w", encoding="utf-8") as file:
        sums = " ".join(f"--hash=sha256:{sha256}" for sha256 in WHEELS.values())
        file.write(f"uv=={VERSION} {sums}\n")
    words = [
        "download",
        "--quiet",
        "--disable-pip-version-check",
        "--no-deps",
        "--only-binary=:all:",
    ]
    words += ["--require-hashes", "--dest", place, "--requirement", asked, *options(environ)]
    done = subprocess.run(
        [*pip(environ), *words], capture_output=True, text=True, env=dict(environ)
    )
    wheels = [name for name in os.listdir(place) if name.endswith(".whl")]
    if done.returncode != 0 or len(wheels) != 1:
        raise NoUv(
            f"pip could not get uv {VERSION}: {without_logins(done.stderr.strip())}\n{WHAT_TO_DO}"
        )
    with open(os.path.join(place, wheels[0]), "rb") as wheel:
        return wheel.read()


def options(environ: Mapping[str, str]) -> list[str]:
    """What uv's own variables say of where packages are, in pip's words; pip's are pip's to
    read."""
    index = environ.get("UV_DEFAULT_INDEX") or environ.get("UV_INDEX_URL")
    folders = re.split(r"[\s,]+", environ.get("UV_FIND_LINKS", ""))
    found = [f"--find-links={folder}" for folder in folders if folder]
    if index and environ.get("SSL_CERT_FILE") and not environ.get("PIP_CERT"):
        found.append(f"--cert={environ['SSL_CERT_FILE']}")
    return (
        [*found, f"--index-url={re.sub(r'^[A-Za-z0-9._-]+=(?=https?:)', '', index)}"]
        if index
        else found
    )


def pip(environ: Mapping[str, str]) -> list[str]:
    """A pip that runs: this Python's, or one on PATH."""
    for words in ([sys.executable, "-m", "pip"], ["pip3"], ["pip"]):
        try:
            if (
                subprocess.run(
                    [*words, "--version"], capture_output=True, env=dict(environ)
                ).returncode
                == 0
            ):
                return words
        except OSError:
            continue
    raise NoUv(f"there is no uv and no pip on this machine\n{WHAT_TO_DO}")


def without_logins(text: str) -> str:
    """pip hides passwords in most of its messages; here in all."""
    return re.sub(r"(?<=://)[^/@\s]+@", "", text)


def unpack(wheel: bytes, into: str) -> str:
    """Put the wheel's `uv` at into/uv in one step: another `make` may be doing the same."""
    os.makedirs(into, exist_ok=True)
    program = os.path.join(into, "uv")
    with (
        zipfile.ZipFile(io.BytesIO(wheel)) as archive,
        tempfile.NamedTemporaryFile(dir=into) as part,
    ):
        part.write(archive.read(f"uv-{VERSION}.data/scripts/uv"))
        part.flush()
        os.fchmod(part.fileno(), 0o755)
        os.link(part.name, f"{part.name}.new")
    os.replace(f"{part.name}.new", program)
    return program


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
