"""`gpupool run`: a command in a share of a card, attached to this terminal.

stdout carries the program's bytes only; every word of ours goes to stderr, and few of them
when stderr is no terminal. The exit code is the program's.
"""

from __future__ import annotations

import os
import sys

from gpupool.cli.context import Context, say

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from gpupool.cli.parser import Parser
    from gpupool.cli.share_options import Options

    Job = dict[str, Any]

ABOUT = """
Terminal, signals and exit code pass through. stdout carries only the program's bytes; gpupool speaks on
stderr: on a terminal it says what it waits for and what was granted, otherwise only why it waits, refusals,
and ends that the program did not choose. Ctrl-C goes to the program, and its share is free when it ends. One that
does not listen is ended by  gpupool stop JOB, or, where its output goes to a file or pipe, by Ctrl-C pressed twice.

The command begins after --, or at the first word that is no option.

Exit code: the job's own; 128 + N after signal N; 127 if the command is not found; gpupool's own codes
(2 bad input, 3 refused, 7 no pool) before the job starts.
"""


def register(parser: Parser) -> None:
    from gpupool.cli.parser import add_table
    from gpupool.cli.share_options import OF

    add_table(parser, OF["run"])
    parser.placeholder = "[--] COMMAND [ARG...]"
    parser.about = ABOUT
    parser.examples = [
        "gpupool run --gpu 0.3 --memory 8GiB -- python train.py",
        "gpupool run --gpu 1 --model H200 --max-time 2h -- ./bench",
        "gpupool run --gpu 4 -- torchrun --nproc-per-node 4 train.py",
        "gpupool run --gpu 0.5 --count 2 --no-wait nvidia-smi",
    ]


def run(options: Options, context: Context) -> int:
    from gpupool.cli.share_options import body
    from gpupool.client.attached import AttachedRun

    api = context.api
    words = _Words(options)
    if not api.local:
        return _elsewhere(options, context, words)
    asked = body(options, attached=True, local=True)
    attached = AttachedRun(api, asked, words.tell, pty=os.isatty(0) and os.isatty(1))
    with _Signals():
        code = attached.run()
    words.ended(attached.job)
    return code


class _Words:
    """What is said on stderr, and when: `--quiet`, `--verbose` and a terminal decide."""

    def __init__(self, options: Options) -> None:
        self.chatty = not options.quiet and (options.verbose or sys.stderr.isatty())
        self.quiet = options.quiet
        self._said = ""

    def tell(self, what: str, job: Job) -> None:
        if what == "waiting":
            reason = job["reason"] or "waiting to be placed"
            if not self.quiet and (self.chatty or job["reason"]) and reason != self._said:
                self._said = reason
                say(f"{job['name']} waits: {reason}")
        elif what == "granted":
            if self.chatty:
                say(grant_line(job))
        elif what == "away" and self.chatty:
            say(f"the pool does not answer; {job['name']} is not affected, waiting for the pool to come back")
        elif what == "back" and self.chatty:
            say("the pool is back")

    def ended(self, job: Job) -> None:
        """Ends that the program did not choose are told always, its own only to a terminal."""
        from gpupool.client.attached import ENDED

        if job["state"] not in ENDED:
            say(f"{job['name']} has ended; the pool does not answer, its share is freed when it is back")
        elif job["state"] in ("stopped", "lost") or (job["state"] == "failed" and job["exit_code"] is None):
            if not self.quiet:
                say(f"{job['name']} {job['state']}" + (f": {job['reason']}" if job["reason"] else ""))
        elif self.chatty and job["started_ns"] and job["ended_ns"]:
            from gpupool.base.units import format_duration

            lasted = format_duration((job["ended_ns"] - job["started_ns"]) / 1e9)
            say(f"{job['name']} {job['state']} after {lasted}" + exit_words(job))


def grant_line(job: Job) -> str:
    """`0.30 GPU (30 % compute) + 8192 MiB on node-1:0 (H200, SIMULATED) · fence: none (why)`."""
    cards = ", ".join(seat["device"] for seat in job["seats"])
    model = job["seats"][0]["model"] if job["seats"] else "--"
    mark = ", SIMULATED" if job["simulated"] else ""
    why = f" ({job['fence_why']})" if job.get("fence_why") else ""
    return f"{job['share']} on {cards} ({model}{mark}) · fence: {job['fence']}{why}"


def exit_words(job: Job) -> str:
    if job["signal"] is not None:
        return f", signal {job['signal']}"
    return f", exit code {job['exit_code']}" if job["exit_code"] else ""


class _Signals:
    """SIGTERM and SIGHUP while we wait do what Ctrl-C does, so that no job is left behind."""

    def __enter__(self) -> None:
        from _signal import (  # type: ignore[import-not-found]  # `signal` imports enum
            SIG_IGN,
            SIGHUP,
            SIGTERM,
            getsignal,
            signal,
        )

        # What is ignored stays ignored: that is what nohup means.
        heard = [number for number in (SIGHUP, SIGTERM) if getsignal(number) != SIG_IGN]
        self._before = [(number, signal(number, _interrupt)) for number in heard]

    def __exit__(self, *_: object) -> None:
        from _signal import signal

        for number, handler in self._before:
            signal(number, handler)


def _interrupt(_number: int, _frame: object) -> None:
    raise KeyboardInterrupt


def _elsewhere(options: Options, context: Context, words: _Words) -> int:
    """The pool is on another machine: its job cannot have this terminal, so it is submitted and its log followed."""
    from gpupool.cli.logs import follow
    from gpupool.cli.share_options import body
    from gpupool.client.attached import exit_code_of

    api = context.api
    asked = body(options, attached=False, local=False)
    job = api.request("POST", "jobs", asked, query={"wait_seconds": 2}, idempotency_key=os.urandom(16).hex())["first"]
    if not options.quiet:
        say(f"the pool is at {api.endpoint}: {job['name']} runs there without this terminal, its output follows")
    try:
        job = follow(api, job, words.tell)
    except KeyboardInterrupt:
        api.close()
        api.request("POST", f"jobs/{job['id']}/stop", {})
        raise
    words.ended(job)
    return exit_code_of(job)
