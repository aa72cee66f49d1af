"""`gpupool cp`: copy files and directories to and from running jobs."""

from __future__ import annotations

import argparse
import os
import tarfile
import threading
from collections.abc import Callable
from pathlib import Path, PurePosixPath
from typing import IO, Final

from gpupool.base.errors import BadInput, WrongState
from gpupool.client.streams.job_stream import open_stream
from gpupool.client.streams.remote_program import RemoteProgram
from gpupool.terminal.context import CommandContext
from gpupool.terminal.parser import CommandParser
from gpupool.terminal.references import quote_segment

#: Bytes that tarfile moves at once.
_BLOCK: Final = 1 << 20
#: In the job, with the target and the name in the archive: unpacks what comes into a directory that
#: is there, else puts it in the target's place. Whatever ends it, it leaves nothing half unpacked.
SEND_SCRIPT: Final = """\
if [ -z "$1" ] || [ -d "$1" ]; then exec tar -xf - -C "${1:-.}"; fi
t=
trap '[ -z "$t" ] || rm -rf -- "$t"' EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 131' QUIT
trap 'exit 143' TERM
d=$(dirname -- "$1") && mkdir -p -- "$d" && t=$(mktemp -d -- "$d/.gpupool-cp.XXXXXX") || exit
tar -xf - -C "$t" && mv -T -- "$t/$2" "$1"
"""
#: In the job, with a directory and a name in it: packs what it names. A link that is asked for is
#: followed, as `cp` does; links below a directory stay links.
FETCH_SCRIPT: Final = """\
cd -- "$1" || exit
if [ ! -L "$2" ]; then exec tar -cf - -- "$2"; fi
if [ -d "$2" ]; then exec tar -cf - -- "$2/."; fi
exec tar -chf - -- "$2"
"""


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
    name = find_name(source)
    argv = ["sh", "-c", SEND_SCRIPT, "gpupool-cp", target, name]

    def write(descriptor: int) -> None:
        with os.fdopen(descriptor, "wb") as file:
            pack(source, file, name)

    return _run_beside(context, job, argv, write, is_input=True)


def find_name(source: Path) -> str:
    """Return the name under which a source is sent: as it was written, where it has one."""
    return source.resolve().name if source.name in ("", "..") else source.name


def pack(source: Path, file: IO[bytes], name: str) -> None:
    """Pack a file or a directory; a link that is named is followed, as `cp` does."""
    with tarfile.open(fileobj=file, mode="w|", bufsize=_BLOCK) as archive:
        archive.add(source.resolve(), arcname=name, filter=_forget_owner)


def _fetch(context: CommandContext, job: str, source: str, target: Path) -> int:
    """Fetch a file or a directory out of a job."""
    path = PurePosixPath(source or ".")
    parent = path.parent
    name = path.name or "."
    if name == "..":
        # Packed as `..`, its name would be cut off by tar.
        parent = path
        name = "."
    into = target.is_dir()
    place = target if into else target.parent
    if not place.is_dir():
        raise BadInput(f"{place} is no directory", hint=f"mkdir -p {place}")
    argv = ["sh", "-c", FETCH_SCRIPT, "gpupool-cp", str(parent), name]

    def read(descriptor: int) -> None:
        with os.fdopen(descriptor, "rb") as file:
            unpack(file, place, name, name if into else target.name)

    return _run_beside(context, job, argv, read, is_input=False)


def unpack(file: IO[bytes], place: Path, before: str, after: str) -> None:
    """Unpack what a job has packed, below another name.

    Raises:
        WrongState: it holds something that was not asked for.
        OSError, TarError: it is broken, or cannot be unpacked here.
    """
    with tarfile.open(fileobj=file, mode="r|", bufsize=_BLOCK) as archive:
        for member in archive:
            # What the job sends is the job's: nothing that was not asked for, nothing leaves the
            # target, no devices, no links outside (PEP 706).
            archive.extract(_rename(member, before, after), place, filter="data")
    # The padding behind the archive's end (tar(5)): unread, it would be an error of the job's tar.
    while file.read(_BLOCK):
        continue


def _rename(member: tarfile.TarInfo, before: str, after: str) -> tarfile.TarInfo:
    """Return a member whose first part has another name."""
    name = _replace_first(member.name, before, after)
    link = _replace_first(member.linkname, before, after) if member.islnk() else member.linkname
    return member.replace(name=name, linkname=link, deep=False)


def _replace_first(name: str, before: str, after: str) -> str:
    inner = name.removeprefix("./")
    if before == ".":
        return after if inner == "." else f"{after}/{inner}"
    first, slash, rest = inner.partition("/")
    if first != before:
        raise WrongState(f"the job sent {name[:80]!r}, which was not asked for")
    return f"{after}{slash}{rest}"


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
