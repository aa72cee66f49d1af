"""Ways into jobs with the real programs: OpenSSH, JupyterLab, tar, two Unix accounts, and kills."""

from __future__ import annotations

import asyncio
import json
import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.pool_fixture import GPUPOOL, RealPool, Terminal
from tests.support.claims import claim_port
from tests.support.jupyter import Browser, find_jupyter
from tests.support.typed_commands import commands

pytestmark = [
    pytest.mark.hosts,
    pytest.mark.root,
    pytest.mark.skipif(os.geteuid() != 0, reason="jobs of two accounts need root"),
]
needs_ssh = pytest.mark.skipif(
    not (Path("/usr/sbin/sshd").exists() and shutil.which("sftp")),
    reason="openssh-server and openssh-client are not installed",
)
LISTEN = """
import os, socket, time
server = socket.socket(socket.AF_UNIX)
server.bind(os.environ["GPUPOOL_RUN"] + "/my.sock")
server.listen()
time.sleep(600)
"""
#: Prints the words of every process, as each user of the machine sees them.
LIST_WORDS = """
import subprocess
print(subprocess.run("cat /proc/[0-9]*/cmdline", shell=True, capture_output=True).stdout)
"""
PAGES = Path(__file__).parents[2] / "docs" / "how-to"
#: Accounts of the machine's Base group of ids, without files of their own.
OWNER = 64017
STRANGER = 64018
#: An account that the machine knows by name, as those of people are.
NOBODY = pwd.getpwnam("nobody").pw_uid
SERVE = """
import http.server, os, socket, sys
os.write(1, b"serving\\n")
http.server.test(http.server.SimpleHTTPRequestHandler, port=int(sys.argv[1]), bind="127.0.0.1")
"""


@pytest.fixture(scope="module")
def pool() -> Iterator[RealPool]:
    # Short, so that a socket's name fits below it, and open to other accounts.
    place = Path(tempfile.mkdtemp(prefix="gpw-"))
    place.chmod(0o755)
    with RealPool(place / "pool", "2xL40S") as made:
        yield made
    shutil.rmtree(place)


@pytest.fixture(scope="module")
def job(pool: RealPool) -> str:
    pool.do("submit", "--gpu", "0.2", "--name", "work", "--", "sleep", "600")
    pool.until_state("work", "running")
    return str(pool.job("work")["id"])


def as_account(uid: int, *words: str) -> list[str]:
    """Words of `gpupool` as another account; it keeps the right to read this Python's files."""
    identity = [f"--reuid={uid}", f"--regid={uid}", "--clear-groups"]
    readable = ["--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search"]
    return ["setpriv", *identity, *readable, *GPUPOOL, *words]


def run_as(pool: RealPool, uid: int, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        as_account(uid, *words),
        env={**pool.environ, "HOME": "/tmp"},
        cwd="/tmp",
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def list_sessions() -> list[str]:
    """List the session processes of this machine's pools below our directory."""
    found = subprocess.run(
        ["pgrep", "-f", "gpupool.agent.relay.session"], capture_output=True, text=True, check=False
    )
    return found.stdout.split()


def test_exec_runs_in_the_cgroup_and_environment_of_the_job(pool: RealPool, job: str) -> None:
    script = "cat; echo $GPUPOOL_JOB; grep pids /proc/self/cgroup; echo error >&2; exit 7"
    done = pool.run("exec", "work", "--", "sh", "-c", script, stdin=None, input="typed\n")
    assert done.returncode == 7, done.stderr
    lines = done.stdout.splitlines()
    assert lines[:2] == ["typed", job]
    assert lines[2].endswith(f"/{job}")
    assert done.stderr == "error\n"


@pytest.mark.parametrize(
    ("program", "code"),
    [(["nosuchprogram"], 127), (["/etc"], 126), (["sh", "-c", "kill -9 $$"], 137)],
)
def test_exec_ends_as_a_shell_would(
    pool: RealPool, job: str, program: list[str], code: int
) -> None:
    assert pool.run("exec", job, "--", *program).returncode == code


def test_exec_has_the_terminal_with_its_size_and_keys(pool: RealPool, job: str) -> None:
    with Terminal(rows=33, columns=99) as terminal:
        side = terminal.side
        process = pool.start("exec", job, "--", "sh", stdin=side, stdout=side, stderr=side)
        terminal.type(b"stty size; sleep 4710\n")
        terminal.until(b"33 99\r\n")
        pool.until(lambda: find_sleep("4710"), "the sleep has begun")
        terminal.type(b"\x03")
        terminal.type(b"echo $((40+2)); exit 5\n")
        terminal.until(b"42\r\n")
        assert terminal.until_ended(process) == 5


def test_exec_ends_its_program_when_the_command_is_killed(pool: RealPool, job: str) -> None:
    process = pool.start("exec", job, "--", "sh", "-c", "echo begun; sleep 4711; true")
    assert process.stdout is not None
    assert process.stdout.readline() == b"begun\n"
    process.kill()
    process.wait()
    process.stdout.close()
    pool.until(lambda: not find_sleep("4711") and not list_sessions(), "nothing of it is left")


def find_sleep(seconds: str) -> bool:
    done = subprocess.run(["pgrep", "-f", f"sleep {seconds}"], capture_output=True, check=False)
    return done.returncode == 0


def test_cp_takes_files_and_directories_both_ways(pool: RealPool, job: str, tmp_path: Path) -> None:
    source = tmp_path / "source"
    (source / "deep").mkdir(parents=True)
    (source / "deep" / "data").write_bytes(os.urandom(3_000_000))
    (source / "link").symlink_to("deep/data")
    there = tmp_path / "there"
    pool.do("cp", str(source), f"work:{there}")
    pool.do("cp", f"work:{there}", str(tmp_path / "back"))
    data = (source / "deep" / "data").read_bytes()
    assert (tmp_path / "back" / "deep" / "data").read_bytes() == data
    pool.do("cp", str(source / "deep" / "data"), f"work:{there}/deep/renamed")
    assert (there / "deep" / "renamed").read_bytes() == data
    assert pool.run("cp", f"work:{tmp_path}/nothing", str(tmp_path)).returncode != 0
    assert "one of the two" in pool.run("cp", "a", "b").stderr


def test_port_forward_reaches_a_loopback_port_of_the_jobs_user(pool: RealPool) -> None:
    port = claim_port()
    words = [sys.executable, "-c", SERVE, str(port)]
    pool.do("submit", "--gpu", "0.1", "--name", "web", "--", *words)
    pool.until_state("web", "running")
    relay = pool.start("port-forward", "web", f"0:{port}")
    try:
        assert relay.stdout is not None
        address = relay.stdout.readline().decode().split()[0]

        def ask() -> int:
            try:
                with urllib.request.urlopen(f"http://{address}/", timeout=5) as answer:
                    return int(answer.status)
            except OSError:
                return 0

        assert pool.until(ask, "an answer") == 200
    finally:
        relay.send_signal(signal.SIGINT)
        assert relay.wait(10) == 0
        relay.stdout.close()  # type: ignore[union-attr]
        relay.stderr.close()  # type: ignore[union-attr]
    pool.do("stop", "web", "--grace", "0")


@needs_ssh
def test_ssh_sftp_and_forwarding_work_through_the_config(
    pool: RealPool, job: str, tmp_path: Path
) -> None:
    config = tmp_path / "config"
    config.write_text(pool.do("ssh-config"))
    environ = pool.environ

    def ssh(*words: str, program: str = "ssh", **more: Any) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [program, "-F", str(config), *words],
            env=environ, capture_output=True, text=True, timeout=60, check=False, **more,
        )  # fmt: skip

    done = ssh("gpupool-work", "echo $GPUPOOL_JOB; grep pids /proc/self/cgroup; exit 3")
    assert done.returncode == 3, done.stderr
    assert done.stdout.split()[0] == job
    assert done.stdout.strip().endswith(f"/{job}")
    (tmp_path / "file").write_text("content")
    batch = f"put {tmp_path}/file {tmp_path}/up\nget {tmp_path}/up {tmp_path}/down\n"
    done = ssh("-b", "-", "gpupool-work", program="sftp", input=batch)
    assert (tmp_path / "down").read_text() == "content", done.stderr
    done = pool.run("ssh", "work", "--", "echo", "direct")
    assert done.stdout == "direct\n", done.stderr
    done = ssh("gpupool-nosuchjob", "true")
    assert "GP-3003" in done.stderr
    run_directory = pool.state_dir / "agent" / "jobs" / job / "run"
    pool.until(lambda: not any(run_directory.iterdir()), "the keys are gone")


def test_another_account_neither_enters_nor_connects(pool: RealPool, tmp_path: Path) -> None:
    program = LISTEN
    done = run_as(
        pool,
        OWNER,
        "submit",
        "--gpu",
        "0.1",
        "--name",
        "own",
        "--",
        "/usr/bin/python3",
        "-c",
        program,
    )
    assert done.returncode == 0, done.stderr
    job = done.stdout.strip()
    path = pool.state_dir / "agent" / "jobs" / job / "run" / "my.sock"
    pool.until(path.exists, "the socket of the job")
    assert path.parent.stat().st_mode & 0o777 == 0o700
    assert path.parent.stat().st_uid == OWNER
    done = run_as(pool, OWNER, "exec", job, "--", "id", "-u")
    assert done.stdout == f"{OWNER}\n", done.stderr
    for words in (
        ("exec", job, "--", "id"),
        ("port-forward", job, "0:80"),
        ("cp", f"{job}:x", "."),
    ):
        done = run_as(pool, STRANGER, *words)
        assert "GP-3002" in done.stderr, (words, done.stderr)
    connect = f"import socket; socket.socket(socket.AF_UNIX).connect({str(path)!r})"
    words = ["setpriv", f"--reuid={STRANGER}", f"--regid={STRANGER}", "--clear-groups"]
    refused = subprocess.run(
        [*words, "/usr/bin/python3", "-c", connect], capture_output=True, text=True, check=False
    )
    assert "PermissionError" in refused.stderr
    run_as(pool, OWNER, "stop", job, "--grace", "0")
    pool.until(lambda: not path.parent.exists(), "the run directory is gone")


def test_commands_of_the_page_work_in_their_order(
    pool: RealPool, notebook: str, tmp_path: Path
) -> None:
    (tmp_path / "data.csv").write_text("1,2\n")
    for words in commands(PAGES / "workspaces.md"):
        if words[0] == "ssh" and not shutil.which("sshd", path="/usr/sbin"):
            continue
        if "--vscode" in words or "--image" in words:
            continue  # tests below have them, with programs that this machine may lack
        if "nvidia-smi" in words:
            words[-1] = "true"  # this machine has no driver
        done = pool.run(*words, cwd=tmp_path)
        assert done.returncode == 0, (words, done.stderr)
        if words[0] == "submit":
            pool.until_state("train", "running")
        if words[0] == "notebook":
            assert ".localhost:" in done.stdout
    assert (tmp_path / "copy.csv").read_text() == "1,2\n"
    pool.do("stop", "train", "nb", "--grace", "0")


def browse(act: Callable[[Browser], Coroutine[Any, Any, None]]) -> None:
    async def within() -> None:
        async with Browser() as browser:
            await asyncio.wait_for(act(browser), 120)

    asyncio.run(within())


@pytest.fixture(scope="module")
def notebook(pool: RealPool) -> str:
    programs = find_jupyter()
    if not programs:
        pytest.skip("JupyterLab cannot be installed here")
    pool.environ["PATH"] = f"{programs}:{pool.environ['PATH']}"
    return str(pool.json("notebook", "--name", "lab")["url"])


def test_notebook_computes_in_a_browser_and_survives_the_server(
    pool: RealPool, notebook: str
) -> None:
    job = notebook.partition("/jobs/")[2].partition("/")[0]

    async def act(browser: Browser) -> None:
        answer = await browser.open(notebook)
        # The link works once; the service may still be starting.
        for _ in range(600):
            if answer.status == 200:
                break
            assert answer.status == 502, await answer.text()
            await asyncio.sleep(0.1)
            answer = await browser.ask("GET", "lab")
        assert "JupyterLab" in await answer.text()
        assert await browser.compute("print(6 * 7)") == "42\n"
        # Nothing of the login reaches the job, and the job sets no cookie.
        token = (pool.state_dir / "agent" / "jobs" / job / "run" / "nb.token").read_text()
        assert token not in await browser.compute(LIST_WORDS)
        # What other pages of this browser may not do.
        for headers in ({"Origin": "http://evil.localhost"}, {"Origin": "null"}):
            answer = await browser.ask("POST", "api/kernels", headers=headers)
            assert answer.status == 403
        host = {"Host": browser.origin.partition("//")[2].replace(job, "j-other")}
        assert (await browser.ask("GET", "lab", headers=host)).status == 404
        pool.do("restart")
        assert (await browser.ask("GET", "api/status")).status == 200
        os.kill(pool.server_pid(), signal.SIGKILL)
        pool.up()
        assert await browser.compute("print('again')") == "again\n"

    browse(act)

    async def act_as_stranger(browser: Browser) -> None:
        assert (await browser.open(notebook)).status == 401
        assert (await browser.ask("GET", "lab")).status == 401

    browse(act_as_stranger)
    run = pool.state_dir / "agent" / "jobs" / job / "run"
    pool.do("stop", "lab", "--grace", "0")
    pool.until(lambda: not run.exists(), "its token is gone")
    refused = pool.run("notebook", "--open", "lab")
    assert "GP-2007" in refused.stderr


def test_a_browser_of_an_account_runs_jobs_as_that_account(pool: RealPool) -> None:
    """The console's port of a pool on a Unix socket, with the link that the account made itself."""
    done = run_as(pool, NOBODY, "console", "-o", "json")
    assert done.returncode == 0, done.stderr
    link = json.loads(done.stdout)
    seal = {"Origin": link["address"], "X-Gpupool": "1"}
    name = "as-its-owner"
    launch = {"argv": ["/usr/bin/id", "-u"], "env": {"PATH": "/usr/bin:/bin"}}
    job = {"shape": {"gpu_milli": 100}, "launch": launch, "name": name}

    async def act(browser: Browser) -> None:
        login = {"token": link["url"].partition("#token=")[2]}
        answer = await browser.session.post(f"{link['address']}/login", json=login, headers=seal)
        assert answer.status == 204, await answer.text()
        cookie = {"Cookie": answer.headers["Set-Cookie"].partition(";")[0]}
        address = f"{link['address']}/api/v1/jobs"
        answer = await browser.session.post(address, json=job, headers=seal | cookie)
        assert answer.status == 201, await answer.text()

    browse(act)
    pool.until_state(name, "done")
    assert pool.do("logs", name) == f"{NOBODY}\n"


def test_notebook_without_its_program_is_refused_before_it_is_submitted(pool: RealPool) -> None:
    bare = {"PATH": "/usr/bin:/bin"}
    for words, command in (((), "pip install jupyterlab"), (("--vscode",), "npm install")):
        refused = pool.run("notebook", *words, "--name", "none", environ=bare)
        assert refused.returncode == 3, refused.stderr
        assert "GP-2210" in refused.stderr
        assert command in refused.stderr
    assert "none" not in [job["name"] for job in pool.json("ps", "--all")]


#: Takes the options of code-server 4, and answers with the path that it was asked for.
CODE_SERVER = """\
#!{python}
import argparse, http.server, os, socketserver
parser = argparse.ArgumentParser()
for option in ("--socket", "--socket-mode", "--auth"):
    parser.add_argument(option, required=True)
for option in ("--disable-telemetry", "--disable-update-check"):
    parser.add_argument(option, action="store_true", required=True)
parser.add_argument("folder")
options = parser.parse_args()
class Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = f"{{options.folder}} {{self.path}}".encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def address_string(self):
        return "relay"
socketserver.UnixStreamServer(options.socket, Answer).serve_forever()
"""


def test_vscode_is_served_at_its_root(pool: RealPool, tmp_path: Path) -> None:
    program = tmp_path / "code-server"
    program.write_text(CODE_SERVER.format(python=sys.executable))
    program.chmod(0o755)
    environ = {"PATH": f"{tmp_path}:/usr/bin:/bin"}
    words = ("notebook", "--vscode", "--dir", str(tmp_path), "-o", "json")
    started = pool.run(*words, environ=environ)
    assert started.returncode == 0, started.stderr
    link = json.loads(started.stdout)["url"]

    async def act(browser: Browser) -> None:
        answer = await browser.open(link)
        while answer.status == 502:
            await asyncio.sleep(0.1)
            answer = await browser.ask("GET", "")
        assert await answer.text() == f"{tmp_path} /"
        answer = await browser.ask("GET", "static/a%20b?x=1")
        assert await answer.text() == f"{tmp_path} /static/a%20b?x=1"

    browse(act)
    pool.do("stop", "vscode-1", "--grace", "0")


def test_programs_end_with_a_killed_server_and_jobs_do_not(pool: RealPool, job: str) -> None:
    process = pool.start("exec", job, "--", "sh", "-c", "echo begun; sleep 4712; true")
    assert process.stdout is not None
    assert process.stdout.readline() == b"begun\n"
    os.kill(pool.server_pid(), signal.SIGKILL)
    assert process.wait(30) != 0
    process.stdout.close()
    pool.until(lambda: not find_sleep("4712") and not list_sessions(), "nothing of it is left")
    pool.up()
    assert pool.run("exec", job, "--", "true").returncode == 0


def test_programs_end_with_their_job(pool: RealPool) -> None:
    pool.do("submit", "--gpu", "0.1", "--name", "short", "--", "sleep", "600")
    pool.until_state("short", "running")
    process = pool.start("exec", "short", "--", "sh", "-c", "echo begun; sleep 4713; true")
    assert process.stdout is not None
    assert process.stdout.readline() == b"begun\n"
    pool.do("stop", "short", "--grace", "0")
    assert process.wait(30) != 0
    process.stdout.close()
    pool.until(lambda: not find_sleep("4713") and not list_sessions(), "nothing of it is left")
    assert "GP-2007" in pool.run("exec", "short", "--", "true").stderr


def test_streams_reach_jobs_of_an_agent_over_tcp(tmp_path: Path) -> None:
    far = RealPool(tmp_path / "pool", "1xL40S")
    port = claim_port()
    url = f"http://127.0.0.1:{port}"
    words = ["--state-dir", str(far.state_dir), "--sim", far.sim, "--no-agent"]
    server = start_module("host", far, *words, "--listen", f"127.0.0.1:{port}")
    agent: subprocess.Popen[bytes] | None = None
    try:
        far.until(lambda: far.run("whoami").returncode == 0, "the server answers")
        far.do("user", "add", "node-agent", "--role", "agent")
        token = far.do("token", "create", "--user", "node-agent").strip()
        far.do("user", "add", "ada", "--run-as", "nobody")
        person = {
            "GPUPOOL_URL": url,
            "GPUPOOL_TOKEN": far.do("token", "create", "--user", "ada").strip(),
        }
        del far.environ["GPUPOOL_STATE_DIR"]
        far.environ |= person
        place = ["--work-dir", str(tmp_path / "work"), "--name", "far", "--sim", far.sim]
        agent = start_module("agent", far, "--url", url, *place, token=token)
        far.until(
            lambda: far.run("submit", "--name", "j", "--", "sleep", "600").returncode == 0, "cards"
        )
        far.until_state("j", "running")
        far.until(lambda: far.run("exec", "j", "--", "true").returncode == 0, "a stream")
        data = os.urandom(5_000_000)
        done = far.run("exec", "j", "--", "cat", stdin=None, input=data, text=False)
        assert done.stdout == data
        agent.kill()
        agent.wait()
        assert "not connected" in far.until(lambda: far.run("exec", "j", "--", "true").stderr, "no")
        agent = start_module("agent", far, "--url", url, *place, token=token)
        far.until(lambda: far.run("exec", "j", "--", "true").returncode == 0, "the agent is back")
        far.do("stop", "j", "--grace", "0")
        far.until_state("j", "stopped")
    finally:
        for process in (agent, server):
            if process is not None:
                process.terminate()
                process.wait(30)


def start_module(
    name: str, pool: RealPool, *words: str, token: str | None = None
) -> subprocess.Popen[bytes]:
    environ = pool.environ if token is None else {**pool.environ, "GPUPOOL_TOKEN": token}
    return subprocess.Popen(
        [sys.executable, "-m", f"gpupool.{name}", *words],
        env=environ,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
