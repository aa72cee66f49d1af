"""Prints where the vendor's public header packages lie for the Python that runs this, as
NAME=DIRECTORY lines.

Exit status 1 and one line on stderr when a package is missing; the line is what a person can type.
"""

from __future__ import annotations

import sys
from importlib import metadata
from pathlib import Path

PACKAGES = {  # name for CMake: the distribution, and the file whose directory is meant
    "CUDA12": ("nvidia-cuda-runtime-cu12", "cuda.h"),
    "CUDA13": ("nvidia-cuda-runtime", "cuda.h"),
    "CRT13": ("nvidia-cuda-crt", "crt/host_defines.h"),
    "NVML12": ("nvidia-nvml-dev-cu12", "nvml.h"),
    "NVML13": ("nvidia-nvml-dev", "nvml.h"),
}


def directory(distribution: str, header: str) -> Path | None:
    """The include directory of an installed distribution, None where it is not installed."""
    try:
        files = metadata.files(distribution) or []
    except metadata.PackageNotFoundError:
        return None
    for file in files:
        if str(file).endswith(f"include/{header}"):
            path = Path(str(file.locate())).resolve()
            return path.parents[header.count("/")]
    return None


def main() -> int:
    found = {name: directory(*package) for name, package in PACKAGES.items()}
    missing = [PACKAGES[name][0] for name, path in found.items() if path is None]
    if missing:
        print(
            f"{sys.executable} has no {', '.join(missing)}: pip install {' '.join(missing)}",
            file=sys.stderr,
        )
        return 1
    for name, path in found.items():
        print(f"{name}={path}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
