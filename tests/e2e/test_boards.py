"""A real Prometheus scrapes a real pool: every expression of boards finds series, every rule loads."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import generate_latest

from gpupool.model.device import DeviceHealth
from gpupool.probes.simulated_health import set_health
from gpupool.scheduling import FIRST_CLAIMS
from gpupool.server.money_metrics import MoneyMetrics
from tests.e2e.pool_fixture import GPUPOOL, SECONDS, RealPool
from tests.support.billing_books import make_prices
from tests.support.budget_house import BudgetHouse
from tests.support.claims import claim_port
from tests.support.links import ROOT

pytestmark = pytest.mark.nightly
#: Of a scrape; a rate needs four of them.
SCRAPE_SECONDS = 1
VARIABLE = re.compile(r"\$(?:job|tenant|model|node|service_name)\b")
#: What DCGM's exporter says of one card, in its own units: percent, ratio, MiB, W, degrees, mJ.
DCGM = {
    "DCGM_FI_DEV_GPU_UTIL": 50,
    "DCGM_FI_PROF_GR_ENGINE_ACTIVE": 0.5,
    "DCGM_FI_DEV_FB_USED": 1024,
    "DCGM_FI_DEV_POWER_USAGE": 200,
    "DCGM_FI_DEV_GPU_TEMP": 55,
    "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION": 1000000,
    "DCGM_FI_DEV_XID_ERRORS": 0,
}


@contextmanager
def exporter(read: Callable[[], str]) -> Iterator[str]:
    """Answer every request with a text; yields the address."""

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = read().encode()
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answer)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def write_dcgm(cards: list[dict[str, Any]]) -> str:
    lines = []
    for name, value in DCGM.items():
        for card in cards:
            lines.append(f'{name}{{gpu="{card["index"]}",UUID="{card["uuid"]}"}} {value}')
    return "\n".join(lines) + "\n"


def write_money(folder: Path) -> str:
    """What a pool says of money three hours after its first job: no real pool is that old here."""
    house = BudgetHouse(folder)
    house.allocations.billing.prices.put("list", make_prices())
    house.set_budget()
    house.submit(1000, None, name="first", principal=house.ann)
    house.pass_hours(3)
    house.look()
    registry = CollectorRegistry(auto_describe=False)
    watch = house.allocations.budget_watch
    registry.register(MoneyMetrics(house.allocations.billing.latest_hour.value, watch.standings))
    return generate_latest(registry).decode()


class RealPrometheus:
    """Prometheus on a configuration; ends with the test."""

    def __init__(self, program: str, folder: Path, config: dict[str, Any]) -> None:
        self._port = claim_port()
        (folder / "prometheus.yml").write_text(yaml.safe_dump(config))
        command = [
            program,
            f"--config.file={folder / 'prometheus.yml'}",
            f"--storage.tsdb.path={folder / 'data'}",
            f"--web.listen-address=127.0.0.1:{self._port}",
        ]
        with (folder / "prometheus.log").open("wb") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log)

    def get(self, path: str, **query: str) -> Any:
        """Ask the API; None while it does not answer."""
        words = urllib.parse.urlencode(query)
        address = f"http://127.0.0.1:{self._port}/api/v1/{path}?{words}"
        try:
            with urllib.request.urlopen(address, timeout=30) as answer:
                return json.load(answer)["data"]
        except urllib.error.HTTPError as error:
            if error.code == HTTPStatus.SERVICE_UNAVAILABLE:  # it reads its files still
                return None
            raise AssertionError(f"{query}: {error.read().decode()}") from error
        except OSError:
            return None

    def close(self) -> None:
        self._process.terminate()
        self._process.wait(timeout=60)


def find_program(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is missing: apt-get install prometheus")
    return found


def list_expressions() -> list[tuple[str, str]]:
    found = []
    for path in sorted((ROOT / "deploy" / "grafana").glob("*.json")):
        for panel in json.loads(path.read_text())["panels"]:
            for target in panel.get("targets", ()):
                text = VARIABLE.sub(".*", target["expr"]).replace("$__rate_interval", "30s")
                found.append((f"{path.stem}: {panel['title']}", text))
    return found


@contextmanager
def open_pool(state_dir: Path, port: int) -> Iterator[RealPool]:
    """A pool that listens on a port."""
    pool = RealPool(state_dir, sim="2xL40S")
    try:
        pool.up("--sim", pool.sim, "--listen", f"127.0.0.1:{port}")
        yield pool
    finally:
        pool.__exit__()


def keep_busy(pool: RealPool) -> list[subprocess.Popen[bytes]]:
    """A job that computes, as many that wait as statistics need, and a card with an XID."""
    share = ("--gpu", "0.5", "--memory", "2GiB", "--name", "busy")
    load = ("burn", "--seconds", "600", "--kernel-us", "200")
    running = [pool.start("run", *share, "--", *GPUPOOL, *load, stdout=subprocess.DEVNULL)]
    pool.until_state("busy", "running")
    card = next(card for card in pool.json("gpus") if card["used_milli"] == 0)
    for number in range(FIRST_CLAIMS):
        pool.do("submit", "--gpu", "2", "--name", f"waits-{number}", "--", "true")
    place = pool.state_dir / "simulated"
    set_health(place, card["uuid"], DeviceHealth.FAILED, "fell off the bus", xid=79)
    return running


def call_service(pool: RealPool, port: int) -> None:
    """A service without a replica, and a request that it refuses."""
    # No card has so much left.
    job = ("--gpu", "1", "--", "sh", "-c", "sleep 600 # {port}")
    rule = ("--min", "0", "--max", "1", "--wait-within", "1s")
    pool.do("service", "create", "asleep", *rule, "--", *job)
    token = pool.do("token", "create", "--scope", "run").strip()
    address = f"http://127.0.0.1:{port}/services/asleep/"
    request = urllib.request.Request(address, headers={"Authorization": f"Bearer {token}"})
    with pytest.raises(urllib.error.HTTPError, match="503"):
        urllib.request.urlopen(request, timeout=60)


def test_every_expression_of_every_board_finds_series(tmp_path: Path) -> None:
    program = find_program("prometheus")
    port = claim_port()
    (tmp_path / "house").mkdir()
    money = write_money(tmp_path / "house")
    with open_pool(tmp_path / "pool", port) as pool:
        pool.do("user", "add", "prometheus", "--role", "scrape")
        token = pool.do("token", "create", "--user", "prometheus").strip()
        running = keep_busy(pool)
        call_service(pool, port)
        cards = pool.json("gpus")
        began = time.monotonic()

        def read_dcgm() -> str:
            energy = DCGM["DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION"]
            spent = round(energy + 200_000 * (time.monotonic() - began))
            return write_dcgm(cards).replace(f" {energy}\n", f" {spent}\n")

        with exporter(read_dcgm) as dcgm, exporter(lambda: money) as house:
            config = {
                "global": {
                    "scrape_interval": f"{SCRAPE_SECONDS}s",
                    "evaluation_interval": f"{SCRAPE_SECONDS}s",
                },
                "rule_files": [str(ROOT / "deploy" / "prometheus" / "rules" / "*.yaml")],
                "scrape_configs": [
                    {
                        "job_name": "gpupool",
                        "authorization": {"credentials": token},
                        "static_configs": [{"targets": [f"127.0.0.1:{port}"]}],
                    },
                    {"job_name": "dcgm", "static_configs": [{"targets": [dcgm]}]},
                    {"job_name": "house", "static_configs": [{"targets": [house]}]},
                ],
            }
            prometheus = RealPrometheus(program, tmp_path, config)
            try:
                check_expressions(prometheus)
                check_alerts(pool, prometheus)
            finally:
                prometheus.close()
                pool.stop_all()
                for process in running:
                    process.wait(timeout=120)


def check_expressions(prometheus: RealPrometheus) -> None:
    wanted = list_expressions()
    assert len(wanted) > 50
    left = list(wanted)
    deadline = time.monotonic() + SECONDS
    while left and time.monotonic() < deadline:
        left = [one for one in left if not _finds_series(prometheus, one[1])]
        time.sleep(SCRAPE_SECONDS)  # nothing changes before the next scrape
    assert left == []


def _finds_series(prometheus: RealPrometheus, expression: str) -> bool:
    answer = prometheus.get("query", query=expression)
    return answer is not None and bool(answer["result"])


def check_alerts(pool: RealPool, prometheus: RealPrometheus) -> None:
    """The failed card and the spent budget raise their alerts; rules have no errors."""

    def list_firing() -> set[str]:
        answer = prometheus.get("alerts") or {"alerts": []}
        return {one["labels"]["alertname"] for one in answer["alerts"] if one["state"] == "firing"}

    pool.until(lambda: {"XidFatal", "BudgetCrossed"} <= list_firing(), "the alerts")
    for group in prometheus.get("rules")["groups"]:
        for rule in group["rules"]:
            assert rule["health"] == "ok", rule
