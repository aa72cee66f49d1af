"""The options of `gpupool network lb-create` for load balancers of HTTP."""

from __future__ import annotations

import argparse
import re
from pathlib import Path
from typing import Any

from gpupool.base.errors import BadInput
from gpupool.terminal.parser import CommandParser, integer_within

#: `[HOST][/PATH]=JOB[,JOB]:PORT`
_ROUTE = re.compile(r"([^/=]*)(/[^=]*)?=([^:=]+):([0-9]{1,5})")


def add_http_options(create: CommandParser) -> None:
    """Add the options."""
    create.add_argument(
        "--http", action="store_true", help="answer HTTP: routes, certificate, draining"
    )
    create.add_argument(
        "--route",
        action="append",
        default=[],
        metavar="[HOST][/PATH]=JOB:PORT",
        help="with --http: jobs that answer requests of a host and path; may be repeated",
    )
    create.add_argument(
        "--certificate",
        type=Path,
        metavar="FILE",
        help="with --http: PEM of the chain and its private key; listens on --https-port too",
    )
    create.add_argument(
        "--https-port",
        type=integer_within("--https-port", "a port", 1, 65535),
        metavar="PORT",
        help="with --certificate (default: 443)",
    )
    create.add_argument(
        "--redirect", action="store_true", help="with --certificate: send plain HTTP to HTTPS"
    )
    create.add_argument(
        "--sticky", action="store_true", help="with --http: keep a client at one job, by a cookie"
    )
    create.add_argument(
        "--check-path",
        metavar="PATH",
        help="with --http: jobs have to answer it with 200 to 399 (default: to accept connections)",
    )
    create.add_argument(
        "--drain-seconds",
        type=integer_within("--drain-seconds", "seconds", 0, 60),
        metavar="N",
        help="with --http: how long a job that is stopped may finish its requests (default: 10)",
    )


def make_http_settings(options: argparse.Namespace) -> dict[str, Any] | None:
    """Make the part of the request that is about HTTP; None without --http. Raises BadInput."""
    given = {
        "--route": options.route,
        "--certificate": options.certificate,
        "--https-port": options.https_port,
        "--redirect": options.redirect,
        "--sticky": options.sticky,
        "--check-path": options.check_path,
        "--drain-seconds": options.drain_seconds is not None,
    }
    if not options.http:
        wrong = ", ".join(name for name, value in given.items() if value)
        if wrong:
            raise BadInput(f"{wrong} is for load balancers of HTTP", hint="add --http")
        return None
    if not options.check:
        raise BadInput(
            "--http probes its jobs always, and --no-check is given", hint="leave --no-check out"
        )
    settings = {
        "routes": [parse_route(text) for text in options.route],
        "redirects": options.redirect,
        "is_sticky": options.sticky,
        "check_path": options.check_path,
    }
    if options.certificate is not None:
        settings["certificate"] = read_certificate(options.certificate)
    if options.https_port is not None:
        settings["https_port"] = options.https_port
    if options.drain_seconds is not None:
        settings["drain_seconds"] = options.drain_seconds
    return settings


def parse_route(text: str) -> dict[str, Any]:
    """Parse `api.example.com/v1=serve:8000`. Raises BadInput."""
    found = _ROUTE.fullmatch(text)
    if found is None:
        raise BadInput(
            f"not a route: {text[:80]!r}", hint="write it like api.example.com/v1=serve:8000"
        )
    host, path, jobs, port = found.groups()
    return {
        "host": host or None,
        "path": path or "/",
        "backends": jobs.split(","),
        "target_port": int(port),
    }


def read_certificate(path: Path) -> str:
    """Read a file of PEM. Raises BadInput."""
    try:
        return path.read_text(encoding="ascii")
    except (OSError, ValueError) as error:
        raise BadInput(f"cannot read the certificate {path}: {error}") from error
