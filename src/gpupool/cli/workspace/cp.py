"""`gpupool cp`: copy files and directories to and from running jobs."""

from __future__ import annotations

import argparse
import os
import tarfile
import threading
from collections.abc import Callable
from pathlib import Path, PurePosixPath
from typing import Final

from gpupool.base.errors import BadInput, WrongState
from gpupool.client.streams.job_stream import open_stream
from gpupool.client.streams.remote_program import RemoteProgram
from gpupool.terminal.context import CommandContext
from gpupool.terminal.parser import CommandParser
from gpupool.terminal.references import quote_segment

#: Bytes that tarfile moves at once.
_BLOCK: Final = 1 << 20


def register(parser: CommandParser) -> None:
    parser.about = """
    One of the two is in a job: JOB:PATH. A path that does not begin with / is below the job's directory. A directory
    is copied with all that is in it. Files get the rights of the original and belong to the job's user, or to you. The
    job's machine needs tar.
    """
    parser.examples = [
        "gpupool cp data.csv train:",
        "gpupool cp train:runs/7/model.pt .",
        "gpupool cp src train:/home/ada/src",
    ]
    parser.add_argument("source", metavar="SOURCE", help="PATH, or JOB:PATH")
    parser.add_argument(
        "target", metavar="TARGET", help="PATH, or JOB:PATH; a directory that is there takes it"
    )


def run(options: argparse.Namespace, context: CommandContext) -> int:
    source_job, source = split_place(options.source)
    target_job, target = split_place(options.target)
    if (source_job is None) == (target_job is None):
        raise BadInput(
            "one of the two must be in a job", hint="gpupool cp FILE JOB:PATH, or JOB:PATH FILE"
        )
    if target_job is not None:
        return _send(context, Path(source), target_job, target)
    assert source_job is not None
    return _fetch(context, source_job, source, Path(target))


def split_place(text: str) -> tuple[str | None, str]:
    """Split `JOB:PATH`; a text with a slash before its first colon is a path of this machine."""
    job, colon, path = text.partition(":")
    if not colon or "/" in job or not job:
        return None, text
    quote_segment(job, "job")
    return job, path


def _send(context: CommandContext, source: Path, job: str, target: str) -> int:
    """Send a file or a directory into a job."""
    if not source.exists():
        raise BadInput(f"{source} is not there", hint="ls")
    name = source.resolve().name
    script = (
        # Into a directory that is there under its own name, else under the last part of the path.
        'if [ -z "$1" ] || [ -d "$1" ]; then exec tar -xf - -C "${1:-.}"; fi; '
        'd=$(dirname -- "$1") && mkdir -p -- "$d" && t=$(mktemp -d -- "$d/.gpupool-cp.XXXXXX") && '
        'tar -xf - -C "$t" && mv -T -- "$t/$2" "$1"; s=$?; rm -rf -- "$t"; exit $s'
    )
    argv = ["sh", "-c", script, "gpupool-cp", target, name]

    def write(descriptor: int) -> None:
        with (
            os.fdopen(descriptor, "wb") as file,
            tarfile.open(fileobj=file, mode="w|", bufsize=_BLOCK) as archive,
        ):
            archive.add(source, arcname=name, filter=_forget_owner)

    return _run_beside(context, job, argv, write, is_input=True)


def _fetch(context: CommandContext, job: str, source: str, target: Path) -> int:
    """Fetch a file or a directory out of a job."""
    path = PurePosixPath(source or ".")
    name = path.name or "."
    into = target.is_dir()
    place = target if into else target.parent
    if not place.is_dir():
        raise BadInput(f"{place} is no directory", hint=f"mkdir -p {place}")
    argv = ["tar", "-cf", "-", "-C", str(path.parent), "--", name]

    def read(descriptor: int) -> None:
        with (
            os.fdopen(descriptor, "rb") as file,
            tarfile.open(fileobj=file, mode="r|", bufsize=_BLOCK) as archive,
        ):
            for member in archive:
                if not into and name != ".":
                    member = _rename(member, name, target.name)
                # What the job sends is the job's: nothing leaves the target, no devices, no links
                # outside (PEP 706).
                archive.extract(member, place, filter="data")

    return _run_beside(context, job, argv, read, is_input=False)


def _rename(member: tarfile.TarInfo, before: str, after: str) -> tarfile.TarInfo:
    """Return a member whose first part has another name."""
    first, slash, rest = member.name.removeprefix("./").partition("/")
    if first != before:
        raise WrongState(f"the job sent {member.name[:80]!r}, which was not asked for")
    return member.replace(name=f"{after}{slash}{rest}", deep=False)


def _forget_owner(member: tarfile.TarInfo) -> tarfile.TarInfo:
    """Name no owner: it is the job's user, and numbers of this machine mean another one there."""
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    return member


def _run_beside(
    context: CommandContext,
    job: str,
    argv: list[str],
    move: Callable[[int], None],
    *,
    is_input: bool,
) -> int:
    """Run a program in a job whose input or output is moved by a thread of this process."""
    read, write = os.pipe()
    failures: list[BaseException] = []

    def move_all() -> None:
        try:
            move(write if is_input else read)
        except (OSError, tarfile.TarError, WrongState) as error:
            failures.append(error)

    stream = open_stream(context.api, job, {"kind": "exec", "argv": argv})
    mover = threading.Thread(target=move_all, daemon=True)
    mover.start()
    streams = (read, 2, 2) if is_input else (-1, write, 2)
    try:
        code = RemoteProgram(stream, streams, has_terminal=False).run()
    except BrokenPipeError:
        code = 1
    finally:
        stream.close()
        os.close(read if is_input else write)
    mover.join()
    if failures:
        raise WrongState(f"not all was copied: {failures[0]}", hint="copy it again")
    return code
