"""Which image a name means, from the store's index."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from gpupool.mechanisms.containers.image_store import STORE, StoredImage, find_stored_image

ID = "a" * 64
DIGEST = "sha256:" + "b" * 64


def write(home: Path, *entries: Any, driver: str = "overlay") -> None:
    folder = home / STORE / f"{driver}-images"
    folder.mkdir(parents=True)
    (folder / "images.json").write_text(json.dumps(entries))


def test_a_whole_name_is_found_with_both_digests(tmp_path: Path) -> None:
    write(
        tmp_path, {"id": "c" * 64}, {"id": ID, "digest": DIGEST, "names": ["r.ex/a:1", "r.ex/b:2"]}
    )
    assert find_stored_image(str(tmp_path), "r.ex/b:2") == StoredImage(f"sha256:{ID}", DIGEST)


def test_a_name_without_a_tag_means_latest(tmp_path: Path) -> None:
    write(tmp_path, {"id": ID, "names": ["localhost/a:latest"]})
    assert find_stored_image(str(tmp_path), "localhost/a") == StoredImage(f"sha256:{ID}", "")


def test_what_is_not_plain_is_left_to_podman(tmp_path: Path) -> None:
    assert find_stored_image(str(tmp_path), "a:1") is None
    write(tmp_path, {"id": ID, "names": ["localhost/a:1"]}, {"id": "x", "names": ["localhost/b:1"]})
    assert find_stored_image(str(tmp_path), "a:1") is None
    assert find_stored_image(str(tmp_path), "localhost/b:1") is None
    write(tmp_path, {"id": ID, "names": ["localhost/a:1"]}, driver="vfs")
    assert find_stored_image(str(tmp_path), "localhost/a:1") is None


def test_a_damaged_index_is_left_to_podman(tmp_path: Path) -> None:
    write(tmp_path)
    (tmp_path / STORE / "overlay-images/images.json").write_text("{")
    assert find_stored_image(str(tmp_path), "localhost/a:1") is None
