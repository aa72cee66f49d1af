"""`gpupool expose`: publish a port of a job in one call, and say whether it answers."""

from __future__ import annotations

import argparse
import http.client
import os
import socket
import sys
import time
from typing import Any, Final

from gpupool.terminal.context import CommandContext, print_notice
from gpupool.terminal.output import Row, format_pairs, print_data
from gpupool.terminal.parser import OBJECT_FORMATS, CommandParser, add_output, integer_within
from gpupool.terminal.references import job_path

_LOOK_SECONDS: Final = 0.2
_ANSWER_SECONDS: Final = 3.0


def register(parser: CommandParser) -> None:
    parser.about = """
    Puts a load balancer of the job's network in front of a port of a running job. Where the network has a gateway and
    an admin opened ports of the machine, a free one leads there too. What is published ends with the job. The same
    command once more changes nothing and probes again.
    """
    parser.examples = [
        "gpupool expose serve 8000 --http",
        "gpupool expose serve 8000 --http --host api.example.com --name api",
        "gpupool expose database 5432",
    ]
    parser.add_argument("job", metavar="JOB", help="a name or id; `last` is your newest")
    parser.add_argument(
        "port",
        metavar="PORT",
        type=integer_within("PORT", "a port", 1, 65535),
        help="on which the job serves",
    )
    parser.add_argument(
        "--http", action="store_true", help="by a load balancer of HTTP, on port 80"
    )
    parser.add_argument("--host", metavar="HOST", help="with --http: the only host it answers")
    parser.add_argument(
        "--name", metavar="NAME", help="of the load balancer, also in DNS (default: JOB-PORT)"
    )
    parser.add_argument(
        "--timeout",
        type=integer_within("--timeout", "seconds", 0, 600),
        default=15,
        metavar="N",
        help="seconds to wait until the job answers (default: 15)",
    )
    add_output(parser, OBJECT_FORMATS)


def run(options: argparse.Namespace, context: CommandContext) -> int:
    path = f"{job_path(options.job)}/exposures"
    body = {
        "port": options.port,
        "is_http": options.http,
        "host": options.host,
        "name": options.name,
    }
    key = os.urandom(16).hex()
    made: Row = context.api.request("POST", path, body, idempotency_key=key)
    made, probe = _await_answer(context, path, made, options.timeout)
    url = build_url(made, _find_machine(context))
    if options.output != "table":
        print_data({**made, "url": url, "probe": probe}, options.output)
    else:
        facts = [
            ("address", _describe_inside(made)),
            ("url", url),
            ("probe", probe["text"]),
        ]
        sys.stdout.write(format_pairs([fact for fact in facts if fact[1]]) + "\n")
        if made["inside_reason"]:
            print_notice(f"jobs of network {made['network']} reach it; {made['inside_reason']}")
    return 0 if probe["is_answered"] is not False else 1


def _await_answer(
    context: CommandContext, path: str, made: Row, seconds: int
) -> tuple[Row, dict[str, Any]]:
    """Probe until the job answers, or the time is over; the last exposure and probe."""
    deadline = time.monotonic() + seconds
    machine = _find_machine(context)
    while True:
        probe = _probe(made, machine)
        if probe["is_answered"] is not False or time.monotonic() >= deadline:
            return made, probe
        time.sleep(_LOOK_SECONDS)
        shown = context.api.request("GET", path)
        made = next((one for one in shown if one["port"] == made["port"]), made)


def _probe(made: Row, machine: str) -> dict[str, Any]:
    """Ask the job: from here where a port of the machine leads there, else by its balancer's probe."""
    if made["machine_port"] is not None:
        return probe_outside(machine, made["machine_port"], made["is_http"], made["host"])
    http = made["load_balancer"]["http"]
    if http is None:
        text = "not probed: only jobs of the network reach it"
        return {"is_answered": None, "text": text}
    if not http["members"]:
        return {"is_answered": False, "text": "the job does not run"}
    member = http["members"][0]
    if http["state"] != "ready":
        return {"is_answered": False, "text": f"the proxy is {http['state']} {http['reason']}"}
    check = f" ({member['check']})" if member["check"] else ""
    is_up = member["state"] == "up"
    text = f"the load balancer finds the job {member['state']}{check}"
    return {"is_answered": is_up, "text": text}


def probe_outside(machine: str, port: int, is_http: bool, host: str | None) -> dict[str, Any]:
    """Connect from here, and ask for `/` where it is HTTP."""
    began = time.monotonic()
    try:
        if not is_http:
            socket.create_connection((machine, port), _ANSWER_SECONDS).close()
            answer = "a connection"
            is_answered = True
        else:
            status = _ask(machine, port, host)
            answer = f"HTTP {status}"
            # The proxy itself says 503 while no job answers, and 502 and 504 for bad answers.
            is_answered = status not in (502, 503, 504)
    except (OSError, http.client.HTTPException) as error:
        reason = str(error) or type(error).__name__
        return {"is_answered": False, "text": f"{machine}:{port} does not answer: {reason}"}
    spent = (time.monotonic() - began) * 1000
    return {"is_answered": is_answered, "text": f"{answer} in {spent:.0f} ms from here"}


def _ask(machine: str, port: int, host: str | None) -> int:
    connection = http.client.HTTPConnection(machine, port, timeout=_ANSWER_SECONDS)
    try:
        connection.request("GET", "/", headers={} if host is None else {"Host": host})
        return connection.getresponse().status
    finally:
        connection.close()


def build_url(made: Row, machine: str) -> str | None:
    """Return where clients outside of the pool find it; None: they do not."""
    if made["machine_port"] is None:
        return None
    kind = "http" if made["is_http"] else "tcp"
    host = (made["host"] or machine).replace("*", "www")
    return f"{kind}://{host}:{made['machine_port']}"


def _describe_inside(made: Row) -> str:
    balancer = made["load_balancer"]
    kind = "http" if made["is_http"] else "tcp"
    # A name in DNS has no underscore.
    name = balancer["name"].lower().replace("_", "-")
    return f"{kind}://{name}:{balancer['port']} ({balancer['address']})"


def _find_machine(context: CommandContext) -> str:
    """Return the address of the pool's machine as clients reach it."""
    if not context.api.local:
        return context.api.endpoint.host
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as own:
            # Sends nothing: the kernel chooses the address of this machine (RFC 5737).
            own.connect(("192.0.2.1", 9))
            address: str = own.getsockname()[0]
            return address
    except OSError:
        return socket.gethostname()
