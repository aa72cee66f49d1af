"""What the SDK does with services."""

from __future__ import annotations

import os
import shlex

from gpupool.client.messages import path_segment
from gpupool.client.submission import job_body
from gpupool.client.transport import Api
from gpupool.wire.answers import read_answer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from gpupool.wire.common import Event
    from gpupool.wire.serving.services import ServiceOut, ServicePlanOut


class Services:
    """The services of the caller's tenant; `Pool.services` returns it.

    A `rule` has the fields of `wire.serving.services.ServiceRule`, as `min_replicas`; what is left
    out has its default.
    """

    def __init__(self, api: Api) -> None:
        self._api = api

    def create(
        self,
        name: str,
        command: str | Sequence[str],
        *,
        rule: Mapping[str, Any] | None = None,
        port: int | None = None,
        **asked: Any,
    ) -> ServiceOut:
        """Create a service of a command.

        Args:
            name: The service's name.
            command: Of a replica; `{port}` in it is the replica's port.
            rule: Bounds, load, checks and times.
            port: Of the first replica; None: 8000.
            asked: Options of the job, as `Pool.submit` takes them.

        Raises:
            GpupoolError: The pool refuses it.
        """
        argv = shlex.split(command) if isinstance(command, str) else list(command)
        if "gpu" in asked:
            asked["gpu"] = str(asked["gpu"])
        job = job_body(argv, array=None, attached=False, local=self._api.local, **asked)
        return self._post({"name": name, "job": job, "port": port, "rule": dict(rule or {})})

    def create_from_template(
        self,
        name: str,
        template: str,
        values: Mapping[str, Any],
        *,
        rule: Mapping[str, Any] | None = None,
    ) -> ServiceOut:
        """Create a service of a template, as vllm, and values of its fields. Raises GpupoolError."""
        use = {"values": dict(values)}
        return self._post(
            {"name": name, "template": template, "use": use, "rule": dict(rule or {})}
        )

    def list_events(self, name: str, limit: int = 50) -> list[Event]:
        """List the latest events of a service, the newest first. Raises UnknownService."""
        from gpupool.wire.common import Event

        query = {"limit": limit}
        items = self._api.request("GET", f"{_path(name)}/events", query=query)["items"]
        return [read_answer(Event, one) for one in items]

    def list(self) -> list[ServiceOut]:
        """List the services, by name."""
        from gpupool.wire.serving.services import ServiceOut

        items = self._api.request("GET", "services")["items"]
        return [read_answer(ServiceOut, one) for one in items]

    def get(self, name: str) -> ServiceOut:
        """Return a service with its replicas. Raises UnknownService."""
        return _read(self._api.request("GET", _path(name)))

    def update(self, name: str, **rule: Any) -> ServiceOut:
        """Change fields of the rule; the others stay. Idempotent. Raises UnknownService."""
        return _read(self._api.request("PATCH", _path(name), {"rule": rule}))

    def plan(self, name: str, **rule: Any) -> ServicePlanOut:
        """Return what `update` would do; change nothing. Raises UnknownService."""
        from gpupool.wire.serving.services import ServicePlanOut

        answer = self._api.request("POST", f"{_path(name)}/plan", {"rule": rule})
        return read_answer(ServicePlanOut, answer)

    def scale(self, name: str, replicas: int) -> ServiceOut:
        """Keep a fixed number of replicas. Idempotent. Raises UnknownService."""
        return self.update(name, min_replicas=replicas, max_replicas=replicas)

    def delete(self, name: str) -> ServiceOut:
        """End the replicas, each once it has no requests, and remove the service. Idempotent."""
        return _read(self._api.request("DELETE", _path(name)))

    def _post(self, body: dict[str, Any]) -> ServiceOut:
        key = os.urandom(16).hex()
        return _read(self._api.request("POST", "services", body, idempotency_key=key))


def _read(answer: Any) -> ServiceOut:
    from gpupool.wire.serving.services import ServiceOut

    return read_answer(ServiceOut, answer)


def _path(name: str) -> str:
    return f"services/{path_segment(name)}"
