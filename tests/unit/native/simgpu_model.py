"""For tests of the simulated machine: a program that uses it as it is told, run as often as
wanted."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

from tests.unit.native.front_pool import NATIVE, WARNINGS, compiler

MODEL = NATIVE / "simgpu" / "model"
SOURCES = (*sorted(MODEL.glob("*/*.c")), NATIVE / "common/proc_stat.c")
HERE = Path(__file__).parent
DEVICE_MEMORY = 1  # SIM_DEVICE
GIB = 1 << 30
MS = 1_000_000


def compile_user(target: Path, *flags: str) -> Path:
    """`simgpu-user`, with every warning an error."""
    subprocess.run(
        [compiler(), "-std=gnu11", "-D_GNU_SOURCE", "-O1", "-g", f"-I{NATIVE}", f"-I{MODEL}", *WARNINGS, *flags,
         *map(str, SOURCES), str(HERE / "simgpu_user.c"), "-o", str(target), "-pthread"],
        check=True,
    )  # fmt: skip
    return target


class User:
    """A running `simgpu-user`. Ended by `close`, by `kill`, or with its `with` block."""

    def __init__(
        self, program: Path, machine: Path | str, env: Mapping[str, str] | None = None
    ) -> None:
        self.process = subprocess.Popen(
            [program, str(machine)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            env=dict(os.environ, **(env or {})),
        )  # fmt: skip
        self.opened = int(self.line())

    @property
    def pid(self) -> int:
        return self.process.pid

    def say(self, *words: object) -> None:
        assert self.process.stdin
        print(*words, file=self.process.stdin, flush=True)

    def line(self) -> str:
        assert self.process.stdout
        return self.process.stdout.readline().strip()

    def ask(self, *words: object) -> int:
        self.say(*words)
        answer = self.line()
        assert answer.lstrip("-").isdigit(), f"{words}: {answer!r}"
        return int(answer)

    def kill(self) -> None:
        """SIGKILL; the process is waited for."""
        self.process.kill()
        self.process.wait()
        self._shut()

    def close(self) -> int:
        assert self.process.stdin
        self.process.stdin.close()
        code = self.process.wait(20)
        self._shut()
        return code

    def _shut(self) -> None:
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe
            pipe.close()

    def __enter__(self) -> User:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.kill()


def layout_of_c(folder: Path, names: Mapping[str, tuple[str, tuple[str, ...]]]) -> dict[str, int]:
    """`offset of` and `size of` by compiler: names are C structs with the fields wanted of each."""
    lines = ['#include "machine/machine.h"', "#include <stdio.h>", "int main(void) {"]
    for struct, (_, fields) in names.items():
        lines.append(f'printf("{struct} %zu\\n", sizeof(struct {struct}));')
        lines += [f'printf("{struct}.{f} %zu\\n", offsetof(struct {struct}, {f}));' for f in fields]
    source, program = folder / "layout.c", folder / "layout"
    source.write_text("\n".join([*lines, "return 0; }"]))
    subprocess.run(
        [compiler(), "-std=gnu11", f"-I{MODEL}", str(source), "-o", str(program)], check=True
    )
    printed = subprocess.run([program], check=True, capture_output=True, text=True).stdout
    return {name: int(value) for name, value in (line.split() for line in printed.splitlines())}
