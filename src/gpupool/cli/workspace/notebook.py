"""`gpupool notebook`: JupyterLab or VS Code as a job, and a link to its pages."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from typing import Any, Final

from gpupool.base.errors import BadOption, NotFound, ProgramMissing, WrongState
from gpupool.client.attached_run import ENDED, SETTLE_SECONDS
from gpupool.client.paging import iterate_items
from gpupool.client.submission import job_body
from gpupool.model.job import LIVE
from gpupool.model.workspaces.programs import JUPYTER, PROGRAMS, VSCODE, WorkspaceProgram
from gpupool.terminal.container_options import make_container
from gpupool.terminal.context import CommandContext, print_notice
from gpupool.terminal.output import print_data
from gpupool.terminal.parser import OBJECT_FORMATS, CommandParser, add_output
from gpupool.terminal.references import job_path

_POLL_SECONDS: Final = 20.0
#: Images of the Jupyter project go to an account of their own unless root is named.
_ROOT_VARIABLES: Final = {b"NB_USER": b"root", b"NB_UID": b"0", b"NB_GID": b"0"}


def register(parser: CommandParser) -> None:
    parser.about = """
    Starts JupyterLab in a share of a card and prints a link for your browser. The link works once, for ten minutes; the
    browser then stays logged in for 12 hours. Ask for another one with --open. No port is opened on the job's machine:
    pages come through the pool, for you alone. JupyterLab is that of the PATH where you type this. It runs on until
    gpupool stop. With --vscode it is VS Code, and with --image the JupyterLab or VS Code of that image.
    """
    parser.examples = [
        "gpupool notebook --gpu 0.25 --memory 6GiB",
        "gpupool notebook --vscode --dir ~/project",
        "gpupool notebook --image quay.io/jupyter/pytorch-notebook --pull missing",
        "gpupool notebook --name nb --max-time 8h --when-idle suspend",
        "gpupool notebook --open nb",
    ]
    parser.add_argument(
        "--open", metavar="JOB", dest="running", help="print a new link to a running one"
    )
    parser.add_argument(
        "--vscode", action="store_true", help="VS Code: code-server or openvscode-server"
    )
    parser.add_argument(
        "--image", metavar="IMAGE", help="run it in a container of this image, as its root user"
    )
    parser.add_argument(
        "--pull", metavar="WHEN", help="never or missing: fetch the image (default: never)"
    )
    parser.add_argument(
        "--gpu", default="0.25", metavar="SHARE", help="compute of a card (default: 0.25)"
    )
    parser.add_argument(
        "--memory", "--mem", metavar="SIZE", help="card memory: 6GiB (default: as the compute)"
    )
    parser.add_argument("--model", metavar="MODEL", help="only cards of this model, e.g. H200")
    parser.add_argument(
        "--name", metavar="NAME", help="name of the job (default: nb-1, nb-2 and so on)"
    )
    parser.add_argument(
        "--dir",
        metavar="DIR",
        help="directory of the work, which a container sees too (default: where you are; in a "
        "container its home)",
    )
    parser.add_argument("--network", metavar="NAME", help="join that network of the tenant")
    parser.add_argument("--max-time", metavar="TIME", help="end it after 90s, 30m, 2h")
    parser.add_argument(
        "--when-idle", metavar="WHAT", help="suspend: it may be suspended while its share is unused"
    )
    parser.add_argument("--no-wait", action="store_true", help="refuse instead of waiting")
    add_output(parser, OBJECT_FORMATS)


def run(options: argparse.Namespace, context: CommandContext) -> int:
    api = context.api
    if options.running is not None:
        job = api.request("GET", job_path(options.running))
        program = _find_program(job)
    else:
        program = VSCODE if options.vscode else JUPYTER
        if options.image is None:
            check_program(program, context)
        job = _start(program, options, context)
    page = {"service": program.service, "path": program.page}
    visit = api.request("POST", f"{job_path(job['id'])}/visits", page)
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


def check_program(program: WorkspaceProgram, context: CommandContext) -> None:
    """Raise ProgramMissing where the job would end at once, for want of the program.

    A job has the PATH of this process. Whether another machine has the program is not known here.
    """
    path = os.environ.get("PATH", os.defpath)
    if any(shutil.which(name, path=path) for name in program.programs) or not context.api.local:
        return
    shown = context.api.request("GET", "workspace-programs")
    if not all(one["one_machine"] for one in shown):
        return
    raise ProgramMissing(
        f"{program.title} is not installed here: {' or '.join(program.programs)} is not on your "
        "PATH, which its job has too",
        hint=f"{program.install}, or an image that has it: --image IMAGE",
        programs=list(program.programs),
        install=program.install,
    )


def _find_program(job: dict[str, Any]) -> WorkspaceProgram:
    """Find the program of a job by its command; JupyterLab where the command is not shown."""
    command = job.get("command") or []
    return next((one for one in PROGRAMS if one.marker in command[3:4]), JUPYTER)


def _start(
    program: WorkspaceProgram, options: argparse.Namespace, context: CommandContext
) -> dict[str, Any]:
    """Submit the job and wait until it runs; Ctrl-C before that stops it."""
    from gpupool.cli.work.logs import stop_followed_job, submit_followed_job

    submitted = submit_followed_job(context.api, _make_body(program, options, context))
    try:
        return _await_start(context, submitted["first"])
    except KeyboardInterrupt:
        # The connection is in the middle of a long poll; the order to stop needs one of its own.
        context.api.close()
        stop_followed_job(context.api, submitted)
        raise


def _make_body(
    program: WorkspaceProgram, options: argparse.Namespace, context: CommandContext
) -> dict[str, Any]:
    local = context.api.local
    container = None
    directory = ""
    if options.image is None:
        if options.pull is not None:
            raise BadOption("--pull without a container", hint="add --image IMAGE")
        directory = os.path.abspath(options.dir or os.curdir)
    else:
        container = _make_container(options, local=local)
        if options.dir is not None:
            directory = os.path.abspath(options.dir)
    return job_body(
        program.make_argv(directory),
        gpu=options.gpu,
        memory=options.memory,
        model=options.model,
        name=options.name or _choose_name(program, context),
        network=options.network,
        max_time=options.max_time,
        when_idle=options.when_idle,
        wait=not options.no_wait,
        local=local,
        container=container,
        environ=None if container is None else _ROOT_VARIABLES,
    )


def _choose_name(program: WorkspaceProgram, context: CommandContext) -> str:
    """Choose the first of nb-1, nb-2, ... (vscode-1, ...) that no live job of the caller's has."""
    names = {job["name"] for job in iterate_items(context.api, "jobs", {"state": sorted(LIVE)})}
    stem = "nb" if program is JUPYTER else "vscode"
    number = 1
    while f"{stem}-{number}" in names:
        number += 1
    return f"{stem}-{number}"


def _make_container(options: argparse.Namespace, *, local: bool) -> dict[str, Any]:
    """Make the container of the job. Raises BadOption, ContainersUnavailable, ImageNotFound."""
    given = argparse.Namespace(
        image=options.image,
        pull=options.pull,
        volume=[],
        # Root of the container is the account of the job outside, which the pool expects to find
        # behind the service's socket; another user of the image would be no account of this node.
        user="0",
        workdir="/",
        env=[],
        registry_auth=None,
    )
    if options.dir is not None:
        path = os.path.abspath(options.dir)
        given.volume = [f"{path}:{path}"]
    container, _ = make_container(given, attached=False, local=local)  # type: ignore[arg-type]
    return container


def _await_start(context: CommandContext, job: dict[str, Any]) -> dict[str, Any]:
    """Wait until the job runs. Raises WrongState when it ends before."""
    reason = ""
    seconds = SETTLE_SECONDS
    while job["state"] != "running":
        if job["state"] in ENDED:
            raise WrongState(
                f"{job['name']} {job['state']}: {job['reason']}", hint=f"gpupool logs {job['id']}"
            )
        query = {"generation": job["generation"], "wait_seconds": seconds}
        job = context.api.request("GET", job_path(job["id"]), query=query, timeout=seconds + 15)
        seconds = _POLL_SECONDS
        if job["state"] == "pending" and job["reason"] and job["reason"] != reason:
            reason = job["reason"]
            print_notice(f"{job['name']} waits: {reason}")
    return job
