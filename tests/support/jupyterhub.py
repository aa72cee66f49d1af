"""A real JupyterHub with its proxy in an environment of its own, and a hub that a test starts."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.support.claims import claim_port
from tests.support.jupyter import VERSION as LAB_VERSION
from tests.support.jupyter import install_packages

ROOT = Path(__file__).parents[2]
#: As tried.
VERSION = "6.1.1"
PROXY_VERSION = "5.3.0"
_PLACE = ROOT / ".tools" / "jupyterhub"
_PROXY = _PLACE / "node" / "node_modules" / ".bin" / "configurable-http-proxy"
#: Until a server of the hub answers: a job's start, and Jupyter's.
SECONDS = 120
TOKEN = "of-the-test-alone"
CONFIG = """\
c.JupyterHub.bind_url = {url!r}
c.JupyterHub.hub_port = {hub_port}
c.JupyterHub.db_url = "sqlite:///hub.sqlite"
c.JupyterHub.cookie_secret_file = "cookie"
c.JupyterHub.authenticator_class = "dummy"
c.Authenticator.allow_all = True
c.JupyterHub.cleanup_servers = False
c.JupyterHub.services = [{{"name": "test", "api_token": {token!r}}}]
c.JupyterHub.load_roles = [
    {{
        "name": "test",
        "services": ["test"],
        "scopes": ["admin:users", "admin:servers", "access:servers"],
    }}
]
c.ConfigurableHTTPProxy.command = [{proxy!r}]
c.ConfigurableHTTPProxy.api_url = "http://127.0.0.1:{proxy_port}"
c.ConfigurableHTTPProxy.pid_file = "proxy.pid"
c.ConfigurableHTTPProxy.should_start = True
c.JupyterHub.spawner_class = "gpupool_jupyterhub.spawner.GpupoolSpawner"
c.GpupoolSpawner.state_dir = {state_dir!r}
c.GpupoolSpawner.most_gpu = "0.5"
c.Spawner.http_timeout = {seconds}
c.Spawner.start_timeout = {seconds}
"""


def find_jupyterhub() -> str:
    """Return the directory of the programs of JupyterHub, installed at first; empty: it cannot be
    had."""
    programs = _PLACE / "bin"
    try:
        if not (programs / "jupyterhub-singleuser").exists():
            wanted = [f"jupyterhub=={VERSION}", f"jupyterlab=={LAB_VERSION}"]
            install_packages(_PLACE, *wanted)
        if not _PROXY.exists():
            node = _find_node()
            npm = node / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
            wanted = ["--prefix", str(_PLACE / "node"), f"configurable-http-proxy@{PROXY_VERSION}"]
            words = [str(node / "bin" / "node"), str(npm), "install", "--no-audit", *wanted]
            subprocess.run(words, check=True, timeout=120, capture_output=True)
    except (OSError, subprocess.SubprocessError):
        return ""
    return str(programs)


def _find_node() -> Path:
    words = [sys.executable, str(ROOT / "tools" / "get_node.py"), "--cached"]
    found = subprocess.run(words, check=True, capture_output=True, text=True)
    return Path(found.stdout.strip())


class RunningHub:
    """A hub in a directory of its own, whose spawner uses a pool of this machine."""

    def __init__(self, directory: Path, state_dir: Path, environ: Mapping[str, str]) -> None:
        self.directory = directory
        self.url = f"http://127.0.0.1:{claim_port()}"
        programs = find_jupyterhub()
        paths = [str(ROOT / "src"), str(ROOT / "packages" / "gpupool-jupyterhub")]
        folders = [programs, str(_find_node() / "bin"), environ["PATH"]]
        self._environ = {
            **environ,
            "PATH": os.pathsep.join(folders),
            "PYTHONPATH": os.pathsep.join(paths),
            "CONFIGPROXY_AUTH_TOKEN": TOKEN,
        }
        self._words = [f"{programs}/jupyterhub", "-f", "config.py"]
        config = CONFIG.format(
            url=self.url,
            hub_port=claim_port(),
            proxy_port=claim_port(),
            proxy=str(_PROXY),
            token=TOKEN,
            state_dir=str(state_dir),
            seconds=SECONDS,
        )
        directory.mkdir()
        (directory / "config.py").write_text(config)
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start the hub and wait until it answers."""
        with (self.directory / "log").open("ab") as log:
            self._process = subprocess.Popen(
                self._words, cwd=self.directory, env=self._environ, stdout=log, stderr=log
            )
        self.until(lambda: self.ask("GET", "/hub/api/users")[0] == 200, "the hub answers")

    def kill(self) -> None:
        """End the hub as a crash does; its proxy goes on."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def close(self) -> None:
        """End the hub and its proxy."""
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()
            self._process.wait(60)
        file = self.directory / "proxy.pid"
        if file.exists():
            os.kill(int(file.read_text()), signal.SIGTERM)

    def ask(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        """Send a request with the test's token; 0: nothing answers."""
        request = urllib.request.Request(
            self.url + path,
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Authorization": f"token {TOKEN}", "Content-Type": "application/json"},
        )
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                text = answer.read()
                return int(answer.status), json.loads(text) if text else None
        except urllib.error.HTTPError as error:
            return int(error.code), error.read().decode("utf-8", "replace")
        except (OSError, ValueError):
            return 0, None

    def until(self, condition: Any, what: str) -> Any:
        """Wait until a condition holds."""
        deadline = time.monotonic() + SECONDS
        while time.monotonic() < deadline:
            found = condition()
            if found:
                return found
            time.sleep(0.2)
        raise AssertionError(f"never became true: {what}\n{self.read_log()}")

    def read_log(self) -> str:
        return (self.directory / "log").read_text()[-6000:]
