"""The configuration of one sshd."""

from __future__ import annotations

from pathlib import Path

from gpupool.agent.relay.login_session import make_settings


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
