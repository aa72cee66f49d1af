"""The container image without a network, a registry or a daemon: a base's files, and wheels
installed on top of them.

    python tools/make_image.py gather WHEELS           # where there is a network: every wheel that uv.lock names
    python tools/make_image.py make --rootfs base.tar --wheels WHEELS --name gpupool/gpupool:0.2.0 --out image.tar
    ctr -n k8s.io images import image.tar              # or: skopeo copy oci-archive:image.tar docker://…

The base is the root filesystem of anything with glibc and Python 3.11 or newer, e.g. what `podman
export` writes of python:3.12-slim, or `mmdebstrap --variant=extract
--include=python3-minimal,libpython3-stdlib bookworm base.tar`. The image is an OCI archive of two
layers (opencontainers/image-spec, image-layout.md): the same content, the same bytes.
"""

from __future__ import annotations

import argparse
import gzip
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
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
SITE = "opt/gpupool"
"""Where the wheels are installed; found by PYTHONPATH, so that the base's own packages stay as they
are."""
LEAST = (3, 11)
USER = "65532"
OCI = "application/vnd.oci.image"
MACHINES = {"x86_64": "amd64", "aarch64": "arm64"}
INTERPRETER = re.compile(r"(usr/local/bin|usr/bin)/python3\.(\d+)")
LIBC = re.compile(r"(usr/)?lib(64|/[\w-]+)?/(ld-linux|ld-musl)[\w.-]*")
CHUNK = 1 << 20


def gather(wheels: Path, version: str) -> None:
    """Every wheel that the image needs: of others by the hashes of uv.lock, ours from here; over
    the network."""
    wheels.mkdir(parents=True, exist_ok=True)
    wanted = ("--no-dev", "--no-emit-workspace", "--extra", "kubernetes")
    with tempfile.NamedTemporaryFile(suffix=".txt") as file:
        _uv("export", "--quiet", "--frozen", "--no-annotate", *wanted, "--output-file", file.name)
        asked = (
            "--no-deps",
            "--require-hashes",
            "--only-binary",
            ":all:",
            "--python-version",
            version,
        )
        _uv(
            "tool",
            "run",
            "pip",
            "download",
            "--quiet",
            *asked,
            "--requirement",
            file.name,
            "--dest",
            str(wheels),
        )
    _uv("build", "--quiet", "--wheel", "--all-packages", "--out-dir", str(wheels))


def make(rootfs: Path, wheels: Path, name: str, out: Path) -> None:
    """Raises SystemExit where the base or the wheels are not what they have to be."""
    with tempfile.TemporaryDirectory() as temporary:
        work = Path(temporary)
        base, added = work / "base.tar", work / "added.tar"
        _plain(rootfs, base)
        interpreter, minor, folders = _looked_at(base)
        site = work / "site"
        wanted = ("--python-version", f"3.{minor}", "--target", str(site), "gpupool[kubernetes]")
        _uv(
            "pip",
            "install",
            "--quiet",
            "--offline",
            "--no-index",
            "--no-build",
            "--find-links",
            str(wheels),
            *wanted,
        )
        shutil.rmtree(
            site / "bin", ignore_errors=True
        )  # they begin with the path of this machine's Python
        if sys.version_info[1] == minor:
            _compile(site)
        with tarfile.open(added, "w") as tar:
            for info, content in _entries(site, interpreter, folders):
                tar.addfile(info, content)
        _write(out, name, [base, added], work)


def _uv(*words: str) -> None:
    uv = subprocess.run(
        [sys.executable, "-I", "-S", str(ROOT / "tools/get_uv.py")],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    ).stdout.split()[-1]
    done = subprocess.run([uv, *words], cwd=ROOT, check=False)
    if done.returncode:
        raise SystemExit(f"uv {' '.join(words)} ended with {done.returncode}")


def _plain(source: Path, target: Path) -> None:
    """The tar, uncompressed: a layer is named by what it is before compression."""
    with source.open("rb") as file:
        zipped = file.read(2) == b"\x1f\x8b"
    with gzip.open(source) if zipped else source.open("rb") as file, target.open("wb") as into:
        shutil.copyfileobj(file, into, CHUNK)


def _looked_at(base: Path) -> tuple[str, int, set[str]]:
    """Its newest interpreter, that one's minor version, and the folders it has."""
    try:
        with tarfile.open(base, "r:") as tar:
            found = {member.name.removeprefix("./").rstrip("/"): member.isdir() for member in tar}
    except tarfile.TarError as error:
        raise SystemExit(
            f"the base is no tar, or compressed otherwise than by gzip: {error}"
        ) from None
    loaders = [match[3] for name in found if (match := LIBC.fullmatch(name))]
    if "ld-linux" not in loaders:
        raise SystemExit(
            f"the base has no glibc (found: {', '.join(sorted(set(loaders))) or 'no loader'})"
        )
    pythons = sorted(
        (int(match[2]), name) for name in found if (match := INTERPRETER.fullmatch(name))
    )
    if not pythons or pythons[-1][0] < LEAST[1]:
        have = ", ".join(name for _, name in pythons) or "none"
        raise SystemExit(
            f"the base has no Python {LEAST[0]}.{LEAST[1]} or newer in /usr/bin or /usr/local/bin ({have})"
        )
    return pythons[-1][1], pythons[-1][0], {name for name, folder in found.items() if folder}


def _compile(site: Path) -> None:
    """Compiled here, since the image's user may write nothing; without times, so that the bytes
    stay the same."""
    words = [
        "-m",
        "compileall",
        "-q",
        "-j",
        "0",
        "--invalidation-mode",
        "unchecked-hash",
        "-s",
        str(site),
    ]
    subprocess.run(
        [sys.executable, *words, "-p", f"/{SITE}", str(site)], check=False
    )  # some packages hold old syntax


def _entries(
    site: Path, interpreter: str, folders: set[str]
) -> Iterator[tuple[tarfile.TarInfo, io.BufferedIOBase | None]]:
    """What the second layer adds; everything is root's."""
    for folder, mode in (
        ("tmp", 0o1777),
        ("opt", 0o755),
        ("usr/local", 0o755),
        ("usr/local/bin", 0o755),
        (SITE, 0o755),
    ):
        if folder not in folders:
            info = tarfile.TarInfo(folder)
            info.type, info.mode = tarfile.DIRTYPE, mode
            yield info, None
    if interpreter != "usr/local/bin/python":
        info = tarfile.TarInfo("usr/local/bin/python")
        info.type, info.linkname, info.mode = tarfile.SYMTYPE, f"/{interpreter}", 0o777
        yield info, None
    for path in sorted(site.rglob("*")):
        info = tarfile.TarInfo(f"{SITE}/{path.relative_to(site)}")
        if path.is_dir():
            info.type, info.mode = tarfile.DIRTYPE, 0o755
            yield info, None
        else:
            info.size, info.mode = (
                path.stat().st_size,
                0o755 if path.stat().st_mode & 0o100 else 0o644,
            )
            with path.open("rb") as file:
                yield info, file


def _write(out: Path, name: str, layers: list[Path], work: Path) -> None:
    """An OCI archive: index, manifest, configuration, layers."""
    digests = [_digest(layer) for layer in layers]
    machine = {"architecture": MACHINES.get(platform.machine(), platform.machine()), "os": "linux"}
    env = [
        "PATH=/usr/local/bin:/usr/bin:/bin",
        f"PYTHONPATH=/{SITE}",
        "PYTHONUNBUFFERED=1",
        "PYTHONDONTWRITEBYTECODE=1",
    ]
    command = ["python", "-m", "gpupool.kubernetes", "--help"]
    config = _blob(
        work,
        {
            **machine,
            "config": {"User": USER, "Env": env, "Cmd": command},
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{one}" for one in digests]},
        },
    )
    manifest = _blob(
        work,
        {
            "schemaVersion": 2,
            "mediaType": f"{OCI}.manifest.v1+json",
            "config": _descriptor("config.v1+json", config),
            "layers": [_descriptor("layer.v1.tar", layer) for layer in layers],
        },
    )
    named = {
        "io.containerd.image.name": name,
        "org.opencontainers.image.ref.name": name.rpartition(":")[2],
    }
    entry = {**_descriptor("manifest.v1+json", manifest), "annotations": named, "platform": machine}
    index = {"schemaVersion": 2, "mediaType": f"{OCI}.index.v1+json", "manifests": [entry]}
    new = out.with_name(f"{out.name}.new")
    with tarfile.open(new, "w") as tar:
        for blob in (*layers, config, manifest):
            info = tarfile.TarInfo(f"blobs/sha256/{_digest(blob)}")
            info.size = blob.stat().st_size
            with blob.open("rb") as file:
                tar.addfile(info, file)
        for place, content in (
            ("oci-layout", {"imageLayoutVersion": "1.0.0"}),
            ("index.json", index),
        ):
            text = json.dumps(content, sort_keys=True).encode()
            info = tarfile.TarInfo(place)
            info.size = len(text)
            tar.addfile(info, io.BytesIO(text))
    new.replace(out)


def _blob(work: Path, content: dict[str, Any]) -> Path:
    text = json.dumps(content, sort_keys=True).encode()
    place = work / hashlib.sha256(text).hexdigest()
    place.write_bytes(text)
    return place


def _descriptor(kind: str, blob: Path) -> dict[str, Any]:
    return {
        "mediaType": f"{OCI}.{kind}",
        "digest": f"sha256:{_digest(blob)}",
        "size": blob.stat().st_size,
    }


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parts = parser.add_subparsers(dest="part", required=True)
    gathers = parts.add_parser(
        "gather", help="wheels of what gpupool needs, into a folder; needs the network"
    )
    gathers.add_argument("wheels", type=Path)
    gathers.add_argument(
        "--python-version",
        default=f"{LEAST[0]}.{LEAST[1]}",
        help="the base's; default: %(default)s",
    )
    makes = parts.add_parser(
        "make", help="the image, from a base's files and a folder of wheels; needs no network"
    )
    makes.add_argument(
        "--rootfs", type=Path, required=True, metavar="TAR", help="of the base; may be gzipped"
    )
    makes.add_argument(
        "--wheels", type=Path, required=True, metavar="DIR", help="as `gather` left them"
    )
    makes.add_argument("--name", required=True, help="e.g. registry.example/gpupool:0.2.0")
    makes.add_argument("--out", type=Path, required=True, metavar="TAR")
    options = parser.parse_args(words)
    if options.part == "gather":
        gather(options.wheels.resolve(), options.python_version)
    else:
        make(options.rootfs, options.wheels.resolve(), options.name, options.out)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
