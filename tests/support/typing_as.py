"""Typing a gpupool command as another Unix account, which may not be able to execute or read this
Python."""

from __future__ import annotations

import importlib
import json
import os
import pkgutil
import sys
from collections.abc import Mapping
from typing import NamedTuple

import gpupool.cli
import gpupool.client
import gpupool.wire
from gpupool.cli.main import main
from tests.support.accounts import acting_as


class Typed(NamedTuple):
    code: int
    said: str


def _import_all() -> None:
    """Commands are imported as they are typed, which the other account could not do."""
    for package in (gpupool.cli, gpupool.client, gpupool.wire):
        for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if not found.name.endswith("__main__"):
                importlib.import_module(found.name)
    for name in (
        "getpass",
        "pty",
        "pwd",
        "shlex",
        "socket",
        "ssl",
        "tty",
        "uuid",
        "encodings.idna",
    ):
        importlib.import_module(name)


def typed_as(uid: int, environ: Mapping[str, str], *words: str) -> Typed:
    """What the command answers and prints (stdout and stderr, in the order they came; 64 KiB at
    most)."""
    _import_all()

    def act() -> list[object]:
        os.environ.clear()
        os.environ.update(environ)
        read, write = os.pipe()
        null = os.open(os.devnull, os.O_RDONLY)
        for one, place in ((null, 0), (write, 1), (write, 2)):
            os.dup2(one, place)
        os.close(write)
        sys.stdin, sys.stdout, sys.stderr = open(0), open(1, "w"), open(2, "w")  # noqa: SIM115  for the child's life
        code = main(words)
        sys.stdout.flush()
        sys.stderr.flush()
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 1)
        os.dup2(null, 2)
        os.set_blocking(read, False)
        return [code, os.read(read, 1 << 16).decode()] if _has(read) else [code, ""]

    code, said = json.loads(json.dumps(acting_as(uid, act)))
    return Typed(code, said)


def _has(read: int) -> bool:
    import select

    return bool(select.select([read], [], [], 0)[0])
