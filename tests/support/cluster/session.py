"""A rig for as long as a test session or a bench lasts. When its owner dies, by kill -9 too, a
guard takes it down."""

import itertools
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.cluster.build import Report, build
from tests.support.cluster.cluster import Cluster
from tests.support.cluster.control import Settings
from tests.support.cluster.directory import LOCK
from tests.support.cluster.processes import started

PREFIX = "gpupool-cluster-of-"
ROOT = Path(__file__).parents[3]

_numbers = itertools.count(1)


@contextmanager
def session_cluster(report: Report, settings: Settings | None = None) -> Iterator[Cluster]:
    """A control plane that is up; down on leaving. Builds it where it was not."""
    sweep()
    directory = session_directory()
    cluster = Cluster(directory, build(report), settings)
    with guarded(directory):
        try:
            cluster.up(report)
            yield cluster
        finally:
            cluster.down()


def session_directory() -> Path:
    """A new name that tells this process from all others, also from a later one with its number."""
    owner = os.getpid()
    return Path(tempfile.gettempdir()) / f"{PREFIX}{owner}-{started(owner)}-{next(_numbers)}"


@contextmanager
def guarded(directory: Path) -> Iterator[None]:
    """A process that waits for our end at a pipe, and then takes the directory's rig down."""
    command = [sys.executable, "-m", "tests.support.cluster", "guard", "--dir", str(directory)]
    guard = subprocess.Popen(command, stdin=subprocess.PIPE, cwd=ROOT, start_new_session=True)
    try:
        yield
    finally:
        guard.communicate()


def sweep() -> None:
    """Take down what sessions left whose guard was killed as well: the name says whose it was."""
    for left in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        pid, start, *_ = left.name.removeprefix(PREFIX).split("-")
        if left.stat().st_uid == os.geteuid() and str(started(int(pid))) != start:
            (
                left / LOCK
            ).touch()  # the name says that it is ours, also where a last word was written after its end
            Cluster(left).down()
