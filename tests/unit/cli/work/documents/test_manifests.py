"""The files that `gpupool import` reads: bounds, encodings, lines of values."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpupool.base.errors import BadManifest
from gpupool.cli.work.documents import manifests
from gpupool.cli.work.documents.manifests import parse_documents


def test_a_line_is_found_for_every_path() -> None:
    (found,) = parse_documents("f", "kind: Pod\nspec:\n  containers:\n  - name: a\n  - name: b\n")
    paths = ((), ("spec",), ("spec", "containers", 1, "name"), ("spec", "nothing"))
    assert [found.find_line(path) for path in paths] == [1, 2, 5, 2]


def test_a_file_larger_than_the_bound_is_refused_without_being_read_whole(tmp_path: Path) -> None:
    file = tmp_path / "big.yaml"
    with file.open("wb") as big:
        big.truncate(manifests.LARGEST + 1)
    with pytest.raises(BadManifest, match="is larger than 8 MiB"):
        manifests.read_text(str(file))
    with file.open("wb") as big:
        big.truncate(manifests.LARGEST)
    assert len(manifests.read_text(str(file))) == manifests.LARGEST


def test_a_text_that_is_no_utf_8_is_refused_and_a_byte_order_mark_is_not_read(
    tmp_path: Path,
) -> None:
    file = tmp_path / "x.yaml"
    file.write_bytes(b"kind: \xff")
    with pytest.raises(BadManifest, match=r"x\.yaml cannot be read: it is no UTF-8"):
        manifests.read_text(str(file))
    file.write_bytes(b"\xef\xbb\xbfkind: Pod")
    assert manifests.read_text(str(file)) == "kind: Pod"


def test_an_error_in_a_document_is_told_with_file_and_line() -> None:
    (found,) = parse_documents("f.yaml", "kind: Pod\nspec:\n  containers: 3\n")
    error = BadManifest("not a list", path=("spec", "containers"))
    assert found.locate_error(error).message == "f.yaml:3: not a list"
    assert found.locate_error(BadManifest("no kind")).message == "f.yaml:1: no kind"


def test_a_step_into_a_mapping_by_number_ends_at_the_mapping() -> None:
    (found,) = parse_documents("f", "a:\n  b: 1\n")
    assert found.find_line(("a", 0, "x")) == 1
    assert found.find_line(("a", "b", "c")) == 2
