"""`GpupoolSpawner`: a server of JupyterHub is a job of the pool.

The hub stores the job's id and the port of its relay. A hub that is killed finds both again; a
start that it was killed in leaves a job of a known name, which the next start ends.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
import shutil
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from jupyterhub.spawner import Spawner
from tornado.web import HTTPError
from traitlets import Integer, List, Unicode, default

from gpupool.base.client_settings import client_settings
from gpupool.base.errors import GpupoolError, NotFound
from gpupool.base.units import parse_gpu, parse_memory
from gpupool.client.attached_run import ENDED
from gpupool.client.messages import path_segment
from gpupool.client.submission import job_body
from gpupool.client.transport import Api
from gpupool_jupyterhub.form import ServerBounds, make_form, read_choice, read_form
from gpupool_jupyterhub.relay import JobRelay

#: The name of the service: its socket is `$GPUPOOL_RUN/hub.sock`.
SERVICE: Final = "hub"
#: The port that Jupyter takes for unset: with any other one it refuses a socket.
_USUAL_PORT: Final = 8888
#: Starts what the hub wants, on a socket that the job's user alone can reach.
SCRIPT: Final = """\
umask 077
: "${HOME:=$(getent passwd "$(id -u)" 2>/dev/null | cut -d: -f6)}"
export HOME="${HOME:-/tmp}"
if ! cd "${1:-$HOME}" 2>/dev/null; then
  echo "${1:-$HOME}, where the account $(id -un) would work, cannot be entered: see notebook_dir" >&2
  exit 1
fi
shift
exec "$@" --ServerApp.sock="$GPUPOOL_RUN/hub.sock" --ServerApp.sock_mode=0600 --ServerApp.allow_root=True
"""
#: Images of the Jupyter project go to an account of their own unless root is named.
_ROOT_VARIABLES: Final = {"NB_USER": "root", "NB_UID": "0", "NB_GID": "0"}
#: Where a server looks for programs beside the folder of its own.
_USUAL_PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
#: Seconds that the pool may hold a request before it answers that nothing has changed.
_WAIT_SECONDS: Final = 10.0
#: A job that its node lost has no exit code.
_LOST: Final = 1
_SLUG_LENGTH: Final = 24


class GpupoolSpawner(Spawner):  # type: ignore[misc]  # JupyterHub has no types
    """Starts a server as a job, and finds it again after a restart of the hub."""

    pool_url = Unicode(help="the pool's address; empty: as the command line finds it").tag(
        config=True
    )
    state_dir = Unicode(help="the pool's state directory, for a pool of this machine").tag(
        config=True
    )
    token_file = Unicode(
        help="file with the token that the hub uses; {username} stands for the person's name, so "
        "that each server is a job of its person; empty: GPUPOOL_TOKEN, or the hub's own account"
    ).tag(config=True)
    gpu = Unicode("0.25", help="the usual share of a card").tag(config=True)
    memory = Unicode("6GiB", help="the usual memory of the card; empty: as the share").tag(
        config=True
    )
    most_gpu = Unicode("1", help="the largest share of a card").tag(config=True)
    most_memory = Unicode(help="the most memory of a card; empty: no bound").tag(config=True)
    images = List(
        Unicode(), help="images to choose from; none: servers run on the node itself"
    ).tag(config=True)
    max_time = Unicode(help="ends a server after 8h, 2d; empty: never").tag(config=True)
    look_again_seconds = Integer(1, help="between two looks at a job that starts").tag(config=True)

    job_id = ""
    _relay: JobRelay | None = None
    _reason = ""

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Take the job of a hub that has ended."""
        super().load_state(state)
        self.job_id = str(state.get("job_id", ""))

    def get_state(self) -> dict[str, Any]:
        """Return what the next hub needs to find the job."""
        state: dict[str, Any] = super().get_state()
        if self.job_id:
            state["job_id"] = self.job_id
        return state

    def clear_state(self) -> None:
        """Forget a job that has ended."""
        super().clear_state()
        self.job_id = ""
        self._reason = ""
        self._close_relay()

    async def start(self) -> tuple[str, int]:
        """Submit the server, wait until it runs, and return where the proxy reaches it.

        Raises GpupoolError: the refusal of the pool, which the hub shows.
        """
        await self._end_leftovers()
        body = self.make_body()
        answer = await self._ask("POST", "jobs", body, idempotency_key=self.make_key())
        self.job_id = answer["first"]["id"]
        await self._await_run(answer["first"])
        self._close_relay()
        self._relay = JobRelay(self._make_api, self.job_id, SERVICE)
        return "127.0.0.1", self._relay.port

    async def poll(self) -> int | None:
        """Return None while the server runs, else its exit code."""
        if not self.job_id:
            return 0
        try:
            job = await self._ask("GET", self._job_path())
        except NotFound:
            return 0
        except GpupoolError as error:
            # A pool that restarts has not ended its jobs.
            self.log.warning("job %s cannot be looked at: %s", self.job_id, error.message)
            return None
        if job["state"] in ENDED:
            self._close_relay()
            self.log.warning(
                "job %s %s: %s; gpupool logs %s",
                *(self.job_id, job["state"], job["reason"], self.job_id),
            )
            code = job["exit_code"]
            return _LOST if code is None else int(code)
        if job["state"] == "running" and self._relay is None and self.server is not None:
            self._resume_relay()
        return None

    async def stop(self, now: bool = False) -> None:
        """Stop the job, and wait until it has ended. Idempotent."""
        if self.job_id:
            grace = {"grace_seconds": 0} if now else {}
            try:
                await self._ask("POST", f"{self._job_path()}/stop", grace)
                await self._await_end()
            except NotFound:
                self.log.info("job %s is not known to the pool any more", self.job_id)
        self._close_relay()

    async def progress(self) -> AsyncIterator[dict[str, Any]]:
        """Say why a server waits, while it does."""
        shown = ""
        while self._relay is None:
            if self._reason and self._reason != shown:
                shown = self._reason
                yield {"progress": 20, "message": shown}
            await asyncio.sleep(self.look_again_seconds)
        yield {"progress": 80, "message": f"job {self.job_id} runs"}

    def _options_form_default(self) -> str:
        return make_form(self.find_bounds())

    def options_from_form(self, form_data: Mapping[str, Sequence[str]]) -> dict[str, str]:
        """Read what a person chose; `make_body` checks it, as what programs send."""
        return read_form(form_data)

    @default("apply_user_options")
    def _check_user_options(self) -> Callable[[Spawner, dict[str, Any]], None]:
        """Have the hub check what a person or a program asks for before it starts anything."""

        def check(spawner: Spawner, options: dict[str, Any]) -> None:
            try:
                read_choice(options, spawner.find_bounds())
            except GpupoolError as error:
                raise HTTPError(400, f"{error.code} {error.message}; {error.hint}") from error

        return check

    def find_bounds(self) -> ServerBounds:
        """Return what servers of this hub may ask for. Raises BadFraction, BadQuantity."""
        most = parse_memory(self.most_memory) if self.most_memory else None
        return ServerBounds(
            self.gpu, self.memory, parse_gpu(self.most_gpu)[0], most, tuple(self.images)
        )

    def make_body(self) -> dict[str, Any]:
        """Make the body of the submission. Raises BadOption, BadFraction, BadQuantity."""
        choice = read_choice(self.user_options, self.find_bounds())
        environment = self.get_env()
        path = self.server.base_url if self.server is not None else "/"
        environment["JUPYTERHUB_SERVICE_URL"] = f"http://127.0.0.1:{_USUAL_PORT}{path}"
        environment.setdefault("PATH", find_path(self.cmd[0]))
        environment.setdefault("LANG", "C.UTF-8")
        container = None
        if choice.image:
            container = {"image": choice.image, "pull": "missing", "user": "0", "workdir": "/"}
            del environment["PATH"]  # the image's own
            environment |= _ROOT_VARIABLES
        words = [*self.cmd, *self.get_args()]
        return job_body(
            ["sh", "-c", SCRIPT, "gpupool-hub", self.format_string(self.notebook_dir), *words],
            gpu=choice.gpu,
            memory=choice.memory or None,
            name=self.make_name(),
            max_time=self.max_time or None,
            local=False,
            cwd="/",
            environ={name.encode(): str(text).encode() for name, text in environment.items()},
            container=container,
        )

    def make_name(self) -> str:
        """Return the name of the server's job: the same one for each start of it."""
        full = f"{self.user.name}/{self.name}"
        slug = re.sub(r"[^a-z0-9]+", "-", full.lower()).strip("-")[:_SLUG_LENGTH].strip("-")
        digest = hashlib.sha256(full.encode()).hexdigest()[:8]
        return f"hub-{slug}-{digest}" if slug else f"hub-{digest}"

    def make_key(self) -> str:
        """Return the key of one start: a request that is repeated is one job.

        The hub makes a new API token for each start.
        """
        return hashlib.sha256(f"{self.user.name}/{self.name}/{self.api_token}".encode()).hexdigest()

    async def _end_leftovers(self) -> None:
        """Stop what an earlier start of this server has left, where the hub ended in it."""
        caller = await self._ask("GET", "whoami")
        query = {"name": self.make_name(), "user": caller["user"]}
        answer = await self._ask("GET", "jobs", query=query)
        for job in answer["items"]:
            if job["state"] not in ENDED and job["name"] == query["name"]:
                self.log.warning("job %s of an earlier start is stopped", job["id"])
                await self._ask("POST", f"{_make_path(job['id'])}/stop", {"grace_seconds": 0})

    async def _await_run(self, job: dict[str, Any]) -> None:
        """Wait until the job runs. Raises RuntimeError where it ends before."""
        while job["state"] != "running":
            if job["state"] in ENDED:
                raise RuntimeError(f"job {job['id']} {job['state']}: {job['reason']}")
            self._reason = job["reason"] or f"job {job['id']} {job['state']}"
            job = await self._await_change(job)

    async def _await_end(self) -> None:
        job = await self._ask("GET", self._job_path())
        while job["state"] not in ENDED:
            job = await self._await_change(job)

    async def _await_change(self, job: dict[str, Any]) -> dict[str, Any]:
        query = {"generation": job["generation"], "wait_seconds": _WAIT_SECONDS}
        timeout = _WAIT_SECONDS + 15
        path = _make_path(job["id"])
        found: dict[str, Any] = await self._ask("GET", path, query=query, timeout=timeout)
        return found

    def _resume_relay(self) -> None:
        """Listen again where the proxy was told; on another port where that one is taken."""
        try:
            self._relay = JobRelay(self._make_api, self.job_id, SERVICE, self.server.port)
        except OSError as error:
            self._relay = JobRelay(self._make_api, self.job_id, SERVICE)
            self.log.warning(
                "port %d is taken (%s): the server is at %d now",
                *(self.server.port, error.strerror, self._relay.port),
            )
            self.server.port = self._relay.port
            self.db.commit()

    def _close_relay(self) -> None:
        if self._relay is not None:
            self._relay.close()
            self._relay = None

    def _job_path(self) -> str:
        return _make_path(self.job_id)

    def _make_api(self) -> Api:
        """Open the pool as the person, or as the hub. Belongs to the thread that calls it."""
        settings = client_settings(state_dir=self.state_dir or None)
        if self.pool_url:
            settings.state_dir = None
            settings.url = self.pool_url
        if self.token_file:
            file = Path(self.token_file.format(username=self.user.escaped_name))
            settings.token = file.read_text(encoding="ascii").strip()
        return Api(settings)

    async def _ask(self, method: str, path: str, body: Any = None, **more: Any) -> Any:
        return await asyncio.to_thread(self._ask_now, method, path, body, more)

    def _ask_now(self, method: str, path: str, body: Any, more: dict[str, Any]) -> Any:
        with self._make_api() as api:
            return api.request(method, path, body, **more)


def find_path(program: str) -> str:
    """Return the PATH of a server: the folder in which the hub finds its program, and the usual."""
    found = shutil.which(program)
    return _USUAL_PATH if found is None else f"{Path(found).absolute().parent}:{_USUAL_PATH}"


def _make_path(job: str) -> str:
    return f"jobs/{path_segment(job)}"
