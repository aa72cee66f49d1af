"""`gpupool notebook`: JupyterLab as a job, and a link to its pages."""

from __future__ import annotations

import argparse
import os
import sys
from typing import Any, Final

from gpupool.base.errors import NotFound, WrongState
from gpupool.client.attached_run import ENDED
from gpupool.client.submission import job_body
from gpupool.terminal.context import CommandContext, print_notice
from gpupool.terminal.output import print_data
from gpupool.terminal.parser import OBJECT_FORMATS, CommandParser, one_of
from gpupool.terminal.references import job_path

#: The name of the service: its socket is `$GPUPOOL_RUN/nb.sock`.
SERVICE: Final = "nb"
#: Starts JupyterLab on a socket that the job's user alone can reach. Its token is in a file of the
#: same directory and never in argv, which every user of the machine can read.
SCRIPT: Final = """\
umask 077
command -v jupyter >/dev/null || { echo "jupyter is not on the job's PATH: pip install jupyterlab" >&2; exit 127; }
cd "$GPUPOOL_RUN" || exit 1
head -c 32 /dev/urandom | od -An -v -tx1 | tr -d ' \\n' > nb.token
cd - >/dev/null || exit 1
export JUPYTER_TOKEN_FILE="$GPUPOOL_RUN/nb.token"
exec jupyter lab --no-browser --ServerApp.sock="$GPUPOOL_RUN/nb.sock" --ServerApp.sock_mode=0600 \\
  --ServerApp.base_url="/jobs/$GPUPOOL_JOB/nb/" --ServerApp.allow_root=True --ServerApp.root_dir="$1" \\
  --ServerApp.open_browser=False --ServerApp.quit_button=False
"""
#: Seconds in which a notebook that has its share is shown; JupyterLab itself takes 2 to 20 s.
_READY_SECONDS: Final = 120.0
_POLL_SECONDS: Final = 20.0


def register(parser: CommandParser) -> None:
    parser.about = """
    Starts JupyterLab in a share of a card and prints a link for your browser. The link works once, for ten minutes; the
    browser then stays logged in for 12 hours. Ask for another one with --open. No port is opened on the job's machine:
    pages come through the pool, for you alone. JupyterLab is that of the PATH where you type this. It runs on until
    gpupool stop.
    """
    parser.examples = [
        "gpupool notebook --gpu 0.25 --memory 6GiB",
        "gpupool notebook --name nb --max-time 8h --when-idle suspend",
        "gpupool notebook --open nb",
    ]
    parser.add_argument(
        "--open", metavar="JOB", dest="running", help="print a new link to a running one"
    )
    parser.add_argument(
        "--gpu", default="0.25", metavar="SHARE", help="compute of a card (default: 0.25)"
    )
    parser.add_argument(
        "--memory", metavar="SIZE", help="card memory: 6GiB (default: as the compute)"
    )
    parser.add_argument("--model", metavar="MODEL", help="only cards of this model, e.g. H200")
    parser.add_argument("--name", metavar="NAME", help="name of the job")
    parser.add_argument(
        "--dir", metavar="DIR", help="directory of the notebooks (default: where you are)"
    )
    parser.add_argument("--network", metavar="NAME", help="join that network of the tenant")
    parser.add_argument("--max-time", metavar="TIME", help="end it after 90s, 30m, 2h")
    parser.add_argument(
        "--when-idle", metavar="WHAT", help="suspend: it may be suspended while its share is unused"
    )
    parser.add_argument("--no-wait", action="store_true", help="refuse instead of waiting")
    parser.add_argument(
        "-o", "--output", type=one_of("-o", *OBJECT_FORMATS), default="table", metavar="FORMAT",
        help=f"{', '.join(OBJECT_FORMATS)} (default: table)",
    )  # fmt: skip


def run(options: argparse.Namespace, context: CommandContext) -> int:
    api = context.api
    if options.running is not None:
        job = api.request("GET", job_path(options.running))
    else:
        job = _submit(options, context)
        job = _await_start(context, job)
    visit = api.request(
        "POST", f"{job_path(job['id'])}/visits", {"service": SERVICE, "path": "lab"}
    )
    if options.output != "table":
        print_data({"job": job["id"], "name": job["name"], **visit}, options.output)
        return 0
    sys.stdout.write(f"{visit['url']}\n")
    rule = _find_rule(context, job["id"])
    if rule is not None:
        print_notice(f"{job['name']}: {rule}")
    if sys.stderr.isatty():
        print_notice(f"{job['name']}: {job['share']}; gpupool stop {job['name']}  ends it")
    return 0


def _find_rule(context: CommandContext, job: str) -> str | None:
    """Find what happens to the notebook when it is idle; None: nothing, or its server is older."""
    try:
        found = context.api.request("GET", f"{job_path(job)}/idle")
    except (NotFound, WrongState):
        return None
    rule: str | None = found["rule"]
    return rule


def _submit(options: argparse.Namespace, context: CommandContext) -> dict[str, Any]:
    directory = os.path.abspath(options.dir or os.curdir)
    body = job_body(
        ["sh", "-c", SCRIPT, "gpupool-notebook", directory],
        gpu=options.gpu,
        memory=options.memory,
        model=options.model,
        name=options.name or "notebook",
        network=options.network,
        max_time=options.max_time,
        when_idle=options.when_idle,
        wait=not options.no_wait,
        local=context.api.local,
    )
    answer = context.api.request("POST", "jobs", body, idempotency_key=os.urandom(16).hex())
    job: dict[str, Any] = answer["first"]
    return job


def _await_start(context: CommandContext, job: dict[str, Any]) -> dict[str, Any]:
    """Wait until the job runs. Raises WrongState when it ends before."""
    reason = ""
    while job["state"] != "running":
        if job["state"] in ENDED:
            raise WrongState(
                f"{job['name']} {job['state']}: {job['reason']}", hint=f"gpupool logs {job['id']}"
            )
        if job["reason"] and job["reason"] != reason:
            reason = job["reason"]
            print_notice(f"{job['name']} waits: {reason}")
        query = {"generation": job["generation"], "wait_seconds": _POLL_SECONDS}
        job = context.api.request(
            "GET", job_path(job["id"]), query=query, timeout=_POLL_SECONDS + 15
        )
    return job
