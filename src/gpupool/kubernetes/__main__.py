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

from gpupool.audit.fence_auditor import FenceAuditor
from gpupool.base.anew import begin_anew
from gpupool.base.client_settings import ClientSettings
from gpupool.base.clock import wall_ns
from gpupool.base.errors import GpupoolError, ServiceUnavailable
from gpupool.base.lost_work import watch_loop, watch_threads
from gpupool.base.silence import read_scale
from gpupool.base.supervision import beating_loop, register
from gpupool.client.transport import Api
from gpupool.kubernetes.admission.webhook import Webhook, WebhookAddress
from gpupool.kubernetes.arguments import build_parser
from gpupool.kubernetes.client.api import KubeApi
from gpupool.kubernetes.client.connection import (
    ServerConnection,
    load_kubeconfig,
    load_service_account,
)
from gpupool.kubernetes.client.leader_election import LeaseCandidate
from gpupool.kubernetes.controller.controller import PoolController
from gpupool.kubernetes.ledger.journal import IntervalJournal
from gpupool.kubernetes.manifests import install
from gpupool.kubernetes.metering.meter import Meter
from gpupool.kubernetes.node import kubelet
from gpupool.kubernetes.node.agent import AgentPaths, NodeAgent
from gpupool.kubernetes.node.audit import NodeAudit
from gpupool.kubernetes.node.container_limits import ContainerLimits
from gpupool.kubernetes.node.metrics import NodeMetrics
from gpupool.kubernetes.node.prepare import SHOWN, EntryPreparer
from gpupool.kubernetes.reporting.counters import ControllerCounters
from gpupool.kubernetes.reporting.events import Event, EventWriter
from gpupool.kubernetes.resources.pool_settings import Settings
from gpupool.kubernetes.serving import Health, serving
from gpupool.mechanisms.arbiter import ArbiterProcess
from gpupool.mechanisms.contract import JobSeat
from gpupool.mechanisms.foreign_pieces import ForeignPieceFinder
from gpupool.probes.contract import Probe
from gpupool.probes.registry import find_first_available
from gpupool.probes.simulated import SimulatedProbe, parse_sim
from gpupool.scheduling import adopt_native_library
from gpupool_native import arbiter_path

#: Seconds that the audit and the arbiter get to end.
ENDING_SECONDS = 5.0
#: Thresholds of the garbage collector's three generations. What the cache keeps of pods has no
#: cycles and stays for long; with Python's defaults the searches took a sixth of the controller's
#: time.
SELDOM = (50_000, 20, 100)


def main(arguments: Sequence[str], environ: Mapping[str, str]) -> int:
    """Run the part until a signal says to end; 0 then, the error's exit code when it could not
    begin."""
    options = build_parser(__doc__ or "").parse_args(arguments)
    logging.basicConfig(
        level=options.log_level.upper(), format="%(asctime)s %(name)s %(levelname)s %(message)s"
    )
    try:
        if options.part == "install":
            return _install(options)
        return asyncio.run(_until_signal(options, environ))
    except GpupoolError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code


def _install(options: argparse.Namespace) -> int:
    import yaml

    made = install.objects(options.namespace) + (
        install.native(options.namespace) if options.native_policy else []
    )
    if options.kube_ovn_namespace:
        made += install.kube_ovn(options.namespace, options.kube_ovn_namespace)
    sys.stdout.write(yaml.safe_dump_all(made, sort_keys=False))
    return 0


def connection(options: argparse.Namespace, environ: Mapping[str, str]) -> ServerConnection:
    """By the option, by KUBECONFIG, or by the service account. Raises BadInput."""
    file = options.kubeconfig or (
        Path(environ["KUBECONFIG"]) if environ.get("KUBECONFIG") else None
    )
    if file is not None:
        return load_kubeconfig(file)
    return load_service_account(
        environ.get("KUBERNETES_SERVICE_HOST", ""), environ.get("KUBERNETES_SERVICE_PORT", "")
    )


async def _until_signal(options: argparse.Namespace, environ: Mapping[str, str]) -> int:
    work = {"controller": _controller, "agent": _agent, "webhook": _webhook, "meter": _meter}[
        options.part
    ]
    task = asyncio.ensure_future(work(options, environ))
    loop = asyncio.get_running_loop()
    watch_loop(loop)
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

        adopt_native_library(kernel_path())
    settings = Settings.parse(options.settings)
    identity = f"{socket.gethostname()}_{secrets.token_hex(4)}"
    health = Health()
    server = connection(options, environ)
    async with (
        KubeApi(server) as api,
        KubeApi(
            server, connections=1
        ) as for_lease,  # never behind releases: a lease that waits in a queue is lost
        serving(options.listen, health, health.sentence),
    ):
        journal = IntervalJournal(api, options.namespace) if options.metered else None
        leader = LeaseCandidate(
            for_lease, options.namespace, install.CONTROLLER, identity, time.monotonic
        )
        while True:

            async def lead() -> None:
                controller = PoolController(
                    api, time.time_ns, settings, journal, options.kube_ovn_namespace
                )
                await _lead(controller, health)

            if options.alone:
                await lead()
            else:
                health.leader = leader
                await leader.lead(lead)


async def _webhook(options: argparse.Namespace, environ: Mapping[str, str]) -> None:
    async with KubeApi(connection(options, environ)) as api:
        await Webhook(
            api,
            WebhookAddress.of(options.listen, options.namespace),
            Settings.parse(options.settings),
        ).run()


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
    entered = _AuditNotifier()
    arbiter = ArbiterProcess(program if program.exists() else None, random.random, entered)
    driver = options.host / options.driver_root.relative_to("/")
    seat = JobSeat(SHOWN, host=options.host, driver_root=driver)
    limits = ContainerLimits(options.state_dir, options.host, options.socket)
    preparing = EntryPreparer(options.state_dir, machine, probe, arbiter, seat, limits=limits)
    places = AgentPaths(options.state_dir, options.cdi, options.socket)
    records = kubelet.KubeletClient(options.kubelet, options.plugins)
    async with KubeApi(connection(options, environ)) as api, asyncio.TaskGroup() as tasks:
        agent = NodeAgent(
            api,
            node,
            probe,
            machine,
            preparing,
            records,
            places,
            options.slots,
            find_pieces=ForeignPieceFinder(options.state_dir).find,
        )
        events = EventWriter(api, ControllerCounters(), wall_ns, "agent")
        loop = asyncio.get_running_loop()

        def tell(event: Event) -> None:
            loop.call_soon_threadsafe(events.enqueue_event, event)

        audit = NodeAudit(
            probe,
            machine,
            preparing,
            arbiter.query_status,
            state_dir=options.state_dir,
            driver_root=driver,
            reaction=options.fence_reaction,
            pods=agent.list_pods,
            tell=tell,
        )
        entered.auditor = audit.auditor
        telling = tasks.create_task(events.run())
        audit.auditor.start()
        try:
            metrics = NodeMetrics(
                agent.observe_node, dcgm=options.dcgm_names, findings=audit.count_findings
            )
            async with serving(options.listen, metrics):
                await agent.run()
        finally:
            telling.cancel()
            audit.auditor.close()
            arbiter.close()
            await asyncio.to_thread(audit.auditor.join, ENDING_SECONDS)
            await asyncio.to_thread(arbiter.join, ENDING_SECONDS)


class _AuditNotifier:
    """Takes the arbiter's word that a process has a slot to the audit, which is made after the
    arbiter."""

    def __init__(self) -> None:
        self.auditor: FenceAuditor | None = None

    def __call__(self, allocation: str, pid: int) -> None:
        if self.auditor is not None:
            self.auditor.note_slot(allocation, pid)


def _probe(options: argparse.Namespace, node: str) -> Probe:
    """The node's cards, or simulated ones in a file below the state directory. Raises ServiceUnavailable
    without cards."""
    if options.sim:
        (machine,) = parse_sim(options.sim, node)
        file = options.state_dir / "simgpu" / node / "machine"
        file.parent.mkdir(parents=True, exist_ok=True)
        control = options.state_dir / "simulated"
        control.mkdir(exist_ok=True)
        return SimulatedProbe(machine, control, file)
    probe, answers = find_first_available()
    if probe is None:
        said = "; ".join(f"{name}: {answer.reason}" for name, answer in answers.items())
        raise ServiceUnavailable(
            f"no card is found on this node ({said})", hint="--sim 4xL40S  simulates some"
        )
    return probe


async def _lead(controller: PoolController, health: Health) -> None:
    health.controller = controller
    try:
        await controller.run()
    finally:
        health.controller = None


if __name__ == "__main__":
    register.end_process = begin_anew
    register.pulse.scale = read_scale(os.environ)
    watch_threads()
    sys.exit(main(sys.argv[1:], os.environ))
