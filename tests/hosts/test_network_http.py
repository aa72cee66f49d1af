"""Load balancers of HTTP with the real OVN and the real HAProxy, on this machine."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpupool.agent.network.balancing.proxies import PROGRAM
from gpupool.agent.network.daemons import find_missing_programs, locate_engine
from tests.e2e.pool_fixture import GPUPOOL, RealPool
from tests.hosts.http_jobs import (
    Client,
    address,
    count_requests,
    mark,
    open_client,
    serve,
    submit,
    until_members,
)
from tests.support.pages import PAGES
from tests.support.typed_commands import commands

_MISSING = set(find_missing_programs().values())
_MISSING |= {name for name in (PROGRAM, "curl", "openssl") if shutil.which(name) is None}
pytestmark = [
    pytest.mark.hosts,
    pytest.mark.root,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root"),
    pytest.mark.skipif(bool(_MISSING), reason=f"needs {', '.join(sorted(_MISSING))}"),
]


@pytest.fixture(scope="module")
def pool() -> Iterator[RealPool]:
    directory = Path(tempfile.mkdtemp(prefix="gph-"))
    directory.chmod(0o755)
    with RealPool(directory / "pool", "8xL40S") as made:
        made.do("network", "enable")
        made.do("network", "create", "web", "--cidr", "10.0.0.0/24")
        submit(made, "client", "sleep", "600")
        yield made
        made.stop_all()
        made.do("network", "disable", "--yes")
        # Also with a load balancer that is not deleted.
        check_nothing_is_left(made)
    shutil.rmtree(directory)


@pytest.fixture
def client(pool: RealPool) -> Client:
    return open_client(pool, "client")


@pytest.fixture(scope="module")
def pem(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_certificate(tmp_path_factory.mktemp("tls"), "svc.example")


def make_certificate(folder: Path, host: str) -> Path:
    """A certificate that signs itself, with its key, in one file."""
    key = folder / "key"
    chain = folder / "chain"
    command = (
        "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 "
        f"-subj /CN={host} -addext subjectAltName=DNS:{host} -keyout {key} -out {chain}"
    )
    subprocess.run(command.split(), check=True, capture_output=True)
    both = folder / "both.pem"
    both.write_text(chain.read_text() + key.read_text())
    return both


def find_proxies(pool: RealPool) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                words = (entry / "cmdline").read_bytes()
            except (FileNotFoundError, ProcessLookupError):
                continue
            if words.startswith(b"haproxy\0") and mark(pool).encode() in words:
                found.append(int(entry.name))
    return sorted(found)


def check_nothing_is_left(pool: RealPool) -> None:
    assert find_proxies(pool) == []
    assert not list(Path("/run/netns").glob(f"gpupool-{mark(pool)}*"))
    assert not Path(f"/run/gpupool-network-{mark(pool)}").exists()


def test_hosts_and_paths_lead_to_their_jobs(pool: RealPool, client: Client) -> None:
    route = ("--route", "api.example.com/v1=api:9000", "--route", "*.files.example.com=files:8000")
    words = ("lb-create", "web", "front", "--http", "--backend", "site", "--target-port", "8000")
    made = pool.json("network", *words, *route)
    url = f"http://{made['address']}"
    pool.until(lambda: client.status(url) == 503, "an answer without jobs")
    for name, port in (("site", 8000), ("api", 9000), ("files", 8000)):
        serve(pool, name, port)
    until_members(pool, "front", {"site": "up", "api": "up", "files": "up"})
    assert client.ask(url)["name"] == "site"
    for host, path, name in (
        ("api.example.com", "/v1", "api"),
        ("API.example.com:80", "/v1/models?x=1", "api"),
        ("api.example.com", "/v10", "site"),
        ("a.files.example.com", "/", "files"),
        ("files.example.com", "/", "site"),
    ):
        answer = client.ask("-H", f"Host: {host}", f"{url}{path}")
        assert (answer["name"], answer["path"]) == (name, path)
    # The job learns of the client's own address, whatever the client claims.
    mine = str(pool.job("client")["address"])
    answer = client.ask("-H", "X-Forwarded-For: 1.2.3.4", url)
    assert answer["headers"]["x-forwarded-for"] == mine
    assert answer["headers"]["x-forwarded-proto"] == "http"
    # By its name, and in no other network.
    words = ("run", "-q", "--network", "web", "--gpu", "0.1", "--", "curl", "-s", "http://front/")
    assert json.loads(pool.do(*words))["name"] == "site"
    pool.do("network", "lb-delete", "web", "front")
    pool.until(lambda: find_proxies(pool) == [], "the end of the proxy")
    for name in ("site", "api", "files"):
        pool.do("stop", name, "--grace", "0")


def test_a_certificate_serves_and_its_key_is_nowhere_to_be_seen(
    pool: RealPool, client: Client, pem: Path, tmp_path: Path
) -> None:
    words = ("network", "lb-create", "web", "tls", "--http", "--backend", "tls-job", "--redirect")
    made = pool.json(*words, "--target-port", "8000", "--certificate", str(pem), "--sticky")
    serve(pool, "tls-job", array=2)
    until_members(pool, "tls", {"tls-job-0.tls-job": "up", "tls-job-1.tls-job": "up"})
    host = ("--resolve", f"svc.example:443:{made['address']}")
    trusted = (*host, "--cacert", str(pem), "https://svc.example/")
    assert client.ask(*trusted)["headers"]["x-forwarded-proto"] == "https"
    moved = client.curl(
        "-D", "-", "-o", "/dev/null", "-H", "Host: svc.example", f"http://{made['address']}/a?b=c"
    )
    assert "308" in moved.stdout.splitlines()[0]
    assert "location: https://svc.example/a?b=c" in moved.stdout.lower()
    # A client keeps its job by the cookie; clients without it are spread.
    jar = str(tmp_path / "jar")
    kept = {client.ask("-b", jar, "-c", jar, *trusted)["name"] for _ in range(8)}
    spread = {client.ask(*trusted)["name"] for _ in range(8)}
    assert (len(kept), len(spread)) == (1, 2)
    check_worker(pool)
    check_secret(pool, pem)
    # A renewed one is served without a restart; a foreign key is refused and nothing changes.
    renewed = make_certificate(tmp_path, "svc.example")
    pool.do("network", "lb-certificate", "web", "tls", str(renewed))
    again = (*host, "--cacert", str(renewed), "-o", "/dev/null", "https://svc.example/")
    pool.until(lambda: client.curl(*again).returncode == 0, "the renewed certificate")
    mixed = tmp_path / "mixed.pem"
    mixed.write_text(
        pem.read_text().partition("-----BEGIN PRIVATE")[0] + (tmp_path / "key").read_text()
    )
    refused = pool.run("network", "lb-certificate", "web", "tls", str(mixed))
    assert (refused.returncode, "GP-1000" in refused.stderr) == (2, True), refused.stderr
    assert "PRIVATE" not in refused.stderr
    pool.do("network", "lb-delete", "web", "tls")
    pool.do("stop", "tls-job", "--grace", "0")


def check_worker(pool: RealPool) -> None:
    """What reads the bytes of clients is no root and sees no file of the machine."""
    _, worker = find_proxies(pool)[:2]
    status = dict(
        line.split(":", 1) for line in Path(f"/proc/{worker}/status").read_text().splitlines()
    )
    assert all(int(uid) >= 1_900_000_000 for uid in status["Uid"].split())
    assert all(int(gid) >= 1_900_000_000 for gid in status["Gid"].split())
    assert int(status["CapEff"], 16) == 0
    root = Path(os.readlink(f"/proc/{worker}/root"))
    assert root.name == "root"
    assert list(root.iterdir()) == []


def check_secret(pool: RealPool, pem: Path) -> None:
    lines = pem.read_text().partition("-----BEGIN PRIVATE KEY-----\n")[2].splitlines()
    secret = lines[0]
    assert len(secret) > 40
    for words in (("lb-show", "web", "tls"), ("lb-list", "web")):
        assert secret not in pool.do("network", *words, "-o", "json")
    assert secret not in pool.do("events", "-o", "json")
    shown = subprocess.run(["ps", "axww"], capture_output=True, text=True, check=True).stdout
    assert secret not in shown
    holders = []
    for root in (pool.state_dir, Path(f"/run/gpupool-network-{mark(pool)}")):
        for path in root.rglob("*"):
            if path.is_file() and secret.encode() in path.read_bytes():
                holders.append(path)
    # The pool's database (with its log of writes) and the file of the proxy, both of root alone.
    assert {one.suffix for one in holders} <= {".db", ".db-wal", ".pem"}, holders
    assert len(holders) >= 2
    assert all(one.stat().st_mode & 0o077 == 0 for one in holders), holders


def test_no_request_fails_when_a_job_is_drained_stopped_or_deaf(
    pool: RealPool, client: Client
) -> None:
    words = ("network", "lb-create", "web", "api", "--http", "--backend", "work")
    pool.do(*words, "--target-port", "8000")
    serve(pool, "work", array=4)
    names = [f"work-{n}.work" for n in range(4)]
    until_members(pool, "api", dict.fromkeys(names, "up"))
    addresses = [str(pool.job(f"work.{n}")["address"]) for n in range(4)]
    with client.begin_load(address(pool, "api"), "/slow", threads=8) as load:
        pool.until(lambda: count_requests(pool, "api", names[0]) > 0, "requests")
        shown = pool.do("network", "lb-drain", "web", "api", "work.0")
        assert "has finished its last one" in shown
        until_counted(pool, names[2])
        before = count_requests(pool, "api", names[0])
        # A stop waits for what the job answers still, and the others take what is new.
        pool.do("stop", "work.1")
        pool.until_state("work.1", "stopped")
        until_counted(pool, names[2])
        assert count_requests(pool, "api", names[0]) == before
        pool.do("network", "lb-drain", "web", "api", "work.0", "--undo")
        pool.until(lambda: count_requests(pool, "api", names[0]) > before, "new requests")
    assert load.failures == []
    assert set(load.names) == set(addresses)
    # One that takes no more connections gets none after two probes.
    assert client.status(f"http://{addresses[2]}:8000/deaf") == 200
    left = {"work-0.work": "up", "work-2.work": "down", "work-3.work": "up"}
    until_members(pool, "api", left)
    before = count_requests(pool, "api", "work-2.work")
    after = client.begin_load(address(pool, "api"), most=400)
    after.finish()
    assert after.failures == []
    assert set(after.names) == {addresses[0], addresses[3]}
    assert sum(after.names.values()) == 400
    assert count_requests(pool, "api", "work-2.work") == before
    pool.do("network", "lb-delete", "web", "api")
    pool.do("stop", "work", "--grace", "0")


def until_counted(pool: RealPool, name: str) -> None:
    """Wait for counts of all jobs that are newer than now, by a job that gets requests."""
    present = count_requests(pool, "api", name)
    pool.until(lambda: count_requests(pool, "api", name) > present, "newer counts")


def test_source_ports_are_used_again_and_the_switch_goes_on(pool: RealPool, client: Client) -> None:
    # Connections are tracked where a network has a load balancer.
    words = ("network", "lb-create", "web", "often", "--http", "--backend", "often-job")
    made = pool.json(*words, "--target-port", "8000")
    serve(pool, "often-job")
    until_members(pool, "often", {"often-job": "up"})
    before = find_switch(pool)
    job = str(pool.job("often-job")["address"])
    assert client.reuse_ports(job, 8000, 400) == []
    assert client.reuse_ports(made["address"], 80, 200) == []
    assert find_switch(pool) == before
    # One that was restarted as well, as soon as the agent has looked at it.
    times = count_restrictions(pool)
    os.kill(int(before), signal.SIGKILL)
    pool.until(lambda: count_restrictions(pool) > times, "the withheld feature")
    before = find_switch(pool)
    assert client.reuse_ports(job, 8000, 400) == []
    assert find_switch(pool) == before
    pool.do("network", "lb-delete", "web", "often")
    pool.do("stop", "often-job", "--grace", "0")


def find_switch(pool: RealPool) -> str:
    """The process of the switch."""
    run = locate_engine(pool.state_dir / "agent/network").run
    return (run / "ovs-vswitchd.pid").read_text().strip()


def count_restrictions(pool: RealPool) -> int:
    """How often the agent has withheld the feature of a switch that had started."""
    return (pool.state_dir / "server.log").read_text().count("withheld ct_zero_snat")


def test_answers_go_on_over_changes_and_kills(pool: RealPool, client: Client) -> None:
    words = ("network", "lb-create", "web", "long", "--http", "--backend", "first")
    pool.do(*words, "--backend", "second", "--target-port", "8000")
    serve(pool, "first")
    until_members(pool, "long", {"first": "up"})
    url = f"http://{address(pool, 'long')}"
    stream = client.begin_stream(f"{url}/stream")
    stream.wait_for_lines()
    # A new configuration, and a killed agent with its server.
    serve(pool, "second")
    until_members(pool, "long", {"first": "up", "second": "up"})
    proxies = find_proxies(pool)
    os.kill(pool.server_pid(), signal.SIGKILL)
    assert client.status(url) == 200
    pool.up()
    until_members(pool, "long", {"first": "up", "second": "up"})
    # Old workers end with their connections; none is new.
    assert set(find_proxies(pool)) <= set(proxies)
    assert stream.finish() == [str(number) for number in range(40)]
    # A killed proxy comes back.
    for pid in find_proxies(pool):
        # An old worker may end with its connections in between.
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    pool.until(lambda: client.status(url) == 200, "an answer of a new proxy")
    assert not set(find_proxies(pool)) & set(proxies)
    for name in ("first", "second"):
        pool.do("stop", name, "--grace", "0")


def test_no_request_fails_while_certificate_and_configuration_change(
    pool: RealPool, client: Client, pem: Path, tmp_path: Path
) -> None:
    words = ("network", "lb-create", "web", "turns", "--http", "--backend", "turn-job")
    pool.do(*words, "--target-port", "8000", "--certificate", str(pem))
    serve(pool, "turn-job")
    until_members(pool, "turns", {"turn-job": "up"})
    (master, *_) = find_proxies(pool)
    before = find_workers(pool)
    with client.begin_load(address(pool, "turns"), threads=8) as load:
        for number in range(4):
            renewed = tmp_path / str(number)
            renewed.mkdir()
            certificate = make_certificate(renewed, "svc.example")
            workers = find_workers(pool)
            pool.do("network", "lb-certificate", "web", "turns", str(certificate))
            pool.until(lambda before=workers: find_workers(pool) - before, "a new worker")
    assert load.failures == []
    assert sum(load.names.values()) > 100
    # The same master, and other workers.
    assert master in find_proxies(pool)
    assert find_workers(pool) - before
    pool.do("network", "lb-delete", "web", "turns")
    pool.do("stop", "turn-job", "--grace", "0")


def find_workers(pool: RealPool) -> set[int]:
    """The workers of all proxies: what has a worker's account."""
    return {pid for pid in find_proxies(pool) if os.stat(f"/proc/{pid}").st_uid}


def test_what_is_refused_says_why(pool: RealPool, tmp_path: Path) -> None:
    pool.do("network", "lb-create", "web", "plain", "--port", "80", "--backend", "x")
    empty = tmp_path / "empty"
    empty.write_text("")
    create = ("network", "lb-create", "web", "other", "--http")
    for words, code in (
        (create, "GP-1000"),
        ((*create, "--route", "a b=x:80"), "GP-1000"),
        ((*create, "--route", "a.example/'\n bind=x:80"), "GP-1000"),
        ((*create, "--backend", "x", "--check-path", "/a b"), "GP-1000"),
        ((*create, "--backend", "x", "--redirect"), "GP-1000"),
        ((*create, "--backend", "x", "--certificate", str(empty)), "GP-1000"),
        (("network", "lb-create", "web", "other", "--backend", "x", "--sticky"), "GP-1000"),
        (("network", "lb-drain", "web", "plain", "x"), "GP-2007"),
        (("network", "lb-show", "web", "none"), "GP-3020"),
    ):
        refused = pool.run(*words)
        assert code in refused.stderr, (words, refused.stderr)
    assert {one["name"] for one in pool.json("network", "lb-list", "web")} == {"plain", "long"}
    pool.do("network", "lb-delete", "web", "plain")


def test_an_exposed_port_answers_and_ends_with_its_job(pool: RealPool, client: Client) -> None:
    serve(pool, "shown")
    made = pool.json("expose", "shown", "8000", "--http", "--name", "shop")
    assert made["probe"]["is_answered"] is True, made["probe"]
    assert made["url"] is None
    url = f"http://{made['load_balancer']['address']}"
    assert client.ask(url)["name"] == "shown"
    # The same once more is the same; another way is refused.
    again = pool.json("expose", "shown", "8000", "--http", "--name", "shop")
    assert again["load_balancer"]["id"] == made["load_balancer"]["id"]
    assert "GP-2008" in pool.run("expose", "shown", "8000").stderr
    # TCP, of a port on which nothing serves yet.
    plain = pool.json("expose", "shown", "9000", "--timeout", "0")
    assert plain["probe"]["is_answered"] is None
    assert plain["load_balancer"]["name"] == "shown-9000"
    pool.do("unexpose", "shown", "9000")
    assert "GP-3020" in pool.run("unexpose", "shown", "9000").stderr
    pool.do("stop", "shown", "--grace", "0")
    pool.until_state("shown", "stopped")
    assert "shop" not in {one["name"] for one in pool.json("network", "lb-list", "web")}
    refused = pool.run("expose", "shown", "8000", "--http")
    assert "GP-2007" in refused.stderr, refused.stderr


@pytest.mark.skipif(shutil.which("nft") is None, reason="needs the package nftables")
def test_an_exposed_port_is_reached_from_the_machine(pool: RealPool) -> None:
    pool.do("network", "enable", "--forward-ports", "30100-30101")
    pool.do("network", "gateway-create", "web")
    serve(pool, "outer")
    made = pool.json("expose", "outer", "8000", "--http", "--timeout", "60")
    assert made["probe"]["is_answered"] is True, made["probe"]
    assert made["machine_port"] in (30100, 30101)
    with urllib.request.urlopen(made["url"], timeout=10) as answer:
        assert json.loads(answer.read())["name"] == "outer"
    pool.do("stop", "outer", "--grace", "0")
    pool.until(lambda: pool.json("network", "forward-list", "web") == [], "the end of the forward")
    pool.do("network", "gateway-delete", "web")
    pool.do("network", "enable", "--forward-ports", "")


LOOPBACK = """
import http.server, sys
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"inside")
    def log_message(self, *words):
        pass
http.server.HTTPServer(("127.0.0.1", 8888), Handler).serve_forever()
"""


def test_a_person_reaches_a_port_that_only_the_job_itself_sees(pool: RealPool) -> None:
    submit(pool, "notebook", sys.executable, "-c", LOOPBACK)
    relay = pool.start("port-forward", "notebook", "0:8888")
    try:
        assert relay.stdout is not None
        line = relay.stdout.readline().decode()
        number = int(line.split()[0].rpartition(":")[2])
        url = f"http://127.0.0.1:{number}/"

        def ask() -> str | None:
            try:
                with urllib.request.urlopen(url, timeout=5) as answer:
                    text: str = answer.read().decode()
                    return text
            except OSError:
                return None

        assert pool.until(ask, "an answer") == "inside"
        stranger = ["setpriv", "--reuid", "65534", "--clear-groups", "curl", "-s", "-m", "5", url]
        done = subprocess.run(stranger, capture_output=True, text=True, check=False)
        assert (done.stdout, done.returncode != 0) == ("", True)
    finally:
        relay.send_signal(signal.SIGINT)
        assert relay.wait(10) == 0
    # The pool itself lets no other account in either.
    words = [*stranger[:4], *GPUPOOL, "port-forward", pool.job("notebook")["id"], "0:8888"]
    refused = subprocess.run(
        words, capture_output=True, text=True, check=False, env=pool.environ, timeout=30
    )
    assert "GP-300" in refused.stderr, refused.stderr
    pool.do("submit", "--gpu", "0.1", "--name", "bare", "--", "sleep", "600")
    pool.until_state("bare", "running")
    assert "is in no network" in pool.run("expose", "bare", "80").stderr
    for name in ("notebook", "bare"):
        pool.do("stop", name, "--grace", "0")


def test_commands_of_the_page_work_in_their_order(pool: RealPool) -> None:
    for words in commands(PAGES / "network-load-balancer.md"):
        printed = pool.do(*words)
        if words[0] == "submit":
            for number in range(2):
                pool.until_state(f"serve.{number}", "running")
        if words[0] == "run":
            assert printed == "200\n"
    remove_lab(pool)


def test_commands_of_the_page_of_exposures_work_in_their_order(pool: RealPool) -> None:
    for words in commands(PAGES / "network-expose.md"):
        printed = pool.do(*words)
        if words[0] == "submit":
            pool.until_state("serve", "running")
        if words[0] == "expose":
            assert "http://web:80" in printed
            assert "finds the job up (L4OK)" in printed
    remove_lab(pool)


def remove_lab(pool: RealPool) -> None:
    pool.until(lambda: pool.json("network", "show", "lab")["ports"] == [], "the jobs' end")
    pool.do("network", "delete", "lab", "--yes")
