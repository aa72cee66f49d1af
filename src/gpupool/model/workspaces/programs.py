"""JupyterLab and VS Code as jobs: the script that starts each on a socket in `$GPUPOOL_RUN`.

The socket is in a directory that the job's user alone can enter, and secrets are in files there:
argv is what every user of the machine can read.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

#: Goes to the directory of the work: the argument, else the user's home. A job that a browser has
#: submitted has no HOME.
_BEGIN: Final = """\
umask 077
: "${HOME:=$(getent passwd "$(id -u)" 2>/dev/null | cut -d: -f6)}"
export HOME="${HOME:-/tmp}"
if ! cd "${1:-$HOME}" 2>/dev/null; then
  echo "${1:-$HOME}, where the account $(id -un) would work, cannot be entered: choose another --dir" >&2
  exit 1
fi
"""
_JUPYTER: Final = (
    _BEGIN
    + """\
if ! command -v jupyter-lab >/dev/null; then
  echo "jupyter-lab is not on the job's PATH: pip install jupyterlab" >&2
  exit 127
fi
head -c 32 /dev/urandom | od -An -v -tx1 | tr -d ' \\n' > "$GPUPOOL_RUN/nb.token" || exit 1
export JUPYTER_TOKEN_FILE="$GPUPOOL_RUN/nb.token"
exec jupyter-lab --no-browser --ServerApp.sock="$GPUPOOL_RUN/nb.sock" --ServerApp.sock_mode=0600 \\
  --ServerApp.base_url="/jobs/$GPUPOOL_JOB/nb/" --ServerApp.allow_root=True --ServerApp.root_dir="$PWD" \\
  --ServerApp.open_browser=False --ServerApp.quit_button=False
"""
)
#: code-server serves at `/` and writes relative addresses; `vscode.root` has the pool take the
#: prefix off. The others are told the prefix. None asks for a password: the directory does.
_VSCODE: Final = (
    _BEGIN
    + """\
sock="$GPUPOOL_RUN/vscode.sock"
if command -v code-server >/dev/null; then
  : > "$GPUPOOL_RUN/vscode.root" || exit 1
  exec code-server --socket "$sock" --socket-mode 600 --auth none --disable-telemetry --disable-update-check "$PWD"
fi
if command -v openvscode-server >/dev/null; then
  exec openvscode-server --socket-path "$sock" --without-connection-token \\
    --server-base-path "/jobs/$GPUPOOL_JOB/vscode" --default-folder "$PWD"
fi
echo "neither code-server nor openvscode-server is on the job's PATH" >&2
exit 127
"""
)


@dataclass(frozen=True)
class WorkspaceProgram:
    """A program that a person works in.

    Attributes:
        service: its socket is `$GPUPOOL_RUN/SERVICE.sock`.
        page: below the service's base, what the person opens.
        programs: one of them must be on the job's PATH.
        install: the command that installs one.
        marker: the name of its shell, by which its jobs are known.
    """

    name: str
    title: str
    service: str
    page: str
    programs: tuple[str, ...]
    install: str
    marker: str
    script: str

    def make_argv(self, directory: str) -> list[str]:
        """Return the job's command.

        Args:
            directory: of the work; empty: the home of the job's user.
        """
        return ["sh", "-c", self.script, self.marker, directory]


JUPYTER: Final = WorkspaceProgram(
    "jupyter",
    "JupyterLab",
    "nb",
    "lab",
    ("jupyter-lab",),
    "pip install jupyterlab",
    "gpupool-notebook",
    _JUPYTER,
)
VSCODE: Final = WorkspaceProgram(
    "vscode",
    "VS Code",
    "vscode",
    "",
    ("code-server", "openvscode-server"),
    "npm install --global code-server",
    "gpupool-vscode",
    _VSCODE,
)
PROGRAMS: Final = (JUPYTER, VSCODE)
