"""`gpupool run`: a command in a share of a card, attached to this terminal.

stdout carries the program's bytes only; every word of ours goes to stderr, and few of them
when stderr is no terminal. The exit code is the program's.
"""

from __future__ import annotations

import os
import sys

from gpupool.terminal.context import CommandContext, print_notice

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from gpupool.client.transport import Api
    from gpupool.terminal.parser import CommandParser
    from gpupool.terminal.share_options import ShareOptions

    Job = dict[str, Any]

ABOUT = """
Terminal, signals and exit code pass through. stdout has only the program's output. gpupool writes to stderr:
on a terminal what it waits for, what would help and what was granted, otherwise only refusals, the reason of
a wait, and ends that the program did not choose. Ctrl-C goes to the program; its share is free when it ends. If it
ignores Ctrl-C, use  gpupool stop JOB, or press Ctrl-C twice if its output goes to a file or pipe.

A job has its cards on one node. More cards than a node has are requested as a gang, if they divide evenly: the command
then runs once on each node, without this terminal, and its output follows. --no-gang refuses them.

What a terminal shows is kept in the job's log, too: gpupool logs JOB shows it during the run and after it.
--no-keep-output keeps nothing. Output that goes to a file or a pipe is not kept, unless --keep-output asks for it: then
the job writes to its log as a submitted one does, stdout and stderr together, and a lost client ends nothing.

The command begins after --, or at the first word that is no option.

Exit code: the job's own; 128 + N after signal N; 127 if the command is not found; gpupool's own codes
(2 bad input, 3 refused, 7 no pool) before the job starts.
"""


def register(parser: CommandParser) -> None:
    from gpupool.terminal.parser import add_table
    from gpupool.terminal.share_options import OF

    add_table(parser, OF["run"])
    parser.placeholder = "[--] COMMAND [ARG...]"
    parser.about = ABOUT
    parser.examples = [
        "gpupool run --gpu 0.3 --memory 8GiB -- python train.py",
        "gpupool run --gpu 0.3 --keep-output --name hello -- python train.py",
        "gpupool run --gpu 1 --model H200 --max-time 2h -- ./bench",
        "gpupool run --gpu 4 -- torchrun --nproc-per-node 4 train.py",
        "gpupool run --gpu 0.5 --count 2 --no-wait nvidia-smi",
    ]


def run(options: ShareOptions, context: CommandContext) -> int:
    from gpupool.base.errors import TooManyCards
    from gpupool.client.attached_run import AttachedRun
    from gpupool.client.gangs.even_gang import choose_gang
    from gpupool.terminal.share_options import make_job_body

    api = context.api
    if options.preview:
        from gpupool.terminal.preview_lines import print_preview

        asked = make_job_body(options, attached=api.local, local=api.local)
        return print_preview(context, asked, may_be_gang=not options.no_gang)
    words = _RunNotices(options, api)
    # Terminal and signals are handed over the Unix socket; no network carries them.
    is_attached = api.local and not options.keep_output
    _check_output_choice(options, is_local=api.local)
    asked = make_job_body(options, attached=is_attached, local=api.local)
    if _print_plan(options, context, asked):
        return 0
    try:
        if not is_attached:
            return _run_logged(options, context, words, asked)
        attached = AttachedRun(
            api,
            asked,
            words.print_progress,
            pty=os.isatty(0) and os.isatty(1),
            with_log=not options.no_keep_output,
        )
        with _SignalGuard():
            code = attached.run()
        words.print_end(attached.job)
        return code
    except TooManyCards as error:
        # The output of a gang comes through logs.
        may_be_gang = not options.no_gang and not options.no_keep_output
        gang = choose_gang(asked, error, may_be_gang=may_be_gang)
    return _run_gang(options, context, words, asked, gang)


def _check_output_choice(options: ShareOptions, *, is_local: bool) -> None:
    """Refuse `--no-keep-output` where the output is kept all the same. Raises BadOption."""
    from gpupool.base.errors import BadOption

    if not options.no_keep_output:
        return
    if options.keep_output:
        raise BadOption(
            "--keep-output and --no-keep-output: one of them at most",
            hint="neither: what a terminal shows is kept, and nothing of a file or a pipe",
        )
    if not is_local:
        raise BadOption(
            "--no-keep-output: over the network the output comes through the job's log",
            hint="run it on the machine of the pool, or without --no-keep-output",
        )


def _run_gang(
    options: ShareOptions,
    context: CommandContext,
    words: _RunNotices,
    asked: dict[str, Any],
    gang: dict[str, Any],
) -> int:
    """Run the gang that has as many cards as were asked for."""
    from gpupool.cli.work.gangs.gang_run import run_gang
    from gpupool.client.gangs.even_gang import describe_gang_request

    def announce() -> None:
        if not options.quiet:
            print_notice(describe_gang_request(asked, gang))

    with _SignalGuard():
        members, code = run_gang(context.api, gang, words.print_progress, announce)
    for member in members:
        words.print_end(member)
    return code


def _print_plan(options: ShareOptions, context: CommandContext, asked: dict[str, Any]) -> bool:
    """Print which mechanism the job would get, where that is asked; return whether that is all."""
    is_plan_shown = options.verbose and not options.quiet and "needs" in asked["shape"]
    if not (options.dry_run or is_plan_shown):
        return False
    from gpupool.client.gangs.even_gang import describe_gang_request, request_plan
    from gpupool.terminal.mechanism_lines import format_plan, format_shares

    answer, gang = request_plan(context.api, asked, may_be_gang=not options.no_gang)
    if options.dry_run:
        if gang is not None and not options.quiet:
            print_notice(describe_gang_request(asked, gang))
        sys.stdout.write("\n".join((format_shares(answer), *format_plan(answer))) + "\n")
        return True
    for line in format_plan(answer):
        print_notice(line)
    return False


class _RunNotices:
    """What is said on stderr, and when: `--quiet`, `--verbose` and a terminal decide."""

    def __init__(self, options: ShareOptions, api: Api) -> None:
        self._api = api
        self.chatty = not options.quiet and (options.verbose or sys.stderr.isatty())
        self.quiet = options.quiet
        self._said = ""

    def print_progress(self, what: str, job: Job) -> None:
        if what == "waiting":
            reason = job["reason"] or "waiting to be placed"
            # Said once: the reason of a wait comes again with every change of the queue.
            if not self.quiet and (self.chatty or job["reason"]) and reason != self._said:
                self._said = reason
                print_notice(f"{job['name']} waits: {reason}")
                if self.chatty and job["reason"]:
                    self._print_hints(job)
        elif what == "granted":
            if self.chatty:
                print_notice(grant_line(job))
        elif what == "away" and self.chatty:
            print_notice(
                f"the pool does not answer; {job['name']} is not affected, waiting for the pool to "
                "come back"
            )
        elif what == "back" and self.chatty:
            print_notice("the pool is back")

    def _print_hints(self, job: Job) -> None:
        """Print what would let the job start, as `explain` has it."""
        from gpupool.base.errors import GpupoolError
        from gpupool.terminal.references import job_path

        try:
            hints = self._api.request("GET", f"{job_path(job['id'])}/explain")["hints"]
        except GpupoolError:
            return  # the pool is away, or the job has ended: the wait tells of both
        for hint in hints:
            print_notice(hint)

    def print_end(self, job: Job) -> None:
        """Print how the job ended.

        Ends that the program did not choose are told always, its own only to a terminal.
        """
        from gpupool.client.attached_run import ENDED

        if job["state"] not in ENDED:
            print_notice(
                f"{job['name']} has ended; the pool does not answer, its share is freed when it is "
                "back"
            )
        elif job["state"] in ("stopped", "lost") or (
            # A job that its node refused has an exit code and never started.
            job["state"] == "failed" and (job["exit_code"] is None or not job["started_ns"])
        ):
            if not self.quiet:
                print_notice(
                    f"{job['name']} {job['state']}"
                    + (f": {job['reason']}" if job["reason"] else "")
                )
        elif self.chatty and job["started_ns"] and job["ended_ns"]:
            from gpupool.base.units import format_duration

            lasted = format_duration((job["ended_ns"] - job["started_ns"]) / 1e9)
            print_notice(f"{job['name']} {job['state']} after {lasted}" + exit_words(job))


def grant_line(job: Job) -> str:
    """Format `0.30 GPU (30 % compute) + 8192 MiB on node-1:0 (H200) · fence: none (why)`."""
    cards = ", ".join(seat["device"] for seat in job["seats"])
    model = job["seats"][0]["model"] if job["seats"] else "--"
    mark = ", SIMULATED" if job["simulated"] else ""
    why = f" ({job['fence_why']})" if job.get("fence_why") else ""
    return f"{job['share']} on {cards} ({model}{mark}) · fence: {job['fence']}{why}"


def exit_words(job: Job) -> str:
    if job["signal"] is not None:
        return f", signal {job['signal']}"
    return f", exit code {job['exit_code']}" if job["exit_code"] else ""


class _SignalGuard:
    """Lets SIGTERM and SIGHUP do what Ctrl-C does while we wait, so that no job is left behind."""

    def __enter__(self) -> None:
        from _signal import (  # type: ignore[import-not-found]  # `signal` imports enum
            SIG_IGN,
            SIGHUP,
            SIGTERM,
            getsignal,
            signal,
        )

        # What is ignored stays ignored: that is what nohup means.
        self._before = []
        for number in (SIGHUP, SIGTERM):
            if getsignal(number) != SIG_IGN:
                self._before.append((number, signal(number, _raise_interrupt)))

    def __exit__(self, *_: object) -> None:
        from _signal import signal

        for number, handler in self._before:
            signal(number, handler)


def _raise_interrupt(_number: int, _frame: object) -> None:
    raise KeyboardInterrupt


def _run_logged(
    options: ShareOptions, context: CommandContext, words: _RunNotices, asked: dict[str, Any]
) -> int:
    """Submit the job and follow its log: on another machine it cannot have this terminal."""
    from gpupool.cli.work.logs import follow_job, stop_followed_job, submit_followed_job
    from gpupool.client.attached_run import exit_code_of

    api = context.api
    submitted = submit_followed_job(api, asked)
    job = submitted["first"]
    if not options.quiet and not api.local:
        print_notice(
            f"the pool is at {api.endpoint}: {job['name']} runs there without this terminal, its "
            "output follows"
        )
    try:
        job = follow_job(api, job, words.print_progress)
    except KeyboardInterrupt:
        # The connection is in the middle of a long poll; the order to stop needs one of its own.
        api.close()
        stop_followed_job(api, submitted)
        raise
    words.print_end(job)
    return exit_code_of(job)
