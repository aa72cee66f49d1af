"""An account without inotify instances is told so with the limit, not with the kernel's words."""

from __future__ import annotations

import os
import select
import subprocess
import sys
from pathlib import Path

import pytest

from gpupool.base.inotify import open_inotify, watch_path

CREATED = 0x100


def test_a_watched_directory_makes_the_descriptor_readable(tmp_path: Path) -> None:
    descriptor = open_inotify()
    try:
        watch_path(descriptor, tmp_path, CREATED)
        assert select.select([descriptor], [], [], 0)[0] == []
        (tmp_path / "new").touch()
        assert select.select([descriptor], [], [], 5)[0] == [descriptor]
        with pytest.raises(FileNotFoundError, match=r"cannot watch .*/none: No such file"):
            watch_path(descriptor, tmp_path / "none", CREATED)
    finally:
        os.close(descriptor)


def test_a_process_without_descriptors_names_the_limit() -> None:
    script = """
import resource
from gpupool.base.inotify import open_inotify
resource.setrlimit(resource.RLIMIT_NOFILE, (20, 20))
try:
    while True:
        open_inotify()
except OSError as error:
    resource.setrlimit(resource.RLIMIT_NOFILE, (20, 20))
    print(error.errno, error.strerror)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert "fs.inotify.max_user_instances" in done.stdout, done.stderr
