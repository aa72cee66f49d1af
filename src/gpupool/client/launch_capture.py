"""A command and its surroundings as this process has them: words, directory, environment, limits.

Imported before every job, so it stays with builtin modules.
"""

from __future__ import annotations

import os

from gpupool.base.errors import BadInput, CommandNotFound

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

#: Names of setrlimit(2) that a submission carries, as in `model.launch.LIMIT_NAMES`.
_LIMITS = """
    as core cpu data fsize locks memlock msgqueue nice nofile nproc rss rtprio rttime sigpending stack
"""


def capture(
    argv: Sequence[str],
    *,
    cwd: str | None = None,
    environ: Mapping[bytes, bytes] | None = None,
    local: bool = True,
) -> dict[str, Any]:
    """The command and its surroundings, exactly as this process has them. Raises BadInput,
    CommandNotFound."""
    if not argv:
        raise BadInput(
            "no command is given", hint='write it after the options: -- python -c "print(1)"'
        )
    words = [
        check_utf8(word, f"word {number} of the command") for number, word in enumerate(argv, 1)
    ]
    env = _environment(os.environb if environ is None else environ)
    folder = _directory(cwd)
    if local:
        check_command(words[0], env.get("PATH", os.defpath), folder)
    return {"argv": words, "cwd": folder, "env": env, "umask": _umask(), "limits": _limits()}


def _environment(environ: Mapping[bytes, bytes]) -> dict[str, str]:
    try:
        return {name.decode(): value.decode() for name, value in environ.items()}
    except UnicodeDecodeError:
        pass
    for name, value in environ.items():
        shown = name.decode("utf-8", "backslashreplace")
        check_utf8(
            name.decode("utf-8", "surrogateescape"), f"the name of the environment variable {shown}"
        )
        text = value.decode("utf-8", "surrogateescape")
        check_utf8(
            text, f"the environment variable {shown}", f"leave it out: env -u {shown} gpupool ..."
        )
    raise AssertionError("some variable was no UTF-8")


def check_utf8(text: str, what: str, hint: str = "a job can only be given valid UTF-8") -> str:
    """Return the text. Raises BadInput where it has bytes that are no UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        byte = f"byte {ord(text[error.start]) & 0xFF:#04x} at position {error.start}"
        raise BadInput(f"{what} is not valid UTF-8 ({byte})", hint=hint) from None
    return text


def _directory(cwd: str | None) -> str:
    try:
        return check_utf8(
            os.path.abspath(cwd) if cwd is not None else os.getcwd(), "the current directory"
        )
    except FileNotFoundError:
        raise BadInput(
            "the current directory does not exist any more", hint="go to another one: cd ~"
        ) from None


def check_command(command: str, path: str, cwd: str) -> None:
    """Look for the command as the job will. Raises CommandNotFound."""
    if "/" in command:
        places = [os.path.join(cwd, command)]
    else:
        places = [os.path.join(cwd, folder, command) for folder in path.split(":")]
    found = [place for place in places if os.path.isfile(place)]
    if any(os.access(place, os.X_OK) for place in found):
        return
    if found:
        raise CommandNotFound(f"{found[0]} may not be executed", hint=f"chmod +x {found[0]}")
    if " " in command.strip():
        hint = f"give its words apart: gpupool run -- {command}"
    else:
        hint = f"there is no such file from {cwd}" if "/" in command else f"looked in PATH={path}"
    raise CommandNotFound(f"command not found: {command}", hint=hint)


def _umask() -> int:
    """Read, not set and set back: another thread could create a file in between."""
    with open("/proc/self/status", "rb") as status:
        for line in status:
            if line.startswith(b"Umask:"):
                return int(line.split()[1], 8)
    return 0o022


def _limits() -> dict[str, tuple[int, int]]:
    import resource

    known = {name: getattr(resource, f"RLIMIT_{name.upper()}", None) for name in _LIMITS.split()}
    return {name: resource.getrlimit(code) for name, code in known.items() if code is not None}
