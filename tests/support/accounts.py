"""Being another Unix account for one call: a child that becomes it, and tells what came of it."""

from __future__ import annotations

import json
import os
import resource
import tempfile
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from gpupool.base.errors import GpupoolError, from_code
from gpupool.client.sdk import Pool
from gpupool.wire import common, fleet, jobs, people, report

_READ_BEFORE = (common, fleet, jobs, people, report, resource, Pool)
"""Imported while we are root: another account may not be able to read this Python's library."""


def acting_as(uid: int, act: Callable[[], object]) -> object:
    """What `act` returns in a process of that account (JSON); an error of ours is raised again
    here."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read)
        _be(uid, act, write)
    os.close(write)
    with os.fdopen(read) as said:
        answer = json.load(said)
    os.waitpid(child, 0)
    if "code" in answer:
        raise from_code(answer["code"], answer["message"], answer["hint"])
    assert "value" in answer, answer["traceback"]
    return answer["value"]


def _be(uid: int, act: Callable[[], object], write: int) -> None:
    """In the child: become the account, act, tell, and end without any of the test runner's own
    endings."""
    try:
        os.setgroups([uid, 60000])
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)
        os.chdir("/tmp")
        answer: dict[str, object] = {"value": act()}
    except GpupoolError as error:
        answer = {"code": error.code, "message": error.message, "hint": error.hint}
    except BaseException:  # noqa: BLE001  whatever it is, the parent is told and this process ends
        answer = {"traceback": traceback.format_exc()}
    os.write(write, json.dumps(answer).encode())
    os._exit(0)


@contextmanager
def open_directory() -> Iterator[Path]:
    """A new directory that every account may enter; those of pytest are closed to others, also
    while a test runs."""
    with tempfile.TemporaryDirectory(prefix="gpupool-accounts-") as name:
        os.chmod(name, 0o755)
        yield Path(name)
