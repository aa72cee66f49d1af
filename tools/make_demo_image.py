"""Makes a small container image from files of this machine: a shell, and a program that asks the card.

    python tools/make_demo_image.py demo.tar localhost/demo:1

Needs busybox and a C compiler, no network and no daemon. The archive is what `docker save` writes
(docker/docker, image/spec/v1.2.md): the layer, its configuration, and the list of both.
"""

from __future__ import annotations

import hashlib
import io
import json
import platform
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

#: Names of busybox in the image.
TOOLS = ("cat", "echo", "id", "ls", "sh", "sleep")
#: Files that the stand-ins of the driver need beside the C library.
COMPANIONS = ("libpthread.so.0", "libdl.so.2", "librt.so.1", "libm.so.6")
#: As the image specification names processors.
MACHINES = {"x86_64": "amd64", "aarch64": "arm64"}
#: Says what the driver reports as the card's memory, and what it answers to a larger allocation.
PROGRAM = r"""
#include <dlfcn.h>
#include <stdio.h>
int main(void)
{
    void *driver = dlopen("libcuda.so.1", RTLD_NOW), *context;
    if (!driver)
        return fprintf(stderr, "%s\n", dlerror()), 1;
    int (*init)(unsigned) = dlsym(driver, "cuInit");
    int (*create)(void **, unsigned, int) = dlsym(driver, "cuCtxCreate_v2");
    int (*info)(size_t *, size_t *) = dlsym(driver, "cuMemGetInfo_v2");
    int (*allocate)(unsigned long long *, size_t) = dlsym(driver, "cuMemAlloc_v2");
    unsigned long long place;
    size_t available, total;
    if (init(0) || create(&context, 0, 0) || info(&available, &total))
        return fputs("the driver does not answer\n", stderr), 1;
    int refused = allocate(&place, total + (1 << 20)) == 2;
    printf("the card has %zu MiB for this container; ", total >> 20);
    printf("%zu MiB: %s\n", (total >> 20) + 1, refused ? "out of memory" : "allocated");
    return 0;
}
"""


def collect_files(work: Path) -> Mapping[str, Path]:
    """Return the image's files, by their path in it."""
    busybox = shutil.which("busybox")
    compiler = shutil.which("cc")
    if busybox is None or compiler is None:
        raise SystemExit("busybox or cc is not installed: apt-get install busybox-static gcc")
    source = work / "card.c"
    source.write_text(PROGRAM)
    program = work / "card"
    subprocess.run([compiler, "-O1", "-o", program, source, "-ldl"], check=True)
    files = {"bin/busybox": Path(busybox), "bin/card": program}
    for binary in (busybox, str(program)):
        files |= {str(path).lstrip("/"): path.resolve() for path in list_libraries(binary)}
    library = subprocess.run(
        [compiler, "-print-file-name=libc.so.6"], check=True, capture_output=True, text=True
    ).stdout.strip()
    folder = Path(library).resolve().parent
    for name in COMPANIONS:
        if (folder / name).exists():
            files[str(folder / name).lstrip("/")] = (folder / name).resolve()
    return files


def list_libraries(binary: str) -> list[Path]:
    """List the libraries that a program needs; none for one that is linked statically."""
    done = subprocess.run(["ldd", binary], check=False, capture_output=True, text=True)
    return [Path(path) for path in re.findall(r"(/\S+\.so\S*)", done.stdout)]


def write_layer(files: Mapping[str, Path]) -> bytes:
    """Write the one layer of the image, an uncompressed archive."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as layer:
        for name, path in sorted(files.items()):
            entry = tarfile.TarInfo(name)
            entry.size = path.stat().st_size
            entry.mode = 0o755
            with open(path, "rb") as content:
                layer.addfile(entry, content)
        for tool in TOOLS:
            entry = tarfile.TarInfo(f"bin/{tool}")
            entry.type = tarfile.SYMTYPE
            entry.linkname = "busybox"
            layer.addfile(entry)
    return buffer.getvalue()


def write_archive(out: Path, name: str, layer: bytes) -> None:
    """Write the archive that `gpupool image load` reads."""
    configuration: dict[str, Any] = {
        "architecture": MACHINES.get(platform.machine(), platform.machine()),
        "os": "linux",
        "config": {"Env": ["PATH=/bin"]},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(layer).hexdigest()}"]},
    }
    manifest = [{"Config": "config.json", "RepoTags": [name], "Layers": ["layer.tar"]}]
    parts = {
        "config.json": json.dumps(configuration).encode(),
        "layer.tar": layer,
        "manifest.json": json.dumps(manifest).encode(),
    }
    with tarfile.open(out, "w") as archive:
        for path, content in parts.items():
            entry = tarfile.TarInfo(path)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))


def main(words: list[str]) -> int:
    """Write the image named in the second word to the file in the first."""
    if len(words) != 2:
        raise SystemExit("usage: make_demo_image.py FILE NAME")
    with tempfile.TemporaryDirectory() as work:
        layer = write_layer(collect_files(Path(work)))
    write_archive(Path(words[0]), words[1], layer)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
