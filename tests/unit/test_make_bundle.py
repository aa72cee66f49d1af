"""tools/make_bundle.py and tools/bundle: the wheels of the lock, the same bytes for the same content, sums,
signatures and inventory, and what install.sh refuses."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from gpupool.base.errors import BundleDamaged, BundleUntrusted
from gpupool.delivery.bundle import verify_bundle

TOOLS = Path(__file__).parents[2] / "tools"
EPOCH = 1_700_000_000
SUM_OF = {name: hashlib.sha256(name.encode()).hexdigest() for name in ("a", "b", "c", "d", "e")}
LOCK: dict[str, Any] = {
    "package": [
        {
            "name": "one",
            "version": "1.0",
            "wheels": [
                {"url": "https://x/one-1.0-cp311-cp311-manylinux_2_28_x86_64.whl", "hash": f"sha256:{SUM_OF['a']}"},
                {"url": "https://x/one-1.0-cp39-abi3-manylinux_2_17_x86_64.whl", "hash": f"sha256:{SUM_OF['b']}"},
                {"url": "https://x/one-1.0-cp311-cp311-musllinux_1_2_x86_64.whl", "hash": f"sha256:{SUM_OF['c']}"},
            ],
        },
        {
            "name": "new",
            "version": "2.0",
            "wheels": [
                {"url": "https://x/new-2.0-cp312-cp312-manylinux_2_34_x86_64.whl", "hash": f"sha256:{SUM_OF['d']}"}
            ],
        },
        {"name": "old", "version": "3.0"},
    ]
}  # fmt: skip


@pytest.fixture(scope="module")
def tool() -> Iterator[ModuleType]:
    sys.path.insert(0, str(TOOLS))
    try:
        import make_bundle

        yield make_bundle
    finally:
        sys.path.remove(str(TOOLS))


@pytest.fixture
def folder(tmp_path: Path, tool: ModuleType) -> Path:
    """A small bundle with what every bundle has."""
    made = tmp_path / "gpupool-9.9-linux-x86_64"
    (made / "wheels").mkdir(parents=True)
    (made / "requirements").mkdir()
    (made / "wheels" / "one-1.0-py3-none-any.whl").write_bytes(b"a wheel" * 5000)
    (made / "requirements" / "3.11.txt").write_text("# installed-kib: 1\n")
    parts = {"wheels": {"present": True}, "images": {"present": False, "why": "none was made"}}
    manifest = {"version": "9.9", "machine": "linux-x86_64", "parts": parts}
    (made / "manifest.json").write_text(json.dumps(manifest))
    (made / "install.sh").write_bytes((TOOLS / "bundle" / "install.sh").read_bytes())
    (made / "install.sh").chmod(0o755)
    tool.write_sums(made)
    return made


@pytest.fixture
def keys(tmp_path: Path) -> tuple[Path, Path]:
    """A private key, and the public one that belongs to it."""
    return make_keys(tmp_path, "maker")


def make_keys(place: Path, name: str) -> tuple[Path, Path]:
    private = place / f"{name}.pem"
    public = place / f"{name}.pub"
    run("openssl", "genpkey", "-algorithm", "ed25519", "-out", str(private))
    run("openssl", "pkey", "-in", str(private), "-pubout", "-out", str(public))
    return private, public


def run(*words: str, **settings: Any) -> None:
    subprocess.run(words, check=True, capture_output=True, **settings)


def verify_by_script(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["sh", str(folder / "install.sh"), "--verify", *words],
        capture_output=True,
        text=True,
        check=False,
    )


def make_line(name: str, marker: str, *sums: str) -> str:
    hashes = " ".join(f"--hash=sha256:{SUM_OF[one]}" for one in sums)
    return f"{name}{marker} \\\n    {hashes}\n"


def test_each_python_gets_the_best_wheel_of_glibc_and_no_other(tool: ModuleType) -> None:
    text = make_line("one==1.0", "", "a", "b", "c")
    found = tool.choose_wheels(text, LOCK, ["3.11", "3.12"])
    assert [(one.file, one.pythons) for one in found] == [
        ("one-1.0-cp311-cp311-manylinux_2_28_x86_64.whl", ["3.11"]),
        ("one-1.0-cp39-abi3-manylinux_2_17_x86_64.whl", ["3.12"]),
    ]
    assert found[0].sha256 == SUM_OF["a"]


def test_markers_are_those_of_the_target_and_not_of_the_builder(tool: ModuleType) -> None:
    text = make_line("one==1.0", " ; python_full_version < '3.12'", "b")
    text += make_line("one==1.0", " ; sys_platform == 'win32'", "b")
    found = tool.choose_wheels(text, LOCK, ["3.11", "3.12"])
    assert [one.pythons for one in found] == [["3.11"]]


def test_a_wheel_of_a_newer_glibc_is_refused_by_name(tool: ModuleType) -> None:
    with pytest.raises(tool.BundleFault, match=r"new==2\.0 has no wheel for Python 3\.12"):
        tool.choose_wheels(make_line("new==2.0", "", "d"), LOCK, ["3.12"])


def test_a_package_without_any_wheel_is_built_from_its_source(tool: ModuleType) -> None:
    (found,) = tool.choose_wheels(make_line("old==3.0", "", "e"), LOCK, ["3.11"])
    assert (found.is_source, found.version, found.sha256) == (True, "3.0", SUM_OF["e"])


def test_the_lock_has_wheels_of_all_extras_for_each_python(tool: ModuleType) -> None:
    extras = tool.choose_extras("all")
    assert {"kubernetes", "network", "report", "sso"} <= set(extras)
    chosen = tool._choose_all(extras, tool.PYTHONS)
    for python in tool.PYTHONS:
        names = {one.name for one in chosen if python in one.pythons}
        assert {"numpy", "fastapi", "grpcio", "typst", "argon2-cffi", "pip"} <= names
    with pytest.raises(tool.BundleFault, match="expected one of"):
        tool.choose_extras("sso,nothing")


@pytest.mark.parametrize("suffix", [".tar.zst", ".tar.gz"])
def test_the_same_content_gives_the_same_bytes(
    tool: ModuleType, folder: Path, tmp_path: Path, suffix: str
) -> None:
    first = tmp_path / f"first{suffix}"
    second = tmp_path / f"second{suffix}"
    tool.pack(folder, first, EPOCH)
    for path in folder.rglob("*"):
        os.utime(path, (1, 1))
    (folder / "manifest.json").chmod(0o600)
    tool.pack(folder, second, EPOCH)
    assert first.read_bytes() == second.read_bytes()
    assert verify_bundle(first, None).files == 4
    assert not list(tmp_path.glob(".*.new"))


def test_a_flipped_byte_is_named_by_both_ways_to_verify(
    tool: ModuleType, folder: Path, tmp_path: Path
) -> None:
    assert verify_by_script(folder).returncode == 0
    wheel = folder / "wheels" / "one-1.0-py3-none-any.whl"
    content = bytearray(wheel.read_bytes())
    content[1234] ^= 1
    wheel.write_bytes(content)
    (folder / "install.sh").write_bytes((TOOLS / "bundle" / "install.sh").read_bytes())
    tool.pack(folder, tmp_path / "bad.tar.zst", EPOCH)
    with pytest.raises(BundleDamaged, match=r"1 of 4 files .*: wheels/one-1\.0-py3-none-any"):
        verify_bundle(tmp_path / "bad.tar.zst", None)
    script = verify_by_script(folder)
    assert script.returncode == 1
    assert "wheels/one-1.0-py3-none-any.whl: FAILED" in script.stdout + script.stderr
    assert "GP-1090" in script.stderr


def test_a_file_without_a_sum_is_refused_by_the_script(folder: Path) -> None:
    (folder / "wheels" / "evil-1.0-py3-none-any.whl").write_bytes(b"")
    script = verify_by_script(folder)
    assert script.returncode == 1
    assert "files that SHA256SUMS does not have: wheels/evil-1.0-py3-none-any.whl" in script.stderr


def test_a_signature_is_of_one_key(
    tool: ModuleType, folder: Path, keys: tuple[Path, Path], tmp_path: Path
) -> None:
    private, public = keys
    _, other = make_keys(tmp_path, "other")
    unsigned = verify_by_script(folder, "--key", str(public))
    assert unsigned.returncode == 1
    assert "GP-1091: the bundle is not signed" in unsigned.stderr
    tool.sign_sums(folder, private)
    tool.pack(folder, tmp_path / "signed.tar.gz", EPOCH)
    report = verify_bundle(tmp_path / "signed.tar.gz", public)
    assert (report.is_signed, report.key) == (True, str(public))
    assert verify_by_script(folder, "--key", str(public)).returncode == 0
    with pytest.raises(BundleUntrusted, match="is not of the key"):
        verify_bundle(tmp_path / "signed.tar.gz", other)
    assert "GP-1091" in verify_by_script(folder, "--key", str(other)).stderr


def test_sums_that_were_made_to_fit_do_not_pass_the_signature(
    tool: ModuleType, folder: Path, keys: tuple[Path, Path]
) -> None:
    tool.sign_sums(folder, keys[0])
    (folder / "wheels" / "one-1.0-py3-none-any.whl").write_bytes(b"another wheel")
    tool.write_sums(folder)
    assert verify_bundle(folder, None).files == 4
    with pytest.raises(BundleUntrusted):
        verify_bundle(folder, keys[1])


def test_a_key_of_another_kind_is_refused(tool: ModuleType, folder: Path, tmp_path: Path) -> None:
    key = tmp_path / "rsa.pem"
    run("openssl", "genpkey", "-algorithm", "ed448", "-out", str(key))
    with pytest.raises(tool.BundleFault, match="not a private Ed25519 key"):
        tool.sign_sums(folder, key)


def make_wheel(place: Path, name: str, metadata: str) -> Path:
    path = place / f"{name}-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as packed:
        head = f"Metadata-Version: 2.4\nName: {name}\nVersion: 1.0\n"
        packed.writestr(f"{name}-1.0.dist-info/METADATA", head + metadata)
    return path


def test_the_sbom_is_valid_and_names_sums_licences_and_needs(
    tool: ModuleType, tmp_path: Path
) -> None:
    from cyclonedx.schema import SchemaVersion
    from cyclonedx.validation.json import JsonStrictValidator

    wheels = [
        make_wheel(tmp_path, "aa", "License-Expression: MIT\nRequires-Dist: BB[x]>=1; extra == 'y'\n"),
        make_wheel(tmp_path, "bb", "Classifier: License :: OSI Approved :: BSD License\n"),
        make_wheel(tmp_path, "cc", ""),
    ]  # fmt: skip
    sums = {one.name: hashlib.sha256(one.read_bytes()).hexdigest() for one in wheels}
    packages = tool.read_wheels(wheels, sums)
    packages += tool.read_console_packages(TOOLS.parent / "console" / "package-lock.json")
    text = tool.write_sbom(packages, "9.9", EPOCH)
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(text) is None
    assert tool.write_sbom(packages, "9.9", EPOCH) == text
    found = json.loads(text)
    by_name = {one["name"]: one for one in found["components"]}
    assert by_name["aa"]["purl"] == "pkg:pypi/aa@1.0"
    assert by_name["aa"]["hashes"] == [{"alg": "SHA-256", "content": sums[wheels[0].name]}]
    assert by_name["aa"]["licenses"] == [{"license": {"name": "MIT"}}]
    assert by_name["react"]["purl"].startswith("pkg:npm/react@")
    assert "vitest" not in by_name
    needs = {one["ref"]: one.get("dependsOn", []) for one in found["dependencies"]}
    assert needs[by_name["aa"]["bom-ref"]] == [by_name["bb"]["bom-ref"]]
    licences = tool.write_licences(packages)
    assert "| bb | 1.0 | pypi | BSD License |" in licences
    assert "| cc | 1.0 | pypi | -- |" in licences
