"""The vendor's public functions, read from the headers of two toolkits into one list.

    python3 symbols.py --build-dir DIR --cuda12 INCLUDE --cuda13 INCLUDE --nvml12 INCLUDE --nvml13 INCLUDE

writes into DIR `symbols.json` (what `load` gives back: the list for the fence's and the simulated
card's generators) and `include/gpupool/cuda_all.h`, `nvml_all.h` (every symbol declared under its
exact name, without the vendor's macros that rename them). Nothing of a vendor's header is kept:
both are made where the build happens.

A driver symbol has a base name and a suffix that says which form of it (`cuMemAlloc`,
`cuMemAlloc_v2`), and may have a twin `_ptsz` or `_ptds` whose default stream is the calling
thread's own. Clients ask the driver by base name and the version of CUDA in which the form they
want was born; cudaTypedefs.h gives those versions (`PFN_cuMemAlloc_v3020`). The 7000 that it gives
for many twins is the version in which twins were born, and not one of the function.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))  # loaded by file, from the build and from tests

from declarations import Declarations, Parameter, Prototype, Unreadable, read

STUBS = Path(__file__).parent / "stubs"
TOOLKITS = ("13.5", "12.9")  # newest first: its prototype is the one that is compiled
_SUFFIX = re.compile(r"^(?P<base>\w+?)(?:_v(?P<form>\d+))?(?P<twin>_ptsz|_ptds)?$")
_TYPED = re.compile(r"^PFN_(?P<base>\w+?)_v(?P<version>\d+)(?P<twin>_ptsz|_ptds)?$")
_INTERNAL = "-D__CUDA_API_VERSION_INTERNAL"  # also declares the forms that newer ones have replaced


@dataclass(frozen=True)
class Library:
    """How to read one library's headers: what to include, the modes to read it in, how its
    functions begin."""

    name: str
    headers: tuple[str, ...]
    modes: tuple[tuple[str, ...], ...]
    wanted: str


LIBCUDA = Library(
    "libcuda",
    (
        *(
            "GL/gl.h",
            "EGL/egl.h",
            "EGL/eglext.h",
            "vdpau/vdpau.h",
            "cuda.h",
            "cudaGL.h",
            "cudaEGL.h",
            "cudaVDPAU.h",
        ),
        *(
            "cudaProfiler.h",
            "cudaTypedefs.h",
            "cudaGLTypedefs.h",
            "cudaEGLTypedefs.h",
            "cudaVDPAUTypedefs.h",
        ),
        "cudaProfilerTypedefs.h",
    ),
    ((_INTERNAL,), (), ("-DCUDA_API_PER_THREAD_DEFAULT_STREAM",)),
    "cu[A-Z]",
)
LIBNVML = Library(
    "libnvidia-ml", ("nvml.h",), (("-DNVML_NO_UNVERSIONED_FUNC_DEFS",), ()), "nvml[A-Z]"
)
LIBCUDART = Library(
    "libcudart",
    ("cuda_runtime_api.h",),
    ((_INTERNAL, "-D__CUDART_API_VERSION_INTERNAL"), (), ("-DCUDA_API_PER_THREAD_DEFAULT_STREAM",)),
    "cuda[A-Z]",
)


@dataclass(frozen=True)
class Symbol:
    """One exported name.

    `form` is the number in its suffix (1 where there is none), `twin` is "", "_ptsz" or "_ptds", `plain` the name
    without the twin's suffix, `born` the CUDA version (11040 for 11.4) from which a look-up by base name means this
    symbol, until the next form's (None outside libcuda), `toolkits` the headers that declare it. `prototype` is the
    newest header's; `older` the oldest header's where that differs in more than the spelling of a type: in 13.5 and
    12.9 no driver symbol does, some of the runtime's do, because there a name changed its meaning with its soname.
    """

    name: str
    base: str
    form: int
    twin: str
    born: int | None
    toolkits: tuple[str, ...]
    prototype: Prototype
    older: Prototype | None = None

    @property
    def plain(self) -> str:
        return self.name.removesuffix(self.twin) if self.twin else self.name


@dataclass(frozen=True)
class Symbols:
    """The symbols of one library, by name."""

    library: str
    by_name: dict[str, Symbol]

    def __iter__(self) -> Iterator[Symbol]:
        return iter(self.by_name.values())

    def twin_of(self, symbol: Symbol) -> Symbol | None:
        """The per-thread twin of a plain symbol, None where it has none."""
        return next(
            (
                self.by_name[n]
                for n in (symbol.name + "_ptsz", symbol.name + "_ptds")
                if n in self.by_name
            ),
            None,
        )


def load(path: Path) -> dict[str, Symbols]:
    """What `main` has written, by library name: libcuda, libnvidia-ml, libcudart."""
    libraries = json.loads(path.read_text())
    return {
        name: Symbols(name, {row["name"]: _symbol(row) for row in rows})
        for name, rows in libraries.items()
    }


def _symbol(row: dict[str, object]) -> Symbol:
    fields = dict(row, toolkits=tuple(row["toolkits"]))  # type: ignore[arg-type]
    for name in ("prototype", "older"):
        fields[name] = row[name] and _prototype(row[name])
    return Symbol(**fields)  # type: ignore[arg-type]


def _prototype(row: object) -> Prototype:
    assert isinstance(row, dict)
    return Prototype(
        row["returns"], tuple(Parameter(**parameter) for parameter in row["parameters"])
    )


def preprocess(
    compiler: str, includes: Sequence[Path], headers: Sequence[str], options: Sequence[str]
) -> str:
    """The text of a translation unit that includes `headers`, macros expanded. Raises
    CalledProcessError."""
    command = [
        compiler,
        "-E",
        "-P",
        "-xc",
        *options,
        *(f"-I{path}" for path in (STUBS, *includes)),
        "-",
    ]
    text = "".join(f"#include <{header}>\n" for header in headers)
    return subprocess.run(command, input=text, text=True, check=True, stdout=subprocess.PIPE).stdout


def read_library(library: Library, compiler: str, includes: Sequence[Path]) -> Declarations:
    """The declarations of one toolkit's header, all modes together; the first mode that has a name
    wins."""
    functions: dict[str, Prototype] = {}
    function_types: dict[str, Prototype] = {}
    aliases: dict[str, str] = {}
    for mode in library.modes:
        found = read(preprocess(compiler, includes, library.headers, mode), library.wanted)
        functions = found.functions | functions
        function_types = found.function_types | function_types
        aliases = found.aliases | aliases
    return Declarations(functions, function_types, aliases)


def merge(toolkits: dict[str, Declarations]) -> list[Symbol]:
    """One list from the declarations of several toolkits, newest first."""
    names = sorted({name for declarations in toolkits.values() for name in declarations.functions})
    born = versions_of(names, toolkits)
    return [_merged(name, toolkits, born.get(name)) for name in names]


def _merged(name: str, toolkits: dict[str, Declarations], born: int | None) -> Symbol:
    having = {toolkit: read for toolkit, read in toolkits.items() if name in read.functions}
    newest, oldest = next(iter(having.values())), list(having.values())[-1]
    prototype, older = newest.functions[name], oldest.functions[name]
    same = newest.canonical(prototype) == oldest.canonical(older)
    base, form, twin = split(name)
    return Symbol(name, base, form, twin, born, tuple(having), prototype, None if same else older)


def split(name: str) -> tuple[str, int, str]:
    """Base name, form and twin suffix: `cuMemcpyHtoD_v2_ptds` is (cuMemcpyHtoD, 2, _ptds)."""
    found = _SUFFIX.match(name)
    assert found is not None, name
    return found["base"], int(found["form"] or 1), found["twin"] or ""


def versions_of(names: Iterable[str], toolkits: dict[str, Declarations]) -> dict[str, int]:
    """Which version of CUDA means which symbol: forms and versions both grow, so they pair in
    order.

    Raises Unreadable where their numbers or any pair's prototypes differ: then the headers' habit has changed.
    """
    typed: dict[tuple[str, str], dict[int, Prototype]] = {}
    for declarations in toolkits.values():
        for name, prototype in declarations.function_types.items():
            if found := _TYPED.match(name):
                typed.setdefault((found["base"], found["twin"] or ""), {}).setdefault(
                    int(found["version"]), prototype
                )
    forms: dict[tuple[str, str], list[str]] = {}
    for name in sorted(names, key=split):
        base, _, twin = split(name)
        forms.setdefault((base, twin), []).append(name)
    return {
        name: version
        for family, versions in typed.items()
        for name, version in _paired(forms.get(family, []), versions, toolkits)
    }


def _paired(
    forms: Sequence[str], versions: dict[int, Prototype], toolkits: dict[str, Declarations]
) -> Iterator[tuple[str, int]]:
    if len(forms) != len(versions):
        raise Unreadable(
            f"the headers declare {', '.join(forms) or 'nothing'} for the versions {sorted(versions)}"
        )
    for name, version in zip(forms, sorted(versions), strict=True):
        read = next(read for read in toolkits.values() if name in read.functions)
        if read.canonical(read.functions[name]) != read.canonical(versions[version]):
            raise Unreadable(f"{name} is not what cudaTypedefs.h calls version {version}")
        yield name, version


def declaring_header(macros: Iterable[str], define: str, headers: Iterable[str]) -> str:
    """A header after which every function is declared and no macro gives one another's name."""
    lines = ["/* Made by native/cuda/symbols.py. */", "#pragma once", f"#define {define}"]
    lines += [f"#include <{header}>" for header in headers]
    return "\n".join([*lines, *(f"#undef {name}" for name in sorted(macros)), ""])


def renaming_macros(compiler: str, includes: Sequence[Path], library: Library) -> set[str]:
    """Names of functions that a header turns into others."""
    command = [
        compiler,
        "-E",
        "-dM",
        "-xc",
        *library.modes[0],
        *(f"-I{path}" for path in (STUBS, *includes)),
        "-",
    ]
    text = "".join(f"#include <{header}>\n" for header in library.headers)
    macros = subprocess.run(
        command, input=text, text=True, check=True, stdout=subprocess.PIPE
    ).stdout
    return set(re.findall(rf"^#define ({library.wanted}\w+)(?:\(\w*\))? \S", macros, re.M))


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    for name in ("build-dir", "cuda12", "cuda13", "nvml12", "nvml13"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    parser.add_argument("--compiler", default="cc")
    asked = parser.parse_args(arguments)
    cuda, nvml = (
        dict(zip(TOOLKITS, (asked.cuda13, asked.cuda12), strict=True)),
        (asked.nvml13, asked.nvml12),
    )
    libraries = {LIBCUDA: cuda, LIBNVML: dict(zip(TOOLKITS, nvml, strict=True)), LIBCUDART: cuda}
    try:
        lists = {
            library.name: merge(
                {kit: read_library(library, asked.compiler, [path]) for kit, path in paths.items()}
            )
            for library, paths in libraries.items()
        }
    except (Unreadable, subprocess.CalledProcessError) as reason:
        print(f"native/cuda: the headers could not be read: {reason}", file=sys.stderr)
        return 1
    write(asked.build_dir, lists, asked)
    return 0


def write(build: Path, lists: dict[str, list[Symbol]], asked: argparse.Namespace) -> None:
    """Files are only touched when their content changes, so that what is built from them is not
    built again."""
    include = build / "include" / "gpupool"
    include.mkdir(parents=True, exist_ok=True)
    macros = renaming_macros(asked.compiler, [asked.cuda13], LIBCUDA)
    headers = [header for header in LIBCUDA.headers if "Typedefs" not in header]
    replace(
        include / "cuda_all.h", declaring_header(macros, "__CUDA_API_VERSION_INTERNAL", headers)
    )
    replace(
        include / "nvml_all.h",
        declaring_header((), "NVML_NO_UNVERSIONED_FUNC_DEFS", LIBNVML.headers),
    )
    rows = {name: [asdict(symbol) for symbol in symbols] for name, symbols in lists.items()}
    replace(build / "symbols.json", json.dumps(rows, indent=1) + "\n")


def replace(path: Path, text: str) -> None:
    if not path.exists() or path.read_text() != text:
        path.write_text(text)


if __name__ == "__main__":
    sys.exit(main())
