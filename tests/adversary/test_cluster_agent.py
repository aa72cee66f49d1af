"""The agent of a cluster's node whose disk hangs: `/healthz` names what hangs, and its process
begins anew."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.supervised import until

pytestmark = pytest.mark.adversary

#: A round may take 0.6 s instead of 60 s, and 2.4 s more until the process begins anew.
PATIENCE = "0.01"
KUBECONFIG = """
current-context: here
contexts: [{name: here, context: {cluster: none, user: nobody}}]
clusters: [{name: none, cluster: {server: "http://127.0.0.1:1"}}]
users: [{name: nobody, user: {}}]
"""


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """An agent whose disk never answers when it reads what the one before it has prepared."""
    note = tmp_path / "state" / "prepared" / "pod-1.main" / "note.json"
    note.parent.mkdir(parents=True)
    os.mkfifo(note)
    (tmp_path / "kubeconfig").write_text(KUBECONFIG)
    words = [
        "--kubeconfig",
        str(tmp_path / "kubeconfig"),
        "agent",
        "--sim",
        "1xL40S",
        "--node",
        "n0",
    ]
    for option, place in (
        ("--state-dir", "state"),
        ("--socket", "run/agent.sock"),
        ("--cdi", "cdi"),
    ):
        words += [option, str(tmp_path / place)]
    environ = {**os.environ, "GPUPOOL_FAULTS_ALLOWED": "1", "GPUPOOL_PATIENCE": PATIENCE}
    with (tmp_path / "log").open("wb") as log:
        command = [sys.executable, "-m", "gpupool.kubernetes", *words]
        process = subprocess.Popen(command, env=environ, stdout=log, stderr=log)
    yield process
    process.kill()
    process.wait()


def answer(log: Path, path: str) -> str:
    """Of the process as it is now: each time that it begins it listens elsewhere."""
    addresses = re.findall(r"metrics at (http://[^/]+)/", log.read_text())
    if not addresses:
        return ""
    try:
        with urllib.request.urlopen(f"{addresses[-1]}/{path}") as found:
            return str(found.read().decode())
    except urllib.error.HTTPError as error:
        return str(error.read().decode()) if error.code == 503 else ""
    except OSError:  # it is beginning anew
        return ""


def test_an_agent_whose_disk_hangs_says_so_and_begins_anew(
    agent: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    log = tmp_path / "log"
    until(lambda: "agent-start silent since" in answer(log, "healthz"), "/healthz")
    until(
        lambda: "agent-start cannot go on: the process begins anew" in log.read_text(),
        "its beginning anew",
    )
    until(lambda: log.read_text().count("metrics at") > 1, "the process after it")
    assert agent.poll() is None
