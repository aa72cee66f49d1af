"""Fetches NVIDIA's `nvidia-cuda-mps-control` from Debian's archive, for tests against the real one.

The package is not free, so it is never part of this repository. apt fetches it with its own sources
and its own state: the machine's sources stay as they are, and nothing is installed. Its control
daemon starts without a card; its server does not.
"""

import shutil
import subprocess
from pathlib import Path

PACKAGE = "nvidia-cuda-mps"
#: Fetched once per checkout; the directory is ignored by git.
CACHE = Path(__file__).parents[2] / ".tools" / "mps"


class NoProgram(Exception):
    """The program cannot be had here; the text says why."""


def fetch_program(cache: Path = CACHE) -> Path:
    """Return the program, fetched unless it was before.

    Raises:
        NoProgram: this is no Debian, or its archive cannot be reached.
    """
    program = cache / "root" / "usr" / "bin" / "nvidia-cuda-mps-control"
    if program.exists():
        return program
    for tool in ("apt-get", "dpkg-deb"):
        if shutil.which(tool) is None:
            raise NoProgram(f"{tool} is not here: this is no Debian")
    release = read_release(Path("/etc/os-release"))
    if release.get("ID") != "debian":
        raise NoProgram(f"{PACKAGE} is fetched from Debian, this is {release.get('ID')}")
    shutil.rmtree(cache, ignore_errors=True)
    for name in ("lists/partial", "archives/partial"):
        (cache / name).mkdir(parents=True)
    line = f"{find_mirror(Path('/etc/apt'))} {release['VERSION_CODENAME']} non-free"
    (cache / "sources.list").write_text(f"deb {line}\n")
    run_apt(cache, "update")
    run_apt(cache, "download", PACKAGE)
    (package,) = cache.glob(f"{PACKAGE}_*.deb")
    subprocess.run(["dpkg-deb", "-x", package, cache / "root"], check=True)
    return program


def run_apt(cache: Path, *words: str) -> None:
    """Run apt-get with sources and state of its own."""
    options = {
        "Dir::Etc::sourcelist": cache / "sources.list",
        "Dir::Etc::sourceparts": "/dev/null",
        "Dir::State::lists": cache / "lists",
        "Dir::Cache": cache,
        # The account _apt cannot write here.
        "APT::Sandbox::User": "root",
        "Acquire::http::Timeout": 20,
        "Acquire::Retries": 2,
    }
    command = ["apt-get", "-q"]
    for name, value in options.items():
        command += ["-o", f"{name}={value}"]
    try:
        done = subprocess.run(
            [*command, *words],
            cwd=cache,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=120,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise NoProgram(f"apt-get {words[0]} took more than 120 s") from None
    # `update` ends with 0 also where it reached no archive.
    if done.returncode != 0 or "Failed to fetch" in done.stdout:
        raise NoProgram(f"apt-get {' '.join(words)}: {done.stdout.strip()[-300:]}")


def find_mirror(folder: Path) -> str:
    """Return the Debian archive that this machine is configured for, as a one-line source has it."""
    for path in sorted(folder.glob("sources.list*")) + sorted(folder.glob("sources.list.d/*")):
        if not path.is_file():
            continue
        for line in path.read_text(errors="replace").splitlines():
            for word in line.split():
                if word.startswith(("http://", "https://")) and word.rstrip("/").endswith(
                    "/debian"
                ):
                    return word
    raise NoProgram(f"no Debian archive is configured in {folder}")


def read_release(path: Path) -> dict[str, str]:
    """Read os-release(5)."""
    fields = {}
    for line in path.read_text().splitlines() if path.exists() else ():
        name, _, value = line.partition("=")
        fields[name] = value.strip('"')
    return fields
