"""Archives that are no bundle, or not what a bundle holds, are refused by name."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from pathlib import Path

import pytest

from gpupool.base.errors import BundleDamaged, BundleUnreadable
from gpupool.cli.pool.bundle import format_bundle
from gpupool.delivery.bundle import verify_bundle

MANIFEST = json.dumps(
    {
        "version": "9.9",
        "pythons": ["3.11"],
        "parts": {"wheels": {"present": True}, "images": {"present": False, "why": "none"}},
    }
)


def make_archive(place: Path, files: dict[str, str], *others: tarfile.TarInfo) -> Path:
    """An archive with sums that fit, and further members."""
    sums = []
    for name, text in files.items():
        sums.append(f"{hashlib.sha256(text.encode()).hexdigest()}  {name}\n")
    path = place / "bundle.tar.gz"
    with tarfile.open(path, "w:gz") as tar:
        for name, text in {**files, "SHA256SUMS": "".join(sums)}.items():
            info = tarfile.TarInfo(f"top/{name}")
            info.size = len(text.encode())
            tar.addfile(info, io.BytesIO(text.encode()))
        for info in others:
            tar.addfile(info)
    return path


def make_member(name: str, kind: bytes = tarfile.REGTYPE) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type = kind
    info.linkname = "/etc/passwd"
    return info


def test_a_whole_bundle_says_what_it_holds_and_lacks(tmp_path: Path) -> None:
    report = verify_bundle(make_archive(tmp_path, {"manifest.json": MANIFEST, "a": "b"}), None)
    assert (report.files, report.is_signed) == (2, False)
    assert format_bundle(report).splitlines() == [
        "version    9.9",
        "machine    --",
        "pythons    3.11",
        "extras     none",
        "files      2, each with its sum",
        "signature  none",
        "images     not there: none",
        "wheels     there",
    ]


@pytest.mark.parametrize(
    "member",
    [
        make_member("top/link", tarfile.SYMTYPE),
        make_member("top/device", tarfile.CHRTYPE),
        make_member("elsewhere/file"),
        make_member("top/../../etc/cron.d/x"),
    ],
    ids=["link", "device", "second-folder", "path-upwards"],
)
def test_what_a_bundle_does_not_hold_is_refused_by_name(
    tmp_path: Path, member: tarfile.TarInfo
) -> None:
    archive = make_archive(tmp_path, {"manifest.json": MANIFEST}, member)
    with pytest.raises(BundleDamaged) as caught:
        verify_bundle(archive, None)
    assert caught.value.details["files"] == [member.name]


def test_a_file_without_a_sum_and_a_missing_file_are_both_named(tmp_path: Path) -> None:
    archive = make_archive(tmp_path, {"manifest.json": MANIFEST}, make_member("top/extra"))
    with pytest.raises(BundleDamaged, match="extra has no line in SHA256SUMS"):
        verify_bundle(archive, None)
    folder = tmp_path / "folder"
    folder.mkdir()
    with tarfile.open(make_archive(tmp_path, {"manifest.json": MANIFEST, "a": "b"})) as tar:
        tar.extractall(folder, filter="data")
    (folder / "top" / "a").unlink()
    with pytest.raises(BundleDamaged, match="a is missing"):
        verify_bundle(folder / "top", None)


@pytest.mark.parametrize("kept", [0, 40, 120])
def test_an_archive_that_was_cut_off_is_unreadable(tmp_path: Path, kept: int) -> None:
    archive = make_archive(tmp_path, {"manifest.json": MANIFEST, "a": "b" * 5000})
    archive.write_bytes(archive.read_bytes()[:kept])
    with pytest.raises(BundleUnreadable):
        verify_bundle(archive, None)


def test_a_zstd_archive_without_the_program_names_the_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = tmp_path / "bundle.tar.zst"
    archive.write_bytes(b"\x28\xb5\x2f\xfd")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(BundleUnreadable, match="no program zstd") as caught:
        verify_bundle(archive, None)
    assert "COMPRESSION=gz" in caught.value.hint


def test_a_file_that_is_not_there_and_a_key_that_is_not_there_are_named(tmp_path: Path) -> None:
    with pytest.raises(BundleUnreadable, match="No such file"):
        verify_bundle(tmp_path / "nothing", None)
    archive = make_archive(tmp_path, {"manifest.json": MANIFEST})
    with pytest.raises(BundleUnreadable, match=r"--key .*: no such file"):
        verify_bundle(archive, tmp_path / "nothing.pub")
