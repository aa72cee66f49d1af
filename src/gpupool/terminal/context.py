"""What a command runs with: which pool, whether colours are wanted, where words for people go."""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from gpupool.base.client_settings import ClientSettings
    from gpupool.client.transport import Api


class CommandContext:
    """Built once by `main`; holds the one connection of the command."""

    def __init__(self, state_dir: str | None = None, *, no_color: bool = False) -> None:
        from gpupool.base.client_settings import client_settings

        self.settings: ClientSettings = client_settings(state_dir=state_dir)
        self.no_color = (
            # https://no-color.org: any value that is not empty. A dumb terminal shows escapes as
            # text.
            no_color or bool(os.environ.get("NO_COLOR")) or os.environ.get("TERM") == "dumb"
        )
        self._api: Api | None = None

    @property
    def api(self) -> Api:
        """The connection of this command, opened when it is first asked for."""
        if self._api is None:
            from gpupool.client.transport import Api

            self._api = Api(self.settings)
        return self._api

    @property
    def color(self) -> bool:
        """Whether what is printed may be coloured: on a terminal, unless it is not wanted."""
        return not self.no_color and sys.stdout.isatty()

    @property
    def state_dir(self) -> str:
        """The state directory that `up` and `down` work on."""
        return os.fspath(self.settings.state_dir or self.settings.own_state_dir)


def print_notice(text: str) -> None:
    """Print a line of gpupool's own on stderr: stdout belongs to the program or to the list."""
    sys.stderr.write(f"gpupool: {text}\n")
    sys.stderr.flush()
