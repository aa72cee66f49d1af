"""The store of images: stored once, never written again, and no file of another behind it."""

from __future__ import annotations

import shutil
import subprocess
from hashlib import sha256
from pathlib import Path

import pytest

from gpupool.base.errors import BadImage, BadName, NameTaken, NotFound
from gpupool.vm.images import ImageStore

pytestmark = pytest.mark.skipif(
    shutil.which("qemu-img") is None, reason="no qemu-img: apt-get install qemu-utils"
)


def make_image(path: Path, size: int = 1 << 20, form: str = "qcow2", backing: str = "") -> Path:
    below = ["-b", backing, "-F", "qcow2"] if backing else []
    subprocess.run(["qemu-img", "create", "-q", "-f", form, *below, path, str(size)], check=True)
    return path


@pytest.fixture
def store(tmp_path: Path) -> ImageStore:
    return ImageStore(tmp_path / "images")


def test_a_qcow2_file_is_stored_as_it_is_under_its_digest(
    store: ImageStore, tmp_path: Path
) -> None:
    source = make_image(tmp_path / "debian-12.qcow2")
    image = store.import_file(source)
    assert image.name == "debian-12"
    assert image.digest == sha256(source.read_bytes()).hexdigest()
    assert store.locate(image).read_bytes() == source.read_bytes()
    assert store.locate(image).stat().st_mode & 0o777 == 0o444
    assert store.import_file(source) == image
    assert store.list_images() == [image]


def test_other_formats_are_converted(store: ImageStore, tmp_path: Path) -> None:
    image = store.import_file(make_image(tmp_path / "a.vmdk", form="vmdk"))
    assert image.format == "qcow2"
    assert store.locate(image).suffix == ".qcow2"


def test_an_image_is_found_by_name_and_by_the_begin_of_its_digest(
    store: ImageStore, tmp_path: Path
) -> None:
    image = store.import_file(make_image(tmp_path / "a.qcow2"), "small")
    assert store.find_image("small") == store.find_image(image.digest[:8]) == image
    for wrong in ("other", image.digest[:7]):
        with pytest.raises(NotFound):
            store.find_image(wrong)


def test_an_overlay_is_refused_because_the_file_below_would_be_shown(
    store: ImageStore, tmp_path: Path
) -> None:
    base = make_image(tmp_path / "base.qcow2")
    with pytest.raises(BadImage, match="an overlay on"):
        store.import_file(make_image(tmp_path / "top.qcow2", backing=str(base)))
    assert store.list_images() == []


def test_another_image_does_not_take_a_name(store: ImageStore, tmp_path: Path) -> None:
    store.import_file(make_image(tmp_path / "a.qcow2"), "small")
    with pytest.raises(NameTaken):
        store.import_file(make_image(tmp_path / "b.qcow2", size=2 << 20), "small")
    assert len(store.list_images()) == 1
    assert not list((tmp_path / "images").glob(".import*"))


def test_a_name_is_checked_before_the_file_is_read(store: ImageStore, tmp_path: Path) -> None:
    with pytest.raises(BadName):
        store.import_file(tmp_path / "absent", "../x")


def test_an_empty_store_lists_nothing(store: ImageStore) -> None:
    assert store.list_images() == []
