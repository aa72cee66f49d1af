"""Check an archive of `make bundle`: every file's sum, and the signature of the sums.

The archive is read as a stream and never unpacked: nothing of it runs or is written. Signatures are
Ed25519, checked by the program openssl, so that no library is needed where people install.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Final

from gpupool.base.errors import BundleDamaged, BundleUnreadable, BundleUntrusted

SUMS: Final = "SHA256SUMS"
SIGNATURE: Final = "SHA256SUMS.sig"
MANIFEST: Final = "manifest.json"
#: Bytes; the sums of 5,000 files are 0.6 MB. Bounds what is held in memory of a file's content.
_MOST_BYTES: Final = 8 << 20
_CHUNK: Final = 1 << 20
_ZSTD_MAGIC: Final = b"\x28\xb5\x2f\xfd"
#: As `sha256sum` writes them.
_SUM_LINE: Final = re.compile(r"([0-9a-f]{64}) [ *](.+)")
#: Wrong files that a message names; `details` has them all.
_MOST_NAMED: Final = 5


@dataclass
class BundleReport:
    """What a bundle is, after every file was found as it was made.

    Attributes:
        manifest: The content of `manifest.json`.
        files: Files that have a sum.
        is_signed: Whether there is a signature, of whatever key.
        key: The path of the key that made the signature; None where no key was given.
    """

    manifest: dict[str, Any]
    files: int
    is_signed: bool
    key: str | None


@dataclass
class _Content:
    """The sums of all files as they are, and the content of those that are about the others."""

    sums: dict[str, str] = field(default_factory=dict)
    kept: dict[str, bytes] = field(default_factory=dict)


def verify_bundle(source: Path, key: Path | None) -> BundleReport:
    """Check an archive, or the folder that it was unpacked to.

    Args:
        source: The archive or folder.
        key: The public Ed25519 key in PEM that must have made the signature.

    Raises:
        BundleUnreadable: It is no bundle, or cannot be read here.
        BundleUntrusted: There is no signature, or one of another key.
        BundleDamaged: Files differ from their sums, are missing, or have none.
    """
    content = _read_folder(source) if source.is_dir() else _read_archive(source)
    if SUMS not in content.kept or MANIFEST not in content.kept:
        raise BundleUnreadable(
            f"{source} has no {SUMS} with a {MANIFEST}: it is no bundle of gpupool, or cut off",
            hint="name the file that  make bundle  wrote",
        )
    # The signature first: sums that anyone can have written prove nothing.
    if key is not None:
        _check_signature(source, content, key)
    expected = _read_sums(source, content.kept[SUMS])
    _compare_sums(source, expected, content.sums)
    return BundleReport(
        manifest=_read_manifest(source, content.kept[MANIFEST]),
        files=len(expected),
        is_signed=SIGNATURE in content.kept,
        key=None if key is None else str(key),
    )


def _read_folder(folder: Path) -> _Content:
    content = _Content()
    for path in sorted(folder.rglob("*")):
        if path.is_dir() and not path.is_symlink():
            continue
        name = path.relative_to(folder).as_posix()
        if path.is_symlink() or not path.is_file():
            raise BundleDamaged(
                f"{name} in {folder} is neither a file nor a folder",
                hint="unpack the bundle again",
                files=[name],
            )
        with path.open("rb") as file:
            _add_file(content, name, file)
    return content


def _read_archive(archive: Path) -> _Content:
    content = _Content()
    top = ""
    try:
        with _open_tar(archive) as tar:
            for member in tar:
                first, _, name = member.name.partition("/")
                top = top or first
                if member.isdir() and first == top:
                    continue
                # Two top folders, links and devices are nothing that `make bundle` writes.
                if first != top or not member.isfile() or ".." in name.split("/"):
                    raise BundleDamaged(
                        f"{member.name} in {archive} is not what a bundle holds",
                        hint="get the bundle again",
                        files=[member.name],
                    )
                file = tar.extractfile(member)
                assert file is not None
                _add_file(content, name, file)
    except (tarfile.TarError, EOFError, OSError) as error:
        if isinstance(error, FileNotFoundError | PermissionError | IsADirectoryError):
            raise BundleUnreadable(f"{archive} cannot be read: {error.strerror}") from None
        raise BundleUnreadable(
            f"{archive} is no archive of a bundle, or cut off: {error}", hint="copy it again"
        ) from None
    return content


def _add_file(content: _Content, name: str, file: IO[bytes]) -> None:
    digest = hashlib.sha256()
    begin = file.read(_MOST_BYTES if name in (SUMS, SIGNATURE, MANIFEST) else _CHUNK)
    if name in (SUMS, SIGNATURE, MANIFEST):
        content.kept[name] = begin
    chunk = begin
    while chunk:
        digest.update(chunk)
        chunk = file.read(_CHUNK)
    if name not in (SUMS, SIGNATURE):
        content.sums[name] = digest.hexdigest()


@contextlib.contextmanager
def _open_tar(archive: Path) -> Iterator[tarfile.TarFile]:
    with archive.open("rb") as file:
        is_zstd = file.read(4) == _ZSTD_MAGIC
    if not is_zstd:
        with tarfile.open(archive, "r|*") as tar:
            yield tar
        return
    program = shutil.which("zstd")
    if program is None:
        raise BundleUnreadable(
            f"{archive} is compressed by zstd, and this machine has no program zstd",
            hint="apt-get install zstd, or ask for the bundle as .tar.gz: make bundle COMPRESSION=gz",
        )
    words = [program, "-dcq", str(archive)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as zstd:
        assert zstd.stdout is not None
        assert zstd.stderr is not None
        try:
            with tarfile.open(fileobj=zstd.stdout, mode="r|") as tar:
                yield tar
            while zstd.stdout.read(_CHUNK):  # what follows the last member is padding
                pass
        except BaseException:
            zstd.kill()
            raise
        complaint = zstd.stderr.read().decode("utf-8", "replace").strip()
    if zstd.returncode:
        raise tarfile.ReadError(complaint or f"zstd ended with {zstd.returncode}")


def _check_signature(source: Path, content: _Content, key: Path) -> None:
    if not key.is_file():
        raise BundleUnreadable(f"--key {key}: no such file", hint="name the public key in PEM")
    if SIGNATURE not in content.kept:
        raise BundleUntrusted(
            f"{source} is not signed, and --key asks for a signature",
            hint="ask the people who made it for a signed bundle",
        )
    openssl = shutil.which("openssl")
    if openssl is None:
        raise BundleUnreadable(
            "the signature cannot be checked: the program openssl is missing",
            hint="apt-get install openssl",
        )
    with tempfile.TemporaryDirectory(prefix="gpupool-bundle-") as folder:
        sums = Path(folder) / SUMS
        signature = Path(folder) / SIGNATURE
        sums.write_bytes(content.kept[SUMS])
        signature.write_bytes(content.kept[SIGNATURE])
        words = [openssl, "pkeyutl", "-verify", "-pubin", "-inkey", str(key), "-rawin"]
        words += ["-in", str(sums), "-sigfile", str(signature)]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        complaint = done.stderr.strip().splitlines()
        raise BundleUntrusted(
            f"the signature of {source} is not of the key {key}"
            + (f" ({complaint[0]})" if complaint else ""),
            hint="do not install this bundle; compare the key with the one that its makers publish",
        )


def _read_sums(source: Path, text: bytes) -> dict[str, str]:
    expected = {}
    for line in text.decode("utf-8", "replace").splitlines():
        match = _SUM_LINE.fullmatch(line)
        if match is None:
            raise BundleDamaged(
                f"{SUMS} in {source} has the line {line[:60]!r}, expected a sum and a name",
                hint="copy the bundle again",
                files=[SUMS],
            )
        expected[match[2]] = match[1]
    return expected


def _compare_sums(source: Path, expected: dict[str, str], actual: dict[str, str]) -> None:
    wrong = []
    for name in sorted(expected.keys() | actual.keys()):
        if name not in actual:
            wrong.append((name, "is missing"))
        elif name not in expected:
            wrong.append((name, f"has no line in {SUMS}"))
        elif expected[name] != actual[name]:
            wrong.append((name, "differs from its sum"))
    if not wrong:
        return
    listed = "; ".join(f"{name} {what}" for name, what in wrong[:_MOST_NAMED])
    more = f"; and {len(wrong) - _MOST_NAMED} more" if len(wrong) > _MOST_NAMED else ""
    raise BundleDamaged(
        f"{len(wrong)} of {len(expected)} files of {source}: {listed}{more}",
        hint="copy the bundle again; if it stays so, its makers' copy is damaged",
        files=[name for name, _ in wrong],
    )


def _read_manifest(source: Path, text: bytes) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    if not isinstance(found, dict) or "version" not in found or "parts" not in found:
        raise BundleUnreadable(f"{MANIFEST} in {source} is not that of a bundle")
    return found
