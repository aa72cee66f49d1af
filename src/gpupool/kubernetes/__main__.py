"""`python -m gpupool.kubernetes PART`: the parts of gpupool that run in a cluster.

    controller   places pods: two replicas, of which one leads
    webhook      admits pods that ask for cards: two replicas
    agent        makes the cards of its node ready, one a node, beside `python -m gpupool.kubernetes.slots`
    meter        tells a gpupool server what is held, for reports and prices: one
    install      prints, as YAML, what has to be in the cluster before

How the API server is reached: --kubeconfig, else KUBECONFIG, else the service account of the pod.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import gc
import logging
import os
import random
import secrets
import signal
import socket
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from gpupool.audit.reconciler import Reconciler
from gpupool.base.anew import begin_anew
from gpupool.base.client_settings import ClientSettings
from gpupool.base.clock import wall_ns
from gpupool.base.errors import GpupoolError, Unavailable
from gpupool.base.silence import scale_from
from gpupool.base.supervised import beating_loop, register
from gpupool.client.transport import Api
from gpupool.kubernetes import install, kubelet
from gpupool.kubernetes.api import KubeApi
from gpupool.kubernetes.connection import Connection, from_account, from_kubeconfig
from gpupool.kubernetes.controller import Controller
from gpupool.kubernetes.counts import Counts
from gpupool.kubernetes.events import Event, Events
from gpupool.kubernetes.journal import Journal
from gpupool.kubernetes.leader import Leader
from gpupool.kubernetes.meter import Meter
from gpupool.kubernetes.node_agent import NodeAgent, Places
from gpupool.kubernetes.node_audit import REACTIONS, NodeAudit
from gpupool.kubernetes.node_metrics import NodeMetrics
from gpupool.kubernetes.preparing import SHOWN, Preparing
from gpupool.kubernetes.serving import Health, serving
from gpupool.kubernetes.settings import Settings
from gpupool.kubernetes.webhook import Place, Webhook
from gpupool.mechanisms.arbiter import Arbiter
from gpupool.mechanisms.contract import JobSeat
from gpupool.probes.contract import Probe
from gpupool.probes.registry import first_available
from gpupool.probes.simulated import SimulatedProbe, parse_sim
from gpupool.scheduling import kernel
from gpupool_native import arbiter_path

ENDING_SECONDS = 5.0
SELDOM = (50_000, 20, 100)
"""New objects before the youngest, the younger and all of them are searched for cycles. What is noted of pods has none
and stays; the search as often as it comes took a sixth of the controller's time."""


def main(arguments: Sequence[str], environ: Mapping[str, str]) -> int:
    """Run the part until a signal says to end; 0 then, the error's exit code when it could not begin."""
    options = _parser().parse_args(arguments)
    logging.basicConfig(level=options.log_level.upper(), format="%(asctime)s %(name)s %(levelname)s %(message)s")
    try:
        if options.part == "install":
            return _install(options)
        return asyncio.run(_until_signal(options, environ))
    except GpupoolError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m gpupool.kubernetes", description=__doc__)
    parser.add_argument("--kubeconfig", type=Path, help="default: KUBECONFIG, else the pod's service account")
    parser.add_argument("--namespace", default=install.NAMESPACE, help="where gpupool's own objects are")
    parser.add_argument("--log-level", default="info", choices=("debug", "info", "warning"))
    parts = parser.add_subparsers(dest="part", required=True)
    controller = parts.add_parser("controller", help="places pods")
    controller.add_argument("--listen", default="127.0.0.1:0", help="address of /healthz and /metrics")
    controller.add_argument("--alone", action="store_true", help="lead without asking: there is no other replica")
    controller.add_argument("--metered", action="store_true", help="keep what was held until the meter has told it")
    webhook = parts.add_parser("webhook", help="admits pods that ask for cards")
    webhook.add_argument("--listen", default="127.0.0.1:9443", help="address for the API server, TLS")
    for part in (controller, webhook):
        part.add_argument(
            "--settings",
            metavar="JSON",
            default="",
            help="what holds where the PoolSettings object says nothing, by its fields",
        )
    agent = parts.add_parser("agent", help="makes the cards of its node ready")
    agent.add_argument("--node", default="", help="default: NODE_NAME, else this machine's name")
    agent.add_argument("--sim", metavar="SPEC", help="simulated cards, as `gpupool up --sim` takes them")
    agent.add_argument("--state-dir", type=Path, default=Path("/var/lib/gpupool/agent"))
    agent.add_argument("--socket", type=Path, default=Path("/run/gpupool/agent.sock"), help="where the plugin asks")
    agent.add_argument("--cdi", type=Path, default=Path("/var/run/cdi"), help="where the runtime reads CDI files")
    agent.add_argument("--kubelet", type=Path, default=kubelet.ROOT, help="the kubelet's --root-dir")
    agent.add_argument("--plugins", type=Path, default=kubelet.PLUGINS, help="the kubelet's folder of device plugins")
    agent.add_argument("--listen", default="127.0.0.1:0", help="address of /healthz and /metrics")
    agent.add_argument(
        "--dcgm-names",
        action="store_true",
        help="tell what containers use by the names of DCGM's exporter too; not where that one runs as well",
    )
    agent.add_argument("--host", type=Path, default=Path("/"), help="where the host's root is seen from here")
    agent.add_argument(
        "--driver-root", type=Path, default=Path("/"), help="where the driver's files are on the host, absolute"
    )
    agent.add_argument(
        "--fence-reaction",
        choices=REACTIONS,
        default="kill",
        help="when a container has more than its share (default: kill)",
    )
    agent.add_argument("--slots", type=int, default=512, help="as many as the plugin hands out")
    meter = parts.add_parser("meter", help="tells a gpupool server what is held")
    meter.add_argument("--server", metavar="URL", required=True, help="of the gpupool server")
    meter.add_argument("--token-file", type=Path, help="holds a token of a user with the role meter")
    meter.add_argument("--ca-file", help="of who has signed the server's certificate")
    prints = parts.add_parser("install", help="prints what has to be in the cluster before")
    prints.add_argument(
        "--native-policy",
        action="store_true",
        help="and what admits plain native pods inside the API server; needs Kubernetes 1.36",
    )
    return parser


def _install(options: argparse.Namespace) -> int:
    import yaml

    made = install.objects(options.namespace) + (install.native(options.namespace) if options.native_policy else [])
    sys.stdout.write(yaml.safe_dump_all(made, sort_keys=False))
    return 0


def connection(options: argparse.Namespace, environ: Mapping[str, str]) -> Connection:
    """By the option, by KUBECONFIG, or by the service account. Raises BadInput."""
    file = options.kubeconfig or (Path(environ["KUBECONFIG"]) if environ.get("KUBECONFIG") else None)
    if file is not None:
        return from_kubeconfig(file)
    return from_account(environ.get("KUBERNETES_SERVICE_HOST", ""), environ.get("KUBERNETES_SERVICE_PORT", ""))


async def _until_signal(options: argparse.Namespace, environ: Mapping[str, str]) -> int:
    work = {"controller": _controller, "agent": _agent, "webhook": _webhook, "meter": _meter}[options.part]
    task = asyncio.ensure_future(work(options, environ))
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, task.cancel)
    beating = asyncio.ensure_future(beating_loop())
    with contextlib.suppress(asyncio.CancelledError):
        await task
    beating.cancel()
    return 0


async def _controller(options: argparse.Namespace, environ: Mapping[str, str]) -> None:
    gc.freeze()
    gc.set_threshold(*SELDOM)
    with contextlib.suppress(ImportError):  # gpupool-native is an older one: NumPy decides the same
        from gpupool_native import kernel_path

        kernel.adopt(kernel_path())
    settings = Settings.parse(options.settings)
    identity = f"{socket.gethostname()}_{secrets.token_hex(4)}"
    health = Health()
    server = connection(options, environ)
    async with (
        KubeApi(server) as api,
        KubeApi(server, connections=1) as for_lease,  # never behind releases: a lease that waits in a queue is lost
        serving(options.listen, health, health.sentence),
    ):
        journal = Journal(api, options.namespace) if options.metered else None
        leader = Leader(for_lease, options.namespace, install.CONTROLLER, identity, time.monotonic)
        while True:

            async def lead() -> None:
                await _lead(Controller(api, time.time_ns, settings, journal), health)

            if options.alone:
                await lead()
            else:
                health.leader = leader
                await leader.lead(lead)


async def _webhook(options: argparse.Namespace, environ: Mapping[str, str]) -> None:
    async with KubeApi(connection(options, environ)) as api:
        await Webhook(api, Place.of(options.listen, options.namespace), Settings.parse(options.settings)).run()


async def _meter(options: argparse.Namespace, environ: Mapping[str, str]) -> None:
    def ask(method: str, path: str, said: dict[str, Any] | None) -> Any:
        # A connection each: it is called in any thread, and the token may be another by now.
        token = options.token_file.read_text().strip() if options.token_file else None
        settings = ClientSettings(url=options.server, token=token, ca_file=options.ca_file)
        with Api(settings) as server:
            return server.request(method, path, said, whole_state=True)

    async with KubeApi(connection(options, environ)) as api:
        await Meter(api, options.namespace, ask).run()


async def _agent(options: argparse.Namespace, environ: Mapping[str, str]) -> None:
    node = options.node or environ.get("NODE_NAME") or socket.gethostname()
    probe = _probe(options, node)
    machine = probe.scan()
    program = arbiter_path()
    entered = _Entered()
    arbiter = Arbiter(program if program.exists() else None, random.random, entered)
    driver = options.host / options.driver_root.relative_to("/")
    seat = JobSeat(SHOWN, host=options.host, driver_root=driver)
    preparing = Preparing(options.state_dir, machine, probe, arbiter, seat)
    places = Places(options.state_dir, options.cdi, options.socket)
    records = kubelet.Kubelet(options.kubelet, options.plugins)
    async with KubeApi(connection(options, environ)) as api, asyncio.TaskGroup() as tasks:
        agent = NodeAgent(api, node, probe, machine, preparing, records, places, options.slots)
        events = Events(api, Counts(), wall_ns, "agent")
        loop = asyncio.get_running_loop()

        def tell(event: Event) -> None:
            loop.call_soon_threadsafe(events.tell, event)

        audit = NodeAudit(
            probe,
            machine,
            preparing,
            arbiter.status,
            state_dir=options.state_dir,
            driver_root=driver,
            reaction=options.fence_reaction,
            pods=agent.pods,
            tell=tell,
        )
        entered.reconciler = audit.reconciler
        telling = tasks.create_task(events.run())
        audit.reconciler.start()
        try:
            metrics = NodeMetrics(agent.seen, dcgm=options.dcgm_names, findings=audit.counts)
            async with serving(options.listen, metrics):
                await agent.run()
        finally:
            telling.cancel()
            audit.reconciler.close()
            arbiter.close()
            await asyncio.to_thread(audit.reconciler.join, ENDING_SECONDS)
            await asyncio.to_thread(arbiter.join, ENDING_SECONDS)


class _Entered:
    """Takes the arbiter's word that a process has a slot to the audit, which is made after the arbiter."""

    def __init__(self) -> None:
        self.reconciler: Reconciler | None = None

    def __call__(self, allocation: str, pid: int) -> None:
        if self.reconciler is not None:
            self.reconciler.entered(allocation, pid)


def _probe(options: argparse.Namespace, node: str) -> Probe:
    """The node's cards, or simulated ones in a file below the state directory. Raises Unavailable without cards."""
    if options.sim:
        (machine,) = parse_sim(options.sim, node)
        file = options.state_dir / "simgpu" / node / "machine"
        file.parent.mkdir(parents=True, exist_ok=True)
        control = options.state_dir / "simulated"
        control.mkdir(exist_ok=True)
        return SimulatedProbe(machine, control, file)
    probe, answers = first_available()
    if probe is None:
        said = "; ".join(f"{name}: {answer.reason}" for name, answer in answers.items())
        raise Unavailable(f"no card is found on this node ({said})", hint="--sim 4xL40S  simulates some")
    return probe


async def _lead(controller: Controller, health: Health) -> None:
    health.controller = controller
    try:
        await controller.run()
    finally:
        health.controller = None


if __name__ == "__main__":
    register.end_process = begin_anew
    register.pulse.scale = scale_from(os.environ)
    sys.exit(main(sys.argv[1:], os.environ))
