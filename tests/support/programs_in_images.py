"""Programs of tenants in images of their own: compiled here, with this machine's C library beside them."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

from tests.support.cluster.images import Image

PLACE = "/opt/program"


def image_of(source: Path, folder: Path, *, user: str = "") -> Image:
    """An image with the program at `PLACE`, and what the loader needs where Debian has it."""
    program = folder / source.stem
    words: list[str | Path] = [
        "cc",
        "-std=gnu11",
        "-O2",
        "-Wall",
        "-Wextra",
        "-Werror",
        "-o",
        program,
        source,
        "-ldl",
        "-lpthread",
    ]
    subprocess.run(words, check=True, timeout=120)
    listed = subprocess.run(["ldd", program], check=True, capture_output=True, text=True, timeout=60).stdout
    found = [Path(one) for one in re.findall(r"(/\S+) \(", listed)]
    name = f"gpupool.test/{source.stem.replace('_', '-')}:{user.replace(':', '-') or 'root'}"
    return Image(name, (PLACE,), {PLACE: program, **{str(one): one.resolve() for one in found}}, user)
