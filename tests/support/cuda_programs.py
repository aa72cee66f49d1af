"""Real CUDA programs for tests: their environment, made by uv from the lock, and what nvcc makes of
our own sources.

Both are made once for all test processes, below `.tools`, and made again when what they come from
changed.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
ENVIRONMENT = ROOT / ".tools" / "cuda"
BUILT = ROOT / ".tools" / "cuda-built"
SOURCES = ROOT / "tests" / "cuda" / "programs"


@contextlib.contextmanager
def _alone(name: str) -> Iterator[None]:
    (ROOT / ".tools").mkdir(exist_ok=True)
    with (ROOT / ".tools" / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@cache
def environment() -> Path:
    """The virtual environment with the group `cuda` of pyproject.toml; 300 MB are fetched the first
    time."""
    with _alone("cuda"):
        uv = subprocess.run(
            [sys.executable, "-I", "-S", ROOT / "tools/get_uv.py"],
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
        settings = {"UV_PROJECT_ENVIRONMENT": str(ENVIRONMENT), "UV_PYTHON_DOWNLOADS": "never"}
        if "SSL_CERT_FILE" not in os.environ and os.environ.get("PIP_CERT"):
            settings["SSL_CERT_FILE"] = os.environ["PIP_CERT"]
        command = [
            uv,
            "sync",
            "--frozen",
            "--quiet",
            "--only-group",
            "cuda",
            "--python",
            sys.executable,
        ]
        inherited = {name: value for name, value in os.environ.items() if name != "VIRTUAL_ENV"}
        subprocess.run(command, cwd=ROOT, env={**inherited, **settings}, check=True, timeout=600)
    return ENVIRONMENT


def python() -> Path:
    return environment() / "bin" / "python"


def program(name: str) -> Path:
    """A program that came with the environment, such as `gpustat`."""
    return environment() / "bin" / name


def toolkit() -> Path:
    """nvcc and what it needs."""
    found = sorted(environment().glob("lib/python3.*/site-packages/nvidia/cu13"))
    assert found, "the environment of CUDA programs has no toolkit"
    return found[0]


def compiled(source: str, *flags: str, runtime: str = "shared") -> Path:
    """tests/cuda/programs/SOURCE by nvcc, linked against the vendor's runtime library (`shared`),
    the vendor's archive (`static`), or `none`.
    """
    compiler = next(toolkit().parents[1].glob("nvidia_cuda_nvcc-*.dist-info")).name
    files = [
        (SOURCES / source).read_bytes(),
        *(Path(flag).read_bytes() for flag in flags if Path(flag).is_file()),
    ]
    words = [word.encode() for word in (compiler, runtime, *flags)]
    key = hashlib.sha256(b"\0".join([*words, *files])).hexdigest()[:16]
    target = BUILT / f"{Path(source).stem}-{key}"
    with _alone("cuda-built"):
        if not target.exists():
            _compile(SOURCES / source, target, (*flags, "-cudart", runtime))
    return target


def _compile(source: Path, target: Path, flags: tuple[str, ...]) -> None:
    """The package has the library without the name that a linker looks for; that name is made
    here."""
    names = BUILT / "lib"
    names.mkdir(parents=True, exist_ok=True)
    link = names / "libcudart.so"
    if not link.is_symlink():
        link.symlink_to(toolkit() / "lib" / "libcudart.so.13")
    unfinished = target.with_suffix(".new")
    nvcc = toolkit() / "bin" / "nvcc"
    command = [str(nvcc), "-arch=sm_90", f"-L{names}", "-o", str(unfinished), str(source), *flags]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    os.replace(unfinished, target)
