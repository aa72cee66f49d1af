"""Sums, signature and archive of a folder: the same content gives the same bytes.

The sums are SHA-256, as `sha256sum -c` reads them. The signature is Ed25519 over the file of sums,
as `openssl pkeyutl -verify -rawin` reads it. Must not know what is in the folder.
"""

from __future__ import annotations

import gzip
import shutil
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Final

from bundle.locked_wheels import BundleFault, hash_file

SUMS: Final = "SHA256SUMS"
SIGNATURE: Final = "SHA256SUMS.sig"
#: Wheels are compressed already: a higher level costs minutes and saves less than 1 %.
ZSTD_LEVEL: Final = 9


def write_sums(folder: Path) -> None:
    """Write the sums of all files below the folder."""
    lines = []
    for path in _list_files(folder):
        name = path.relative_to(folder).as_posix()
        if name not in (SUMS, SIGNATURE):
            lines.append(f"{hash_file(path)}  {name}\n")
    (folder / SUMS).write_text("".join(lines), encoding="utf-8")


def sign_sums(folder: Path, key: Path) -> None:
    """Sign the file of sums with a private Ed25519 key in PEM. Raises BundleFault."""
    words = ["openssl", "pkey", "-in", str(key), "-noout", "-text"]
    try:
        kind = subprocess.run(words, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise BundleFault("a signature needs the program openssl, version 3 or newer") from None
    if kind.returncode or not kind.stdout.startswith("ED25519 Private-Key"):
        raise BundleFault(
            f"{key} is not a private Ed25519 key; make one: openssl genpkey -algorithm ed25519 "
            f"-out {key} && openssl pkey -in {key} -pubout -out {key}.pub"
        )
    words = ["openssl", "pkeyutl", "-sign", "-rawin", "-inkey", str(key)]
    words += ["-in", str(folder / SUMS), "-out", str(folder / SIGNATURE)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        raise BundleFault(f"openssl could not sign with {key}: {done.stderr.strip()}")


def pack(folder: Path, out: Path, epoch: int) -> None:
    """Write the folder as `out`, with one time and root as owner; the suffix says how compressed.

    A file appears under its name only when it is whole.
    """
    new = out.with_name(f".{out.name}.new")
    try:
        if out.suffix == ".zst":
            _pack_zstd(folder, new, epoch)
        else:
            # Without the name and the time, which gzip would add.
            with new.open("wb") as file, gzip.GzipFile("", "wb", 9, file, mtime=0) as packed:
                _write_tar(folder, packed, epoch)
        new.replace(out)
    finally:
        new.unlink(missing_ok=True)


def choose_suffix() -> str:
    """Return the suffix of the best compression that this machine has."""
    return ".tar.zst" if shutil.which("zstd") else ".tar.gz"


def _pack_zstd(folder: Path, new: Path, epoch: int) -> None:
    # One thread: with more, the number of processors would show in the bytes.
    words = ["zstd", "-q", "-f", f"-{ZSTD_LEVEL}", "--single-thread", "-o", str(new)]
    with subprocess.Popen(words, stdin=subprocess.PIPE) as zstd:
        assert zstd.stdin is not None
        _write_tar(folder, zstd.stdin, epoch)
        zstd.stdin.close()
    if zstd.returncode:
        raise BundleFault(f"zstd ended with {zstd.returncode}")


def _write_tar(folder: Path, into: IO[bytes] | gzip.GzipFile, epoch: int) -> None:
    # GNU's format: long names without extended headers.
    with tarfile.open(fileobj=into, mode="w|", format=tarfile.GNU_FORMAT) as tar:
        for path in [folder, *sorted(folder.rglob("*"))]:
            info = tarfile.TarInfo(path.relative_to(folder.parent).as_posix())
            info.mtime = epoch
            info.uname = "root"
            info.gname = "root"
            if path.is_dir():
                info.type = tarfile.DIRTYPE
                info.mode = 0o755
                tar.addfile(info)
                continue
            info.size = path.stat().st_size
            info.mode = 0o755 if path.stat().st_mode & 0o100 else 0o644
            with path.open("rb") as file:
                tar.addfile(info, file)


def _list_files(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.rglob("*")):
        if path.is_symlink() or not (path.is_file() or path.is_dir()):
            raise BundleFault(f"{path} is neither a file nor a folder")
        if path.is_file():
            yield path
