"""Programs of tenants in images of their own: compiled here, with this machine's C library beside
them."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

from tests.support.cluster.images import Image

PLACE = "/opt/program"
NEEDED_BY_DRIVERS = ("libdl.so.2", "libpthread.so.0")
"""The vendor's needs them, so every image with glibc for it has them; the program alone does not
since glibc 2.34."""


def image_of(
    source: Path, folder: Path, *, user: str = "", options: Sequence[str] = ("-Wextra", "-Werror")
) -> Image:
    """An image with the program at `PLACE`, and what the loader needs where Debian has it.

    `options` are the compiler's.
    """
    program = folder / source.stem
    words: list[str | Path] = [
        "cc",
        "-std=gnu11",
        "-O2",
        "-Wall",
        *options,
        "-o",
        program,
        source,
        "-ldl",
        "-lpthread",
    ]
    subprocess.run(words, check=True, timeout=120)
    listed = subprocess.run(
        ["ldd", program], check=True, capture_output=True, text=True, timeout=60
    ).stdout
    found = [Path(one) for one in re.findall(r"(/\S+) \(", listed)]
    library = next(one for one in found if one.name == "libc.so.6")
    found += [library.with_name(name) for name in NEEDED_BY_DRIVERS]
    name = f"gpupool.test/{source.stem.replace('_', '-')}:{user.replace(':', '-') or 'root'}"
    return Image(
        name, (PLACE,), {PLACE: program, **{str(one): one.resolve() for one in found}}, user
    )
