"""`gpupool sbatch`: a job script of Slurm, submitted as it is."""

from __future__ import annotations

import argparse
import os
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from gpupool.base.errors import BadOption, GpupoolError
from gpupool.cli.work.documents.manifests import read_text
from gpupool.cli.work.import_ import read_node_facts
from gpupool.cli.work.submit import run as submit
from gpupool.terminal.context import CommandContext, print_notice
from gpupool.terminal.output import clean_text
from gpupool.terminal.parser import CommandParser, parse_command

#: Options of ours; all others before the script are sbatch's.
_OWN_FLAGS: Final = ("-h", "--help", "--test-only", "--no-color")
_OWN_VALUES: Final = ("--node-facts", "--state-dir")


def register(parser: CommandParser) -> None:
    parser.placeholder = "[SBATCH OPTIONS] SCRIPT [ARG...]"
    parser.about = """
    Reads the #SBATCH lines of SCRIPT, and options of sbatch before it, which replace them. The job runs SCRIPT by the
    interpreter of its first line, with Slurm's variables (SLURM_JOB_ID, SLURM_ARRAY_TASK_ID and others). What is
    different here is said before the job is submitted; what cannot be meant here is refused. The file is read when the
    job starts: leave it as it is until then.
    """
    parser.examples = [
        "gpupool sbatch train.sh",
        "gpupool sbatch --time=2:00:00 --gres=gpu:2 train.sh --epochs 3",
        "gpupool sbatch --test-only train.sh",
    ]
    parser.add_argument(
        "--test-only", action="store_true", help="say what it means, and submit nothing"
    )
    parser.add_argument(
        "--node-facts", metavar="FILE", help="facts about the nodes it was written for (YAML)"
    )
    parser.split_words = split_words


def split_words(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """Split our options, in front, from sbatch's and the script."""
    position = 0
    while position < len(words):
        flag, equals, _ = words[position].partition("=")
        if flag in _OWN_VALUES:
            position += 1 if equals else 2
        elif flag in _OWN_FLAGS:
            position += 1
        else:
            break
    return list(words[:position]), list(words[position:])


def run(options: argparse.Namespace, context: CommandContext) -> int:
    from gpupool.dialects.batch import slurm
    from gpupool.dialects.batch.script import submit_line
    from gpupool.dialects.batch.slurm_command import (
        EXPORTS_VARIABLE,
        VARIABLES,
        build_command,
        build_exports,
    )
    from gpupool.dialects.batch.slurm_options import find_script

    at = find_script(options.command)
    typed = [word for word in options.command[:at] if word != "--parsable"]
    if at == len(options.command):
        raise BadOption("gpupool sbatch needs a SCRIPT", hint="gpupool sbatch --help")
    name, *arguments = options.command[at:]
    if name == "-":
        raise BadOption(
            "a script from standard input has no file that the job could run",
            hint="save it, then: gpupool sbatch FILE",
        )
    facts = read_node_facts(options.node_facts)
    text = read_text(name)
    try:
        job = slurm.understand_script(text, facts, typed=typed, variables=VARIABLES)
        path = str(Path(name).resolve())
        command = build_command(text, path, arguments)
        line, left_out = submit_line(job, command, facts.card_memory)
    except GpupoolError as error:
        number = "".join(f":{part}" for part in error.details.get("path", ())[:1])
        error.message = f"{name}{number}: {error.message}"
        raise
    for sentence in (*job.ask.guesses, *job.guesses, *job.ask.notes, *job.notes, *left_out):
        print_notice(f"different here: {clean_text(sentence)}")
    words = shlex.split(line)[2:]
    if options.test_only:
        sys.stdout.write(clean_text(line.partition(" -- ")[0]) + f" -- {shlex.quote(name)}\n")
        return 0
    # A job has the environment of the command that submits it.
    os.environ[EXPORTS_VARIABLE] = build_exports(text, path, job, typed)
    return submit(parse_command("submit", words), context)
