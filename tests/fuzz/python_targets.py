"""The fuzz targets for what is parsed in Python: files that a tenant gives to a command, and bodies
of requests.

A target takes bytes, reads them through the same function as the command does, and returns. The
documented answers to bad input are a `GpupoolError` and, for a body, pydantic's `ValidationError`
(the server answers GP-1000). Whatever else is raised is a fault.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import io
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from pydantic import ValidationError

from gpupool.base.errors import GpupoolError
from gpupool.cli.work import import_
from gpupool.client.gang_file import read_gang
from gpupool.server.middleware.request_bodies import check_text
from gpupool.simulation.traces import nodes, openb, sources
from gpupool.terminal.context import CommandContext
from gpupool.wire import jobs, people, submissions

#: The modes of `gpupool import` that go through different code: (explain, strict, output).
IMPORTS: Final = ((False, False, "text"), (True, True, "text"), (True, False, "json"))
#: What a plain user and a tenant's administrator send most.
BODIES: Final = (submissions.JobIn, jobs.ResizeIn, people.QuotaIn)


@functools.cache
def _context() -> CommandContext:
    return CommandContext("/nonexistent")


def script(path: Path) -> None:
    """A manifest, a batch script or a dstack configuration, as `gpupool import FILE` reads it."""
    for explain, strict, output in IMPORTS:
        options = argparse.Namespace(
            file=str(path), explain=explain, strict=strict, node_facts=None, output=output
        )
        with (
            documented(),
            contextlib.redirect_stdout(io.StringIO()),
            contextlib.redirect_stderr(io.StringIO()),
        ):
            import_.run(options, _context())


def facts(path: Path) -> None:
    """Facts about nodes, as `gpupool import --node-facts FILE` reads them."""
    with documented():
        import_.read_node_facts(str(path))


def gang(path: Path) -> None:
    """`gpupool submit --gang-file FILE`."""
    with documented():
        read_gang(str(path))


def trace(path: Path) -> None:
    """A trace or an event log, as `gpupool simulate FILE` reads it."""
    with documented():
        sources.read_trace(str(path))


def tables(path: Path) -> None:
    """Lists of nodes and of pods."""
    for read in (
        lambda: nodes.read_table(path.name, nodes.read_text(str(path))),
        lambda: openb.read_nodes(path),
    ):
        with documented():
            read()
    with documented():
        openb.read_pods(path)


def body(path: Path) -> None:
    """The JSON body of a request, as the server reads it."""
    data = path.read_bytes()
    with documented():
        check_text(data)
    for model in BODIES:
        with documented():
            model.model_validate_json(data)


TARGETS: Final[dict[str, Callable[[Path], None]]] = {
    "import": script,
    "facts": facts,
    "gang": gang,
    "trace": trace,
    "tables": tables,
    "body": body,
}


@contextlib.contextmanager
def documented() -> Iterator[None]:
    """Passes over the documented answers to bad input; a GpupoolError without a public code is
    none."""
    try:
        yield
    except GpupoolError as error:
        if error.code == GpupoolError.code:
            raise
        str(error)
    except ValidationError as error:
        error.errors()


def once(target: str, data: bytes, folder: Path) -> None:
    """Give the bytes to the target as a file."""
    path = folder / "input"
    path.write_bytes(data)
    TARGETS[target](path)
