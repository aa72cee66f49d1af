"""Jobs that serve HTTP and clients that ask them, for tests of load balancers."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

from gpupool.agent.network.daemons import NAMESPACES, locate_engine
from tests.e2e.pool_fixture import RealPool

#: Answers with its name, or its address, and what it was asked. `/slow` takes 0.5 s, `/stream` sends a
#: line each 0.1 s for 4 s, `/deaf` lets it take no more connections.
SERVE = """
import http.server, json, socket, sys, time
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_GET(self):
        if self.path == "/stream":
            self.send_response(200)
            self.send_header("Connection", "close")
            self.end_headers()
            for number in range(40):
                self.wfile.write(b"%d\\n" % number)
                self.wfile.flush()
                time.sleep(0.1)
            self.close_connection = True
            return
        if self.path == "/slow":
            time.sleep(0.5)
        body = json.dumps({"name": name, "path": self.path,
            "headers": {name.lower(): value for name, value in self.headers.items()}}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
        if self.path == "/deaf":
            self.close_connection = True
            server.socket.close()
    def log_message(self, *words):
        pass
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as own:
    own.connect(("10.0.0.1", 9))
    name = sys.argv[2] if sys.argv[2:] else own.getsockname()[0]
# As servers of HTTP have it: with the library's 5, connections of a load are refused.
http.server.ThreadingHTTPServer.request_queue_size = 128
server = http.server.ThreadingHTTPServer(("", int(sys.argv[1])), Handler)
try:
    server.serve_forever()
except (OSError, ValueError):
    pass
time.sleep(600)
"""

#: Asks a URL from so many threads until its input ends, or so often; prints the answers by name,
#: the failures, and the longest time without an answer.
LOAD = """
import collections, http.client, json, sys, threading, time
address, path, threads, most = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
names, failures, lock = collections.Counter(), [], threading.Lock()
ended = threading.Event()
answers = []
left = iter(range(most))
def ask():
    while not ended.is_set():
        with lock:
            if next(left, None) is None:
                return
        try:
            connection = http.client.HTTPConnection(address, timeout=5)
            connection.request("GET", path)
            answer = connection.getresponse()
            body = answer.read()
            connection.close()
            assert answer.status == 200, answer.status
            with lock:
                if not names:
                    answers[:] = [time.monotonic()]
                    print("answered", flush=True)
                names[json.loads(body)["name"]] += 1
                answers.append(time.monotonic())
        except Exception as error:
            with lock:
                failures.append(repr(error))
workers = [threading.Thread(target=ask) for _ in range(threads)]
[one.start() for one in workers]
if most >= 10**9:
    sys.stdin.read()
    ended.set()
[one.join() for one in workers]
gap = max((later - one for one, later in zip(answers, answers[1:])), default=0.0)
print(json.dumps({"names": names, "failures": failures, "gap": gap}))
"""

#: Asks an address so often, from 20 source ports again and again; prints the failures. Each
#: connection is reset at its end, so that its port may be used at once.
REUSE = """
import json, socket, struct, sys
failures = []
for number in range(int(sys.argv[2])):
    with socket.socket() as line:
        line.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        line.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        line.settimeout(5)
        try:
            line.bind(("", 20000 + number % 20))  # none that the kernel gives away
            line.connect((sys.argv[1], int(sys.argv[3])))
            line.sendall(b"GET / HTTP/1.1\\r\\nHost: a\\r\\n\\r\\n")
            if not line.recv(64).startswith(b"HTTP/1.1 200"):
                failures.append("no answer")
        except OSError as error:
            failures.append(repr(error))
    if len(failures) > 3:
        break
print(json.dumps(failures))
"""


ENDLESS = 10**9


class Load:
    """Requests that are made until the end of the block; then what came of them is there.

    `gap` is the longest time without an answer, in seconds.
    """

    def __init__(self, command: list[str]) -> None:
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True)
        self.names: dict[str, int] = {}
        self.failures: list[str] = []
        self.gap = 0.0

    def __enter__(self) -> Load:
        return self

    def __exit__(self, *_: object) -> None:
        self.finish()

    def wait_for_answer(self) -> None:
        """Block until there is an answer."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line == "answered\n", line

    def is_running(self) -> bool:
        """Whether requests are still made; one that has so many to make ends by itself."""
        return self._process.poll() is None

    def finish(self, seconds: float = 60) -> None:
        found = json.loads(self._process.communicate(timeout=seconds)[0].splitlines()[-1])
        self.names = found["names"]
        self.failures = found["failures"]
        self.gap = found["gap"]


class Client:
    """Programs in the namespace of a job, so that they ask as the job would."""

    def __init__(self, namespace: Path) -> None:
        self._enter = ["ip", "netns", "exec", namespace.name]

    def curl(self, *words: str) -> subprocess.CompletedProcess[str]:
        command = [*self._enter, "curl", "-s", "--max-time", "10", *words]
        return subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)

    def ask(self, *words: str) -> Any:
        """The JSON that a job answers."""
        done = self.curl(*words)
        assert done.returncode == 0, done
        return json.loads(done.stdout)

    def status(self, *words: str) -> int:
        return int(self.curl("-o", "/dev/null", "-w", "%{http_code}", *words).stdout)

    def begin_load(
        self, address: str, path: str = "/", threads: int = 4, most: int = ENDLESS
    ) -> Load:
        words = [address, path, str(threads), str(most)]
        return Load([*self._enter, sys.executable, "-c", LOAD, *words])

    def reuse_ports(self, address: str, port: int, most: int) -> list[str]:
        """Ask so often from a few source ports; the failures."""
        words = [address, str(most), str(port)]
        command = [*self._enter, sys.executable, "-c", REUSE, *words]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
        found: list[str] = json.loads(done.stdout)
        return found

    def begin_stream(self, url: str) -> Stream:
        return Stream([*self._enter, "curl", "-sN", "--max-time", "20", url])


class Stream:
    """A long answer, read while other things happen."""

    def __init__(self, command: list[str]) -> None:
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        self.lines: list[str] = []
        self._thread = threading.Thread(target=self._read)
        self._thread.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        self.lines.extend(line.strip() for line in self._process.stdout)

    def wait_for_lines(self) -> None:
        deadline = time.monotonic() + 10
        while not self.lines and time.monotonic() < deadline:
            time.sleep(0.02)  # between two looks at what another thread reads
        assert self.lines

    def finish(self) -> list[str]:
        self._thread.join(30)
        self._process.wait(5)
        return self.lines


def submit(pool: RealPool, name: str, *command: str, array: int = 0) -> None:
    more = ("--array", str(array)) if array else ()
    words = ("submit", "--network", "web", "--gpu", "0.1", *more, "--name", name, "--")
    pool.do(*words, *command)
    for job in [f"{name}.{n}" for n in range(array)] or [name]:
        pool.until_state(job, "running")


def serve(pool: RealPool, name: str, port: int = 8000, array: int = 0) -> None:
    # Members of an array answer with their addresses.
    known = () if array else (name,)
    submit(pool, name, sys.executable, "-c", SERVE, str(port), *known, array=array)


def mark(pool: RealPool) -> str:
    return locate_engine(pool.state_dir / "agent/network").mark


def find_port(pool: RealPool, name: str) -> str:
    """The port of a job, by the MAC address of its namespace's interface."""
    wanted = next(
        one["mac"]
        for one in pool.json("network", "show", "web")["ports"]
        if one["job_name"] == name
    )
    for entry in NAMESPACES.glob(f"gpupool-{mark(pool)}-n-*"):
        words = ["ip", "-n", entry.name, "-o", "link", "show", "eth0"]
        if wanted in subprocess.run(words, capture_output=True, text=True, check=True).stdout:
            return entry.name.removeprefix(f"gpupool-{mark(pool)}-")
    raise AssertionError(f"no namespace of {name}")


def until_members(pool: RealPool, balancer: str, states: dict[str, str]) -> None:
    def look() -> bool:
        found = pool.json("network", "lb-show", "web", balancer)["http"]["members"]
        return {one["dns_name"]: one["state"] for one in found} == states

    pool.until(look, f"{balancer}: {states}")


def address(pool: RealPool, balancer: str) -> str:
    return str(pool.json("network", "lb-show", "web", balancer)["address"])


def count_requests(pool: RealPool, balancer: str, name: str) -> int:
    members = pool.json("network", "lb-show", "web", balancer)["http"]["members"]
    return int(next(one["requests"] for one in members if one["dns_name"] == name))


def open_client(pool: RealPool, job: str) -> Client:
    """Ask as a job does."""
    return Client(NAMESPACES / f"gpupool-{mark(pool)}-{find_port(pool, job)}")
