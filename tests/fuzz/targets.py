"""Which shipped sources each fuzz target is built over, and how."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Final

HERE: Final = Path(__file__).parent
NATIVE: Final = HERE.parents[1] / "native"
CORPUS: Final = HERE / "corpus"
_SUPERVISOR = ("", "supervisor")
_FENCE = ("", "include", "fence/src")
_ARBITER = ("arbiter", *_FENCE)
#: By target: the sources and the include directories below native/.
TARGETS: Final = {
    "spec": (
        ("supervisor/spec.c", "common/small_file.c", "supervisor/isolation/numa.c"),
        _SUPERVISOR,
    ),
    "control": (("supervisor/control.c", "common/small_file.c"), _SUPERVISOR),
    "doorbell": (
        (
            *(
                f"arbiter/{name}.c"
                for name in (
                    "doorbell",
                    "process_table",
                    "credentials",
                    "share",
                    "events",
                    "report",
                    "bus_error",
                )
            ),
            "fence/src/process/ledger.c",
            "fence/src/process/process_id.c",
            "common/proc_stat.c",
        ),
        _ARBITER,
    ),
    "region": (
        (
            "arbiter/decision/arbitrate.c",
            "arbiter/decision/ungranted.c",
            "fence/src/process/ledger.c",
            "fence/src/process/process_id.c",
            "common/proc_stat.c",
        ),
        _ARBITER,
    ),
    "pages": (("fence/src/process/region.c",), _FENCE),
    "json": (("common/json.c", "common/text.c"), ("",)),
    "http": (("common/http.c", "common/text.c"), ("",)),
}
SANITIZERS: Final = "address,undefined"


def build(target: str, folder: Path, compiler: str = "cc", *, search: bool = False) -> Path:
    """The target as a program: libFuzzer's (clang) to search, else one that replays the files it is
    given."""
    sources, includes = TARGETS[target]
    program = folder / target
    options = [
        "-std=gnu11",
        "-O1" if search else "-O0",
        "-g",
        "-D_GNU_SOURCE",
        "-Wall",
        "-Wextra",
        "-Wno-nonnull",
    ]
    fuzzer = (
        ["-fsanitize=fuzzer," + SANITIZERS]
        if search
        else ["-fsanitize=" + SANITIZERS, str(HERE / "replay.c")]
    )
    paths = [HERE / f"fuzz_{target}.c", *(NATIVE / source for source in sources)]
    command = [
        compiler,
        *options,
        "-fno-sanitize-recover=all",
        *(f"-I{NATIVE / each}" for each in includes),
        *fuzzer,
    ]
    subprocess.run([*command, *paths, "-o", program], check=True, timeout=120)
    return program


def replay(program: Path, files: Sequence[Path]) -> int:
    """How many were survived: all, or CalledProcessError with what the sanitizer said."""
    done = subprocess.run(
        [program, *files], check=True, capture_output=True, text=True, timeout=120
    )
    return int(done.stdout or len(files))
