"""For the fence's tests: the list of symbols, a driver that does nothing but say who it is, and a
stand-in before it.

The dummy driver exports every symbol of the headers under its exact name, and answers look-ups by
base name and version as the headers say. `without` makes an older one of it, `extra` a newer one.
"""

from __future__ import annotations

import fcntl
import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.unit.native.front_pool import ROOT, compiler

CUDA = ROOT / "native" / "cuda"
GEN = ROOT / "native" / "fence" / "gen"
SPEC = ROOT / "native" / "fence" / "spec"
HERE = Path(__file__).parent
SONAMES = {"driver": "libcuda.so.1", "nvml": "libnvidia-ml.so.1"}
LIBRARIES = {"driver": "libcuda", "nvml": "libnvidia-ml"}


def load_module(path: Path) -> ModuleType:
    """A module of the native build, which is no package; its neighbours are found beside it."""
    name = path.stem
    if name not in sys.modules:
        for folder in (CUDA, GEN):
            if str(folder) not in sys.path:
                sys.path.append(str(folder))
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        spec.loader.exec_module(module)
    return sys.modules[name]


symbols = load_module(CUDA / "symbols.py")
declarations = load_module(CUDA / "declarations.py")
locate = load_module(CUDA / "locate.py")
classified = load_module(GEN / "classified.py")
generate = load_module(GEN / "generate.py")
unwritten = load_module(GEN / "unwritten.py")


@dataclass(frozen=True)
class Headers:
    """The vendor's headers and what was read from them."""

    folder: Path
    lists: dict[str, Any]

    @property
    def options(self) -> list[str]:
        """What a compiler needs to see cuda_all.h and nvml_all.h."""
        include = [
            self.folder / "include",
            CUDA / "stubs",
            *(locate.directory(*locate.PACKAGES[n]) for n in ("CUDA13", "NVML13")),
        ]
        return [option for path in include for option in ("-isystem", str(path))]

    def rows(self, side: str) -> list[Any]:
        """The classified table of one side: what the headers declare."""
        return [row for row in self.all_rows(side) if row.symbol.toolkits]

    def all_rows(self, side: str) -> list[Any]:
        read: list[Any] = classified.read(SPEC / f"{side}.tsv", self.lists[LIBRARIES[side]])
        return read


def read_headers(folder: Path) -> None:
    """Reads the installed header packages; the 12.x ones miss a folder that 13.x's have."""
    found = {name: locate.directory(*package) for name, package in locate.PACKAGES.items()}
    cuda12 = folder / "cuda12"
    cuda12.mkdir()
    for header in found["CUDA12"].iterdir():
        (cuda12 / header.name).symlink_to(header)
    if not (cuda12 / "crt").exists():
        (cuda12 / "crt").symlink_to(found["CRT13"] / "crt")
    paths = {
        "cuda12": cuda12,
        "cuda13": found["CUDA13"],
        "nvml12": found["NVML12"],
        "nvml13": found["NVML13"],
    }
    options = [part for name, path in paths.items() for part in (f"--{name}", str(path))]
    assert symbols.main(["--build-dir", str(folder), "--compiler", compiler(), *options]) == 0


def shared_headers(factory: pytest.TempPathFactory) -> Headers:
    """The headers, read once in a run of the tests."""
    folder = shared(factory, "fence-headers", read_headers)
    return Headers(folder, symbols.load(folder / "symbols.json"))


def compile_library(target: Path, sources: Iterable[Path], *options: str) -> Path:
    command = [compiler(), "-std=gnu11", "-O0", "-fPIC", "-shared", "-Wall", "-Wextra", "-Werror"]
    subprocess.run([*command, *map(str, sources), *options, "-o", str(target)], check=True)
    return target


def dummy_source(listed: Any, without: Collection[str] = (), extra: Collection[str] = ()) -> str:
    """C of a driver whose functions keep their own name in `dummy_called`, return 0 and touch
    nothing."""
    kept = [symbol for symbol in listed if symbol.name not in without]
    names = [symbol.name for symbol in kept] + list(extra)
    written = {"cuGetProcAddress", "cuGetProcAddress_v2", "cuDriverGetVersion"}
    lines = ['#include "dummy_driver.h"']
    lines += [f"DUMMY({name})" for name in names if name not in written]
    lines.append("const struct dummy_form dummy_forms[] = {")
    lines += [f"    {form(symbol)}" for symbol in kept if symbol.born]
    lines += [f'    {{"{name}", 13000, 1, 0, LOOKED_UP({name})}},' for name in extra]
    return "\n".join([*lines, "    {0}};", ""])


def form(symbol: Any) -> str:
    return f'{{"{symbol.base}", {symbol.born}, {symbol.form}, {int(bool(symbol.twin))}, LOOKED_UP({symbol.name})}},'


def build_dummy(
    folder: Path,
    listed: Any,
    soname: str,
    without: Collection[str] = (),
    extra: Collection[str] = (),
    flags: Collection[str] = (),
) -> Path:
    """The dummy as a file in `folder`, which has the driver's soname as the real one has."""
    folder.mkdir(parents=True)
    source = folder / "dummy.c"
    source.write_text(dummy_source(listed, without, extra))
    options = (
        f"-I{HERE}",
        "-w",
        "-Wl,-Bsymbolic",
        f"-Wl,-soname,{soname}",
    )  # it means its own functions, as a driver does
    return compile_library(folder / f"{soname}.real", [source], *options, *flags)


def build_bare(folder: Path, headers: Headers, side: str, driver: Path) -> Path:
    """A stand-in of generated code alone: its hand-written handlers are the weak ones, which pass
    through.

    It needs the driver's file by absolute path, as the product does.
    """
    made = folder / "generated"
    made.mkdir(parents=True)
    for name, text in generate.files(generate.SIDES[side], headers.all_rows(side)).items():
        (made / name).write_text(text)
    stub = compile_library(
        folder / "stub.so", [driver.parent / "dummy.c"], f"-I{HERE}", "-w", f"-Wl,-soname,{driver}"
    )
    sources = [*made.glob("*.c"), GEN / "table.c", GEN / "exports.c", HERE / "bare_stand_in.c"]
    sources += [GEN / "lookup.c", HERE / "bare_work.c"] if side == "driver" else []
    options = [
        "-fvisibility=hidden",
        "-Wl,-Bsymbolic",
        "-Wl,--no-as-needed",
        "-Wno-unused-parameter",
        f"-I{made}",
    ]
    options += [f"-I{GEN}", *headers.options, f'-DDRIVER="{driver}"', f"-DTABLE=fence_{side}_table"]
    return compile_library(
        folder / SONAMES[side], sources, *options, f"-Wl,-soname,{SONAMES[side]}", str(stub)
    )


@dataclass(frozen=True)
class StandIn:
    """A stand-in in a folder of its own, and the driver's file behind it."""

    side: str
    library: Path
    driver: Path

    @property
    def environment(self) -> dict[str, str]:
        """The stand-in is found by the public name; the driver only where it says."""
        return {"PATH": os.environ["PATH"], "LD_LIBRARY_PATH": str(self.library.parent)}

    def owner(self, file: str) -> str:
        """Which of the two a path is, or the path."""
        return {str(self.library): "stand-in", str(self.driver): "driver"}.get(file, file)


@dataclass(frozen=True)
class Routes:
    """The shipped stand-in in a folder of its own, the probe beside it, and what the table says."""

    stand_in: StandIn
    folder: Path
    rows: Sequence[Any]

    def probe(
        self, way: str, lines: Sequence[str], alone: bool = False
    ) -> list[tuple[str, str, str]]:
        """Name, owner and symbol of what the probe gets for each line; `alone`: there is no
        stand-in."""
        environment = self.stand_in.environment | (
            {"LD_LIBRARY_PATH": str(self.folder)} if alone else {}
        )
        command = [
            self.folder / "probe",
            way,
            SONAMES[self.stand_in.side],
            self.folder / "client.so",
        ]
        done = subprocess.run(
            command,
            input="\n".join(lines) + "\n",
            text=True,
            capture_output=True,
            env=environment,
            timeout=60,
        )
        assert done.returncode == 0, done.stderr
        found = [line.split("\t") for line in done.stdout.splitlines()]
        return [(name, self.stand_in.owner(file), symbol) for name, file, symbol in found]

    def expected(self, name: str) -> tuple[str, str, str]:
        (row,) = (row for row in self.rows if row.symbol.name == name)
        return name, "stand-in" if row.handled else "driver", name


def build_probe(folder: Path, stand_in: StandIn, listed: Any) -> tuple[Path, Path]:
    """The routing probe and its client library, both bound to every symbol at link time as to the
    vendor's stub."""
    names = folder / "linked.c"
    names.write_text(linked_source(listed))
    link = [f"-L{folder}", f"-l:{SONAMES[stand_in.side]}", "-Wl,--no-as-needed", "-Wl,-z,now"]
    (folder / SONAMES[stand_in.side]).symlink_to(stand_in.driver)
    client = compile_library(folder / "client.so", [names], *link)
    probe = folder / "probe"
    options = [
        "-std=gnu11",
        "-fPIC",
        "-pie",
        "-Wall",
        "-Wextra",
        "-Werror",
        "-Wno-pedantic",
        "-ldl",
    ]
    source = HERE / "fence_routing_probe.c"
    subprocess.run(
        [compiler(), str(source), str(names), *link, *options, "-o", str(probe)], check=True
    )
    return probe, client


def linked_source(listed: Any) -> str:
    """C of a table of every symbol's address as the loader binds it."""
    lines = ["#include <stddef.h>", "struct linked { const char *name; void *address; };"]
    lines += [f"void {symbol.name}(void);" for symbol in listed]
    lines += ["const struct linked probe_linked[] = {"]
    lines += [f'    {{"{symbol.name}", (void *){symbol.name}}},' for symbol in listed]
    lines += [
        "    {NULL, NULL}};",
        "const struct linked *probe_table(void) { return probe_linked; }",
        "",
    ]
    return "\n".join(lines)


def shared(factory: pytest.TempPathFactory, name: str, make: Callable[[Path], object]) -> Path:
    """A folder that the first of all test workers makes and the others find: `make` fills it.
    Removed by pytest."""
    base = factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / name
    with open(f"{folder}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        finished = folder / ".finished"
        if not finished.exists():
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            make(folder)
            finished.touch()
    return folder
