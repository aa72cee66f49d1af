"""The list of symbols is what the headers declare; a header in a style that is not known stops the
build."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tests.unit.native.fence_build import Headers, declarations, locate, symbols
from tests.unit.native.front_pool import compiler


def read(text: str) -> declarations.Declarations:
    return declarations.read(text, "cu[A-Z]")


def types(text: str) -> tuple[str, ...]:
    (prototype,) = read(text).functions.values()
    return tuple(prototype.types())


def test_a_prototype_is_its_types_and_the_names_of_its_parameters() -> None:
    (prototype,) = read(
        "CUresult cuF(const void *const *from, unsigned int n, size_t sizes[2], CUuuid*);"
    ).functions.values()
    assert prototype.types() == (
        "CUresult",
        "const void *const *",
        "unsigned int",
        "size_t *",
        "CUuuid *",
    )
    assert [each.name for each in prototype.parameters] == ["from", "n", "sizes", "argument3"]


@pytest.mark.parametrize(
    "text",
    [
        'extern __attribute__((visibility("default"))) CUresult cuF(int a);',
        "struct s { int x; struct { int y; } z; }; CUresult cuF(int a);",
        "static inline int g(void) { if (1) { return 2; } return 3; } CUresult cuF(int a);",
        "typedef enum e { A = 1 } e; CUresult\n  cuF(\n    int a\n);",
    ],
)
def test_what_stands_around_a_prototype_does_not_matter(text: str) -> None:
    assert types(text) == ("CUresult", "int")


def test_a_function_that_the_reader_would_lose_is_refused() -> None:
    with pytest.raises(declarations.Unreadable, match="cuF"):
        read("CUresult cuF(void (*callback)(int), int a);")


def test_aliases_are_followed_to_their_end_before_types_are_compared() -> None:
    read_ = read(
        "typedef int CUdevice_v1; typedef CUdevice_v1 CUdevice; CUresult cuA(CUdevice d); CUresult cuB(const int d);"
    )
    assert read_.canonical(read_.functions["cuA"]) == read_.canonical(read_.functions["cuB"])


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("cuMemAlloc", ("cuMemAlloc", 1, "")),
        ("cuMemcpyHtoD_v2_ptds", ("cuMemcpyHtoD", 2, "_ptds")),
        ("cuLaunchKernel_ptsz", ("cuLaunchKernel", 1, "_ptsz")),
        ("nvmlDeviceGetMemoryInfo_v2", ("nvmlDeviceGetMemoryInfo", 2, "")),
    ],
)
def test_a_name_is_a_base_a_form_and_a_kind_of_stream(
    name: str, parts: tuple[str, int, str]
) -> None:
    assert symbols.split(name) == parts


def test_a_version_without_a_form_of_its_own_is_refused() -> None:
    toolkit = read(
        "typedef int (*PFN_cuF_v2000)(int); typedef int (*PFN_cuF_v3000)(int); int cuF(int a);"
    )
    with pytest.raises(declarations.Unreadable, match=r"cuF for the versions \[2000, 3000\]"):
        symbols.merge({"13.5": toolkit})


def test_a_version_with_another_prototype_than_its_form_is_refused() -> None:
    with pytest.raises(declarations.Unreadable, match="cuF is not what"):
        symbols.merge({"13.5": read("typedef int (*PFN_cuF_v2000)(long); int cuF(int a);")})


def test_every_function_of_both_toolkits_is_listed(headers: Headers) -> None:
    """Held against the names that a plain search finds: the reader may lose none of them."""
    listed = headers.lists["libcuda"]
    for kit, package in (("12.9", "CUDA12"), ("13.5", "CUDA13")):
        folder = locate.directory(*locate.PACKAGES[package])
        texts = [
            (folder / header).read_text()
            for header in ("cuda.h", "cudaGL.h", "cudaEGL.h", "cudaVDPAU.h")
        ]
        found = {name for text in texts for name in re.findall(r"CUDAAPI (cu[A-Z]\w+)\(", text)}
        assert len(found) > 450
        on_windows_alone = {"cuWGLGetDevice"}
        assert found - on_windows_alone <= {
            symbol.name for symbol in listed if kit in symbol.toolkits
        }


def test_both_toolkits_agree_on_every_driver_prototype(headers: Headers) -> None:
    assert [symbol.name for symbol in headers.lists["libcuda"] if symbol.older] == []


def test_a_version_means_the_newest_form_that_it_knows(headers: Headers) -> None:
    born = {
        symbol.name: symbol.born
        for symbol in headers.lists["libcuda"]
        if symbol.base == "cuCtxCreate"
    }
    assert born == {
        "cuCtxCreate": 2000,
        "cuCtxCreate_v2": 3020,
        "cuCtxCreate_v3": 11040,
        "cuCtxCreate_v4": 12050,
    }


def test_a_twin_is_found_from_its_plain_symbol(headers: Headers) -> None:
    listed = headers.lists["libcuda"]
    twins = {
        name: listed.twin_of(listed.by_name[name])
        for name in ("cuMemcpyHtoD_v2", "cuLaunchKernel", "cuMemAlloc_v2")
    }
    assert {name: twin and twin.name for name, twin in twins.items()} == {
        "cuMemcpyHtoD_v2": "cuMemcpyHtoD_v2_ptds",
        "cuLaunchKernel": "cuLaunchKernel_ptsz",
        "cuMemAlloc_v2": None,
    }


def test_old_forms_can_be_named_after_cuda_all(headers: Headers, tmp_path: Path) -> None:
    source = tmp_path / "names.c"
    source.write_text(
        "#include <gpupool/cuda_all.h>\n#include <gpupool/nvml_all.h>\n"
        "CUresult (*old)(CUdeviceptr_v1 *, unsigned int) = cuMemAlloc;\nnvmlReturn_t (*init)(void) = nvmlInit;\n"
    )
    command = [
        compiler(),
        "-std=gnu11",
        "-Wall",
        "-Werror",
        "-fsyntax-only",
        *headers.options,
        str(source),
    ]
    subprocess.run(command, check=True)
