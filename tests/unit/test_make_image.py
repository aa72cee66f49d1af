"""tools/make_image.py: two layers on a base, the same bytes for the same content, and bases that
will not do."""

from __future__ import annotations

import gzip
import importlib.util
import io
import json
import tarfile
import zipfile
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

SCRIPT = Path(__file__).parents[2] / "tools" / "make_image.py"
GLIBC, PYTHON = "usr/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2", "usr/bin/python3.11"


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("make_image", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def base(place: Path, *files: str, folders: tuple[str, ...] = (), zipped: bool = False) -> Path:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        for name in folders:
            info = tarfile.TarInfo(f"./{name}/")
            info.type = tarfile.DIRTYPE
            tar.addfile(info)
        for name in files:
            tar.addfile(tarfile.TarInfo(f"./{name}"))
    file = place / "base.tar"
    file.write_bytes(gzip.compress(packed.getvalue()) if zipped else packed.getvalue())
    return file


def wheel(place: Path) -> Path:
    """A wheel called as ours, of one module and a program."""
    folder = place / "wheels"
    folder.mkdir()
    name = "gpupool-0.1.0"
    meta = "Metadata-Version: 2.1\nName: gpupool\nVersion: 0.1.0\nProvides-Extra: kubernetes\n"
    kind = "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    points = "[console_scripts]\ngpupool-cli = gpupool:main\n"
    with zipfile.ZipFile(folder / f"{name}-py3-none-any.whl", "w") as packed:
        packed.writestr("gpupool/__init__.py", "def main(): return 0\n")
        for file, text in (
            ("METADATA", meta),
            ("WHEEL", kind),
            ("entry_points.txt", points),
            ("RECORD", ""),
        ):
            packed.writestr(f"{name}.dist-info/{file}", text)
    return folder


def read(image: Path) -> tuple[dict[str, Any], dict[str, Any], list[dict[str, tarfile.TarInfo]]]:
    """(index, configuration, entries by name of each layer)."""
    with tarfile.open(image) as tar:
        blobs = {member.name: tar.extractfile(member).read() for member in tar}  # type: ignore[union-attr]  # no folders
    index = json.loads(blobs["index.json"])

    def blob(descriptor: dict[str, Any]) -> bytes:
        found = blobs[f"blobs/{descriptor['digest'].replace(':', '/')}"]
        assert len(found) == descriptor["size"]
        return found

    manifest = json.loads(blob(index["manifests"][0]))
    layers = []
    for each in manifest["layers"]:
        with tarfile.open(fileobj=io.BytesIO(blob(each))) as layer:
            layers.append({member.name.removeprefix("./"): member for member in layer})
    config = json.loads(blob(manifest["config"]))
    assert config["rootfs"]["diff_ids"] == [each["digest"] for each in manifest["layers"]]
    return index, config, layers


@pytest.mark.parametrize("zipped", [False, True])
def test_an_image_is_the_base_and_the_wheels_and_twice_the_same(
    tool: ModuleType, tmp_path: Path, zipped: bool
) -> None:
    rootfs = base(
        tmp_path,
        GLIBC,
        PYTHON,
        "usr/bin/python3.9",
        folders=("tmp", "usr/local", "usr/bin"),
        zipped=zipped,
    )
    wheels = wheel(tmp_path)
    images = [tmp_path / "one.tar", tmp_path / "two.tar"]
    for image in images:
        tool.main(
            [
                "make",
                "--rootfs",
                str(rootfs),
                "--wheels",
                str(wheels),
                "--name",
                "x/y:1",
                "--out",
                str(image),
            ]
        )
    assert images[0].read_bytes() == images[1].read_bytes()
    index, config, (below, above) = read(images[0])
    assert index["manifests"][0]["annotations"]["io.containerd.image.name"] == "x/y:1"
    assert config["config"]["User"] == "65532"
    assert "PYTHONPATH=/opt/gpupool" in config["config"]["Env"]
    assert PYTHON in below
    assert above["usr/local/bin/python"].linkname == f"/{PYTHON}"
    assert "opt/gpupool/gpupool/__init__.py" in above
    assert not {"tmp", "usr/local", "opt/gpupool/bin"} & above.keys()
    assert {(one.uid, one.gid, one.mtime) for one in above.values()} == {(0, 0, 0)}


@pytest.mark.parametrize(
    ("files", "why"),
    [
        ((PYTHON, "lib/ld-musl-x86_64.so.1"), "the base has no glibc (found: ld-musl)"),
        ((PYTHON,), "the base has no glibc (found: no loader)"),
        ((GLIBC,), "no Python 3.11 or newer in /usr/bin or /usr/local/bin (none)"),
        (
            (GLIBC, "usr/bin/python3.9"),
            "no Python 3.11 or newer in /usr/bin or /usr/local/bin (usr/bin/python3.9)",
        ),
    ],
)
def test_a_base_that_will_not_do_is_refused(
    tool: ModuleType, tmp_path: Path, files: tuple[str, ...], why: str
) -> None:
    words = ["--rootfs", str(base(tmp_path, *files)), "--wheels", str(tmp_path), "--name", "x:1"]
    with pytest.raises(SystemExit) as caught:
        tool.main(["make", *words, "--out", str(tmp_path / "image.tar")])
    assert why in str(caught.value)
    assert not (tmp_path / "image.tar").exists()


def test_what_is_no_tar_is_refused(tool: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "base.tar").write_bytes(b"(\xb5/\xfd no tar" * 100)
    words = [
        "--rootfs",
        str(tmp_path / "base.tar"),
        "--wheels",
        str(tmp_path),
        "--name",
        "x:1",
        "--out",
        "no.tar",
    ]
    with pytest.raises(SystemExit, match="no tar, or compressed otherwise"):
        tool.main(["make", *words])
