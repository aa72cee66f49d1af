"""`python -m gpupool.agent`: an agent in a process of its own, for one machine's cards.

Where it finds its server: `--url`, `--state-dir`, GPUPOOL_URL, GPUPOOL_STATE_DIR; its token:
GPUPOOL_TOKEN. SIGTERM and SIGINT end it and leave its jobs running; the next one takes them up.
"""

from __future__ import annotations

import argparse
import logging
import os
import signal
import socket
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

from gpupool.agent.config import AgentConfig
from gpupool.agent.jobs.faults import make_step_hook
from gpupool.agent.jobs.launch import machine_file
from gpupool.agent.labels import parse_labels
from gpupool.agent.loop import Agent
from gpupool.agent.network.tunnel_address import (
    check_tunnel_address,
    find_address_towards,
    read_tunnel_address,
)
from gpupool.agent.supervisor.log_quota import read_log_quota
from gpupool.audit.reactions import REACTIONS
from gpupool.base.anew import begin_anew
from gpupool.base.client_settings import ClientSettings, client_settings
from gpupool.base.errors import GpupoolError, ServiceUnavailable
from gpupool.base.lost_work import watch_threads
from gpupool.base.settings import PoolPaths
from gpupool.base.supervision import register
from gpupool.client.transport import Api
from gpupool.mechanisms.released_step import await_released_steps
from gpupool.probes.contract import Probe
from gpupool.probes.registry import find_first_available
from gpupool.probes.simulated import SimulatedProbe, parse_sim


def main(arguments: Sequence[str], environ: Mapping[str, str]) -> int:
    """Run until a signal says to end; 0 then, the error's exit code when it could not begin."""
    options = _parser().parse_args(arguments)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(levelname)s %(message)s")
    ended = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ended.set())
    try:
        agent = _agent(options, environ)
        agent.start()
    except GpupoolError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    ended.wait()
    agent.close()
    agent.join()
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m gpupool.agent", description=__doc__)
    parser.add_argument(
        "--state-dir",
        help="directory of the pool whose socket to use, and of this agent's own state",
    )
    parser.add_argument("--url", help="address of a server elsewhere; --work-dir is needed then")
    parser.add_argument("--work-dir", help="where this agent keeps its jobs; default: --state-dir")
    parser.add_argument(
        "--name", default=socket.gethostname(), help="name of the node, or of the agent of several"
    )
    parser.add_argument(
        "--sim", metavar="SPEC", help="simulated cards, as `gpupool up --sim` takes them"
    )
    parser.add_argument(
        "--pool-id", default="", help="the pool's id: makes simulated cards the same as the pool's"
    )
    parser.add_argument(
        "--label",
        action="append",
        default=[],
        metavar="[NODE:]KEY=VALUE",
        help="of its nodes, or of one: rack=r1",
    )
    parser.add_argument("--sample-seconds", type=float, default=10.0)
    parser.add_argument(
        "--fence-reaction", choices=REACTIONS, help="when a fenced job has more than its share"
    )
    parser.add_argument(
        "--tunnel-address",
        metavar="ADDRESS",
        help="IPv4 address of this machine that networks of tenants reach it at; default: "
        "GPUPOOL_TUNNEL_ADDRESS, or the one from which it reaches the server",
    )
    return parser


def _agent(options: argparse.Namespace, environ: Mapping[str, str]) -> Agent:
    settings = client_settings(environ, state_dir=options.state_dir)
    if options.url:
        settings = ClientSettings(
            None, options.url, settings.token, settings.own_state_dir, settings.ca_file
        )
    work_dir = options.work_dir or settings.state_dir or settings.own_state_dir
    paths = PoolPaths(Path(os.path.abspath(work_dir)))
    probes = _probes(options, paths)
    config = AgentConfig(
        name=options.name,
        pool_id=options.pool_id or "pool",
        owner_uid=os.geteuid(),
        owner_gid=os.getegid(),
        sample_seconds=options.sample_seconds,
        fence_reaction=options.fence_reaction,
        labels=parse_labels(options.label, tuple(probes)),
        log_quota=read_log_quota(environ),
        tunnel_address=_choose_tunnel_address(options, environ, settings),
    )
    return Agent(
        config, paths, lambda: Api(settings, follow=False), probes, fault=make_step_hook(environ)
    )


def _choose_tunnel_address(
    options: argparse.Namespace, environ: Mapping[str, str], settings: ClientSettings
) -> str:
    if options.tunnel_address:
        return check_tunnel_address(options.tunnel_address, "--tunnel-address")
    return read_tunnel_address(environ) or find_address_towards(settings.url)


def _probes(options: argparse.Namespace, paths: PoolPaths) -> dict[str, Probe]:
    """By node: the simulated machines asked for, else this machine's cards under the agent's own
    name."""
    if options.sim is not None:
        machines = parse_sim(options.sim, options.pool_id)
        return {
            one.name: SimulatedProbe(one, None, machine_file(paths.agent, one.name))
            for one in machines
        }
    # The first look opens NVML, which a step of an earlier agent may need closed.
    await_released_steps(paths.agent)
    probe, answers = find_first_available()
    if probe is None:
        said = "; ".join(f"{which}: {answer.reason}" for which, answer in answers.items())
        raise ServiceUnavailable(
            f"no cards were found on this machine ({said})", hint="gpupool doctor, or --sim 4xL40S"
        )
    return {options.name: probe}


if __name__ == "__main__":
    register.end_process = begin_anew
    watch_threads()
    sys.exit(main(sys.argv[1:], os.environ))
