"""The configuration of one sshd, and what is left of it."""

from __future__ import annotations

import os
import shutil
import socket
from pathlib import Path

import pytest

from gpupool.agent.relay.login_session import LoginSession, make_settings
from tests.support.deep_trees import few_frames, make_deep_tree


def test_make_settings_passes_the_environment_of_the_job() -> None:
    environment = {
        "PATH": "/a b:/c",
        "HOME": "/home/ada",
        "QUOTED": 'x"y',
        "LINES": "a\nb",
        "GPUPOOL_JOB": "j-1",
    }
    lines = make_settings(Path("/r/host_key"), Path("/r/keys"), environment).splitlines()
    # A value that the format cannot quote is left out, as what sshd sets itself.
    assert lines[-1] == 'SetEnv "PATH=/a b:/c" "GPUPOOL_JOB=j-1"'
    assert 'AuthorizedKeysFile "/r/keys"' in lines
    assert "PasswordAuthentication no" in lines
    assert "SetEnv" not in make_settings(Path("/k"), Path("/a"), {"HOME": "/"})


@pytest.mark.skipif(shutil.which("ssh-keygen") is None, reason="makes the keys of a session")
def test_a_session_ends_also_with_a_deep_tree_of_its_job(tmp_path: Path) -> None:
    request = {"run_directory": tmp_path, "cgroups": ["own"], "public_key": "", "environment": {}}
    ours, theirs = socket.socketpair()
    command, running = os.pipe()
    session = LoginSession(request, theirs, command, "/bin/true")
    make_deep_tree(next(tmp_path.iterdir()))
    with few_frames():
        session.run()
    assert list(tmp_path.iterdir()) == []
    ours.close()
    os.close(command)
    os.close(running)
