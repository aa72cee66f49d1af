"""The shape of the C sources: small folders, each explained, and includes that form no ring."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

NATIVE = Path(__file__).parents[2] / "native"
#: Where the compiler looks for an include of each part, besides the including file's own folder.
ROOTS = ("", "include", "arbiter", "cli", "supervisor", "fence/src", "fence/gen")
SIMULATED_ROOTS = ("simgpu/model", "simgpu/driver", "simgpu/cudart")
MOST_FILES = 22
INCLUDE = re.compile(r'^#include ["<]([^">]+)[">]', re.MULTILINE)


def _list_sources() -> list[Path]:
    return [
        path
        for pattern in ("**/*.c", "**/*.h")
        for path in NATIVE.glob(pattern)
        if path.relative_to(NATIVE).parts[0] != "build"
    ]


def _read_includes(source: Path) -> Iterator[Path]:
    """Yield the sources of ours that a file includes; a header of another library is none."""
    for name in INCLUDE.findall(source.read_text()):
        folders = [source.parent, *(NATIVE / root for root in (*ROOTS, *SIMULATED_ROOTS))]
        found = next((folder / name for folder in folders if (folder / name).is_file()), None)
        if found is not None and found != source:
            yield found.resolve()


def _find_cycle(graph: Mapping[Path, list[Path]]) -> list[Path]:
    """Return the files of one ring; empty when there is none."""
    finished: set[Path] = set()

    def visit(file: Path, way: list[Path]) -> list[Path]:
        if file in way:
            return way[way.index(file) :]
        if file in finished:
            return []
        for included in graph.get(file, []):
            ring = visit(included, [*way, file])
            if ring:
                return ring
        finished.add(file)
        return []

    for file in graph:
        ring = visit(file, [])
        if ring:
            return ring
    return []


def _unite_with_header(file: Path) -> Path:
    """Treat `NAME.c`, `NAME.h` and `NAME_internal.h` as one module."""
    return file.with_name(file.stem.removesuffix("_internal"))


def test_includes_form_no_ring_between_modules() -> None:
    graph: dict[Path, list[Path]] = {}
    for source in _list_sources():
        module = _unite_with_header(source)
        for included in _read_includes(source):
            if _unite_with_header(included) != module:
                graph.setdefault(module, []).append(_unite_with_header(included))
    assert len(graph) > 150
    assert [str(file.relative_to(NATIVE)) for file in _find_cycle(graph)] == []


def test_a_ring_is_found_and_named() -> None:
    a, b, c = Path("a"), Path("b"), Path("c")
    assert _find_cycle({a: [b], b: [c], c: [b]}) == [b, c]


def test_a_folder_has_few_files() -> None:
    counts: dict[str, int] = {}
    for source in _list_sources():
        folder = str(source.parent.relative_to(NATIVE))
        counts[folder] = counts.get(folder, 0) + 1
    assert {folder: count for folder, count in counts.items() if count > MOST_FILES} == {}


@pytest.mark.parametrize(
    "part", sorted(path.parent.name for path in NATIVE.glob("*/CMakeLists.txt"))
)
def test_each_part_says_what_it_is_for(part: str) -> None:
    lines = (NATIVE / part / "README.md").read_text().splitlines()
    assert lines[0].startswith("# ")
    assert f"`{part}/`" in (NATIVE / "README.md").read_text()
