"""One archive that installs gpupool on machines without a network: `make bundle`.

    python tools/make_bundle.py                                dist/gpupool-VERSION-linux-x86_64.tar.zst
    python tools/make_bundle.py --signing-key key.pem          signed; verify: gpupool bundle verify FILE --key

It holds our wheels and all others that uv.lock names for the chosen extras and Pythons, the
console, the container image where one was made, chart, documentation, SBOM, licences and
`install.sh`. The same commit and tools give the same bytes.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from bundle.archive import SIGNATURE, choose_suffix, pack, sign_sums, write_sums
from bundle.inventory import (
    make_document,
    read_console_packages,
    read_wheels,
    write_licences,
    write_sbom,
)
from bundle.locked_wheels import (
    MACHINE,
    BundleFault,
    LockedWheel,
    choose_wheels,
    export_requirements,
    fetch_wheels,
    find_uv,
    hash_file,
    read_lock,
)

ROOT: Final = Path(__file__).resolve().parents[1]
FORMAT: Final = 1
PYTHONS: Final = ("3.11", "3.12", "3.13")
LEAST_GLIBC: Final = "2.28"
#: For Chinese documents of the extra `report`; of the Debian package fonts-noto-cjk.
FONT: Final = Path("/usr/share/fonts/opentype/noto/NotoSansCJK-Regular.ttc")
FONT_LICENCE: Final = Path("/usr/share/doc/fonts-noto-cjk/copyright")
#: An installed wheel and its compiled modules, beside the files that the wheel holds.
COMPILED_PERCENT: Final = 140
README: Final = """gpupool {version}, for Linux x86-64 without a network.

1. Check who made it, with a public key that you got another way (OpenSSL 3):
   openssl pkeyutl -verify -pubin -inkey PUBLIC.pem -rawin -in SHA256SUMS -sigfile SHA256SUMS.sig
   sha256sum --check --quiet --strict SHA256SUMS
2. sh install.sh --key PUBLIC.pem          sh install.sh --help  says the rest
3. docs/how-to/air-gapped.md

manifest.json lists what is here and what is not, with the reason.
"""


def main(words: Sequence[str]) -> int:
    try:
        out = make_bundle(_parse(words))
    except BundleFault as fault:
        print(f"make bundle: {fault}", file=sys.stderr)
        return 1
    print(f"{out}: {out.stat().st_size >> 20} MiB, SHA-256 {hash_file(out)}")
    return 0


def _parse(words: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out-dir", type=Path, default=ROOT / "dist")
    parser.add_argument("--signing-key", type=Path, help="a private Ed25519 key in PEM")
    parser.add_argument("--pythons", default=",".join(PYTHONS), help="default: %(default)s")
    parser.add_argument(
        "--extras", default="all", help="of pyproject.toml, by commas; default: all"
    )
    parser.add_argument("--compression", choices=("zst", "gz"), help="default: zst where zstd is")
    parser.add_argument("--image", type=Path, default=ROOT / "dist" / "image.tar", metavar="TAR")
    parser.add_argument("--site", type=Path, metavar="DIR", help="of `make site`, beside the pages")
    parser.add_argument("--font", type=Path, default=FONT, help="default: %(default)s")
    parser.add_argument("--own-wheels", type=Path, metavar="DIR", help="ours, instead of building")
    parser.add_argument("--cache", type=Path, default=ROOT / ".tools" / "bundle-wheels")
    return parser.parse_args(words)


def make_bundle(options: argparse.Namespace) -> Path:
    """Make the archive and return its path. Raises BundleFault."""
    epoch = int(os.environ.get("SOURCE_DATE_EPOCH") or _git("log", "-1", "--format=%ct"))
    pythons = options.pythons.split(",")
    extras = choose_extras(options.extras)
    wheels = _choose_all(extras, pythons)
    fetch_wheels(ROOT, wheels, options.cache)
    with tempfile.TemporaryDirectory(prefix="gpupool-bundle-") as temporary:
        own = options.own_wheels or build_own_wheels(Path(temporary) / "own", epoch)
        version = find_version(own)
        folder = Path(temporary) / f"gpupool-{version}-linux-{MACHINE}"
        folder.mkdir()
        _lay_wheels(folder, wheels, own, options.cache, pythons)
        parts = _lay_parts(folder, options)
        _lay_inventory(folder, version, epoch)
        shutil.copyfile(ROOT / "tools" / "bundle" / "install.sh", folder / "install.sh")
        (folder / "install.sh").chmod(0o755)
        (folder / "README.txt").write_text(README.format(version=version), encoding="utf-8")
        manifest = {
            "format": FORMAT,
            "version": version,
            "machine": f"linux-{MACHINE}",
            "least_glibc": LEAST_GLIBC,
            "pythons": pythons,
            "extras": extras,
            "source": {
                "commit": _git("rev-parse", "HEAD"),
                "changed_since": bool(_git("status", "--porcelain", "--untracked-files=no")),
                "epoch": epoch,
            },
            "parts": parts,
            "is_signed": options.signing_key is not None,
        }
        (folder / "manifest.json").write_text(make_document(manifest), encoding="utf-8")
        return _finish(folder, options, epoch, parts)


def _finish(
    folder: Path, options: argparse.Namespace, epoch: int, parts: dict[str, dict[str, Any]]
) -> Path:
    write_sums(folder)
    if options.signing_key is not None:
        sign_sums(folder, options.signing_key)
    options.out_dir.mkdir(parents=True, exist_ok=True)
    suffix = f".tar.{options.compression}" if options.compression else choose_suffix()
    out: Path = options.out_dir / f"{folder.name}{suffix}"
    pack(folder, out, epoch)
    for name, part in parts.items():
        if not part["present"]:
            print(f"without {name}: {part['why']}", file=sys.stderr)
    if not (folder / SIGNATURE).exists():
        print(
            "NOT SIGNED: receivers cannot tell who made this bundle; make bundle SIGNING_KEY=key.pem",
            file=sys.stderr,
        )
    return out


def choose_extras(asked: str) -> list[str]:
    """Return the extras by name. Raises BundleFault for one that pyproject.toml does not have."""
    known = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    names = sorted(known["optional-dependencies"])
    if asked == "all":
        return names
    wanted = [one for one in asked.split(",") if one]
    for one in wanted:
        if one not in names:
            raise BundleFault(f"extra {one!r}: expected one of {', '.join(names)}")
    return sorted(wanted)


def _choose_all(extras: Sequence[str], pythons: Sequence[str]) -> list[LockedWheel]:
    words = ["--no-dev"]
    for extra in extras:
        words += ["--extra", extra]
    exported = export_requirements(ROOT, *words)
    # pip itself: a Python without the module ensurepip has none.
    exported += "\n" + export_requirements(ROOT, "--only-group", "bundle")
    return choose_wheels(exported, read_lock(ROOT), pythons)


def build_own_wheels(into: Path, epoch: int) -> Path:
    """Build gpupool, gpupool-native and gpupool-console; the console's files must be there."""
    if not (ROOT / "console/gpupool_console/static/index.html").exists():
        raise BundleFault("the console's files are not built: make console")
    environ = {**os.environ, "SOURCE_DATE_EPOCH": str(epoch)}
    uv = find_uv(ROOT)
    words = [uv, "build", "--quiet", "--wheel", "--out-dir", str(into)]
    subprocess.run([*words, "--all-packages"], cwd=ROOT, env=environ, check=True)
    subprocess.run([*words, "console"], cwd=ROOT, env=environ, check=True)
    return into


def find_version(own: Path) -> str:
    """Return the version of our wheel in the folder. Raises BundleFault."""
    found = [re.fullmatch(r"gpupool-(.+?)-py3-none-any\.whl", one.name) for one in own.iterdir()]
    versions = [match[1] for match in found if match]
    if len(versions) != 1:
        raise BundleFault(f"{own} has {len(versions)} wheels of gpupool, expected 1")
    return versions[0]


def _lay_wheels(
    folder: Path, wheels: Sequence[LockedWheel], own: Path, cache: Path, pythons: Sequence[str]
) -> None:
    into = folder / "wheels"
    into.mkdir()
    every = list(wheels)
    for path in sorted(own.glob("gpupool*.whl")):
        name, version = path.name.split("-")[:2]
        every.append(LockedWheel(name, version, path.name, hash_file(path), list(pythons)))
        shutil.copyfile(path, into / path.name)
    for wheel in wheels:
        shutil.copyfile(cache / wheel.file, into / wheel.file)
    requirements = folder / "requirements"
    requirements.mkdir()
    for python in pythons:
        lines = []
        size = 0
        for wheel in sorted(every, key=lambda one: one.name):
            # pip installs the others, and is not needed afterwards.
            if python in wheel.pythons and wheel.name != "pip":
                lines.append(f"{wheel.name}=={wheel.version} --hash=sha256:{wheel.sha256}\n")
                with zipfile.ZipFile(into / wheel.file) as packed:
                    size += sum(one.file_size for one in packed.infolist())
        head = f"# installed-kib: {size * COMPILED_PERCENT // 100 >> 10}\n"
        text = "".join([head, *lines])
        (requirements / f"{python}.txt").write_text(text, encoding="utf-8")


def _lay_parts(folder: Path, options: argparse.Namespace) -> dict[str, dict[str, Any]]:
    """Copy what is no wheel; returns what is there, and why the rest is not."""
    _copy_tracked(folder, "docs", "deploy", "LICENSE", "CHANGELOG.md", "README.md", "GLOSSARY.md")
    parts: dict[str, dict[str, Any]] = {}
    for name in ("wheels", "docs", "deploy"):
        count = sum(1 for one in (folder / name).rglob("*") if one.is_file())
        parts[name] = {"present": True, "files": count}
    optional = (
        ("images", options.image, "image.tar", "make image ROOTFS=base.tar  makes it"),
        ("site", options.site, "", "make site, then --site site"),
        ("fonts", options.font, options.font.name, "apt-get install fonts-noto-cjk"),
    )
    for name, source, target, remedy in optional:
        if source is None or not source.exists():
            # No path of this machine: it would show in the bytes.
            parts[name] = {"present": False, "why": f"not there at the build: {remedy}"}
            continue
        if source.is_dir():
            shutil.copytree(source, folder / name)
        else:
            (folder / name).mkdir()
            shutil.copyfile(source, folder / name / target)
        parts[name] = {"present": True}
    if parts["fonts"]["present"] and FONT_LICENCE.exists():
        shutil.copyfile(FONT_LICENCE, folder / "fonts" / "copyright")
    return parts


def _copy_tracked(folder: Path, *names: str) -> None:
    for name in _git("ls-files", *names).splitlines():
        source = ROOT / name
        if not source.is_file():
            continue
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source, target)


def _lay_inventory(folder: Path, version: str, epoch: int) -> None:
    paths = sorted((folder / "wheels").iterdir())
    sums = {path.name: hash_file(path) for path in paths}
    packages = read_wheels(paths, sums)
    packages += read_console_packages(ROOT / "console" / "package-lock.json")
    (folder / "sbom.cdx.json").write_text(write_sbom(packages, version, epoch), encoding="utf-8")
    (folder / "LICENCES.md").write_text(write_licences(packages), encoding="utf-8")


def _git(*words: str) -> str:
    done = subprocess.run(["git", *words], cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise BundleFault(f"git {' '.join(words)} ended with {done.returncode}; a clone is needed")
    return done.stdout.strip()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
