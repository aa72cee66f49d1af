"""The door of the command line: find the command, import it and nothing else, return its exit code.

`run` and `submit` come here before every job; the module imports no parser, no json, no `re`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping

from gpupool.base.errors import BadOption, GpupoolError
from gpupool.terminal.commands import SUMMARIES, find_module
from gpupool.terminal.language import (
    LANGUAGES,
    choose_language,
    find_language_option,
    is_chinese,
    leave_stdout,
    speak,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

#: Exit codes as shells have them: 128 and the number of SIGINT, of SIGPIPE.
INTERRUPTED = 130
BROKEN_PIPE = 141

#: Commands behind whose options another program's words follow: `--lang` may be one of these.
_PROGRAM_COMMANDS = frozenset(("run", "submit", "exec", "ssh", "vm"))
#: Commands whose stdout is data or the output of a program: it stays as it is.
_PLAIN_COMMANDS = frozenset(("burn", "completion", "events", "import", "logs", "ssh-config"))


def entry() -> None:
    """Run the console script.

    Leaves without the interpreter's clean-up: everything is flushed, and it costs 2 ms.
    """
    code = main(sys.argv[1:])
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except OSError:
        code = code or BROKEN_PIPE
    os._exit(code)


def main(words: Sequence[str]) -> int:
    """Run one command line and return its exit code. Prints errors; raises nothing."""
    try:
        return _run_words(list(words))
    finally:
        if is_chinese():
            speak("en")  # tests run many command lines in one process


def _run_words(words: list[str]) -> int:
    try:
        if choose_language(os.environ, sys.stdout.encoding) == "zh":
            speak("zh")
        code = _dispatch_command(words)
        sys.stdout.flush()
        return code
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        return _broken_pipe()
    except GpupoolError as error:
        from gpupool.terminal.output import print_error

        print_error(error)
        return error.exit_code
    except Exception as error:  # noqa: BLE001  # the last door: whatever it is, people get one line and a code
        return _report_defect(error)


def _dispatch_command(words: list[str]) -> int:
    state_dir, no_color, language, rest = _take_leading_options(words)
    if language is None and rest and rest[0] not in _PROGRAM_COMMANDS:
        language = find_language_option(rest)  # before the parser, for its help and its refusals
    if language is not None:
        _speak_asked(language)
    if not rest or rest[0] in ("-h", "--help", "help"):
        from gpupool.terminal.help import print_help

        return print_help(rest[1:])
    name = rest[0]
    if name in ("-V", "--version", "version"):
        from gpupool import __version__

        sys.stdout.write(f"gpupool {__version__}\n")
        return 0
    if name not in SUMMARIES:
        raise _describe_unknown(name)
    if name in ("run", "submit"):
        from gpupool.terminal.share_options import read_plain

        options = read_plain(name, rest[1:])
        if options is not None:
            # Most command lines are plain; argparse alone costs as much as the interpreter's start.
            return _call_command(name, options, state_dir, no_color)
    from gpupool.terminal.parser import HelpShown, parse_command

    try:
        options = parse_command(name, rest[1:])
    except HelpShown:
        return 0
    return _call_command(name, options, state_dir, no_color)


def _call_command(name: str, options: object, state_dir: str | None, no_color: bool) -> int:
    from gpupool.terminal.context import CommandContext

    language = getattr(options, "lang", None)
    if language is not None:
        _speak_asked(language)
    if is_chinese() and name in _PLAIN_COMMANDS:
        leave_stdout()
    context = CommandContext(
        getattr(options, "state_dir", None) or state_dir,
        no_color=no_color or getattr(options, "no_color", False),
    )
    module = find_module(name)
    __import__(module)  # importlib.import_module imports warnings, for nothing
    code: int = sys.modules[module].run(options, context)
    return code


def _speak_asked(language: str) -> None:
    """Speak the language of `--lang`."""
    if language not in LANGUAGES:
        raise BadOption(f"--lang {language!r} is not known", hint=f"one of: {', '.join(LANGUAGES)}")
    speak(language)


def _take_leading_options(
    words: list[str],
) -> tuple[str | None, bool, str | None, list[str]]:
    """Take the options before the command: `gpupool --state-dir DIR ps`."""
    state_dir = None
    language = None
    no_color = False
    while words:
        flag, equals, value = words[0].partition("=")
        if flag == "--no-color" and not equals:
            no_color = True
            words = words[1:]
        elif flag == "--state-dir" and equals:
            state_dir = value
            words = words[1:]
        elif flag == "--state-dir":
            if len(words) < 2:
                raise BadOption(
                    "--state-dir needs a directory", hint="gpupool --state-dir DIR COMMAND"
                )
            state_dir = words[1]
            words = words[2:]
        elif flag == "--lang" and equals:
            language = value
            words = words[1:]
        elif flag == "--lang":
            if len(words) < 2:
                raise BadOption("--lang needs a language", hint="gpupool --lang zh COMMAND")
            language = words[1]
            words = words[2:]
        else:
            break
    return state_dir, no_color, language, words


#: Words of Slurm, Kubernetes, Docker and the driver's tools, and what does here what they do there.
OTHER_WORDS: Mapping[str, str] = {
    **dict.fromkeys(("status", "jobs", "list", "ls", "squeue", "get"), "gpupool ps"),
    **dict.fromkeys(("cancel", "kill", "scancel", "delete", "rm", "abort"), "gpupool stop JOB"),
    **dict.fromkeys(("why", "reason", "pending"), "gpupool explain JOB"),
    **dict.fromkeys(
        ("nvidia-smi", "smi", "cards", "devices", "gpu", "nodes", "sinfo"), "gpupool gpus"
    ),
    **dict.fromkeys(("describe", "inspect", "info", "scontrol"), "gpupool show JOB"),
    **dict.fromkeys(("create", "apply", "start"), "gpupool submit -- COMMAND"),
    **dict.fromkeys(("srun",), "gpupool run -- COMMAND"),
    **dict.fromkeys(("attach", "shell", "enter"), "gpupool exec JOB"),
    **dict.fromkeys(("log", "output", "tail"), "gpupool logs JOB"),
    **dict.fromkeys(("sacct", "usage", "bill", "costs"), "gpupool report"),
    **dict.fromkeys(("health", "check"), "gpupool doctor"),
}


def _describe_unknown(name: str) -> BadOption:
    from gpupool.terminal.nearest import find_nearest

    # `rum` is a mistyped `run`: what ends jobs is proposed for the whole word alone.
    others = {word: ours for word, ours in OTHER_WORDS.items() if word != "rm"}
    near = find_nearest(name, {**SUMMARIES, **others})
    if name.startswith("-"):
        return BadOption(f"unknown option {name}", hint="gpupool --help")
    if ours := OTHER_WORDS.get(name) or OTHER_WORDS.get(near or ""):
        return BadOption(f"unknown command {name!r}", hint=f"try: {ours}")
    hint = f"did you mean: gpupool {near}" if near else "gpupool --help lists the commands"
    return BadOption(f"unknown command {name!r}", hint=hint)


def _broken_pipe() -> int:
    """Return the exit code when the reader of stdout has gone, as `| head` does.

    Prints nothing, and sends the last flush to /dev/null.
    """
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    os.close(null)
    return BROKEN_PIPE


def _report_defect(error: Exception) -> int:
    # A traceback is for developers: people get one line, a code and what to do.
    if os.environ.get("GPUPOOL_DEBUG"):
        import traceback

        traceback.print_exception(error)
    from gpupool.base.errors import InternalError
    from gpupool.terminal.output import print_error

    what = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    print_error(
        InternalError(
            f"this should not happen: {what}", hint="GPUPOOL_DEBUG=1 shows where; please report it"
        )
    )
    return 1


if __name__ == "__main__":
    entry()
