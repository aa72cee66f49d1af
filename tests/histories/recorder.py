"""Clients of a history: each asks one thing at a time, and writes down what it asked, when, and
what was answered."""

from __future__ import annotations

import random
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from gpupool.base.errors import (
    GpupoolError,
    NameTaken,
    NotFound,
    ServiceUnavailable,
    StaleGeneration,
    UnknownTenant,
    WrongState,
)
from gpupool.client.transport import Api
from tests.faults.pool import FaultPool
from tests.histories.linearizability import Operation
from tests.histories.models import REFUSED

REFUSALS = (NameTaken, NotFound, UnknownTenant, StaleGeneration, WrongState)
GIB = 1 << 30


@dataclass
class History:
    """Operations by the object they are about; clients add to it from their threads."""

    by_object: dict[tuple[str, str], list[Operation]] = field(
        default_factory=lambda: defaultdict(list)
    )
    lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, kind: str, name: str, operation: Operation) -> None:
        with self.lock:
            self.by_object[kind, name].append(operation)

    @property
    def count(self) -> int:
        return sum(len(operations) for operations in self.by_object.values())

    @property
    def unanswered(self) -> int:
        return sum(
            one.returned_ns is None for operations in self.by_object.values() for one in operations
        )


class Recorder:
    """One client: sends a request, records call and return. A request with a key is sent until it
    is answered."""

    def __init__(self, api: Api, history: History, client: int, ended: threading.Event) -> None:
        self._api, self._history, self._client, self._ended = api, history, client, ended

    def ask(
        self,
        kind: str,
        name: str,
        verb: str,
        argument: Any,
        send: Callable[[Api], Any],
        *,
        repeats: bool = False,
    ) -> Any:
        """The answer as recorded: of `send`, REFUSED, or None where none came. Other errors of the
        pool are raised."""
        called = time.monotonic_ns()
        while True:
            answer, returned = None, None
            try:
                answer = send(self._api)
                returned = time.monotonic_ns()
            except REFUSALS:
                answer, returned = REFUSED, time.monotonic_ns()
            except ServiceUnavailable:
                self._ended.wait(0.05)  # a pool that is being killed is asked again, not hammered
            if returned is not None or not repeats or self._ended.is_set():
                break
        if returned is not None or verb != "get":  # a read without an answer says nothing
            self._history.add(
                kind, name, Operation(self._client, called, returned, verb, argument, answer)
            )
        return answer


@dataclass(frozen=True)
class Objects:
    """What the clients of one history ask about. The running jobs have a card each; names are of
    jobs that wait."""

    quota_tenant: str
    tenants: tuple[str, ...]
    names: tuple[str, ...]
    running: tuple[str, ...]


class Client:
    """A thread that asks about the objects at random. `error` is what ended it, if anything did."""

    def __init__(
        self, pool: FaultPool, objects: Objects, history: History, number: int, seed: str
    ) -> None:
        self.error: BaseException | None = None
        self._objects, self._chance = objects, random.Random(f"{seed}-{number}")
        self._ended = threading.Event()
        self._api = pool.api()
        self._recorder = Recorder(self._api, history, number, self._ended)
        self._generation: int | None = None
        self._thread = threading.Thread(target=self._run, name=f"history-{number}", daemon=True)
        self._thread.start()

    def end(self) -> None:
        """Called once the pool answers again; raises what went wrong in the client."""
        self._ended.set()
        self._thread.join(90)
        self._api.close()
        if self.error is not None:
            raise self.error

    def _run(self) -> None:
        actions = (self._quota, self._tenant, self._name, self._submission, self._running_job)
        try:
            while not self._ended.is_set():
                self._chance.choice(actions)()
        except (GpupoolError, KeyError, AssertionError) as error:
            self.error = error

    def _key(self) -> str:
        return f"{self._chance.getrandbits(128):032x}"

    def _quota(self) -> None:
        path = f"tenants/{self._objects.quota_tenant}/quota"
        if self._chance.random() < 0.5:
            answer = self._recorder.ask(
                "quota", path, "get", None, lambda api: _with_etag(api, api.request("GET", path))
            )
            self._generation = None if answer is None else answer[1]
            return
        named = self._generation if self._chance.random() < 0.5 else None
        value, key = self._chance.randrange(1, 1 << 20), self._key()
        match = None if named is None else f'"{named}"'

        def put(api: Api) -> tuple[int | None, int]:
            body = {
                "nominal_milli": 0,
                "borrowing_milli": value,
            }  # it guarantees nothing, so it changes no other object
            return _with_etag(
                api, api.request("PUT", path, body, if_match=match, idempotency_key=key)
            )

        self._recorder.ask(
            "quota", path, "put", (value, named), put, repeats=self._chance.random() < 0.7
        )

    def _tenant(self) -> None:
        name, verb = (
            self._chance.choice(self._objects.tenants),
            self._chance.choice(("create", "delete", "get")),
        )
        method, path = {"create": ("POST", "tenants"), "delete": ("DELETE", f"tenants/{name}")}.get(
            verb, ("GET", f"tenants/{name}")
        )
        key = self._key()

        def send(api: Api) -> bool:
            body = {"name": name} if verb == "create" else None
            api.request(method, path, body, idempotency_key=None if verb == "get" else key)
            return True

        self._recorder.ask("tenant", name, verb, None, send, repeats=self._chance.random() < 0.7)

    def _name(self) -> None:
        name = self._chance.choice(self._objects.names)
        if self._chance.random() < 0.5:
            body, key = waiting_job(name), self._key()
            self._recorder.ask(
                "name", name, "submit", None,
                lambda api: api.request("POST", "jobs", body, idempotency_key=key)["first"]["id"],
                repeats=self._chance.random() < 0.7,
            )  # fmt: skip
            return
        self._recorder.ask(
            "name",
            name,
            "stop",
            None,
            lambda api: api.request("POST", f"jobs/{name}/stop", {"grace_seconds": 0})[0]["id"],
        )

    def _submission(self) -> None:
        """Several clients use the same few keys at the same time."""
        number = (
            self._chance.randrange(1000)
            if self._chance.random() < 0.2
            else int(time.monotonic() * 4)
        )
        key = f"submission-{number}"
        self._recorder.ask(
            "submission", key, "submit", None,
            lambda api: api.request("POST", "jobs", waiting_job(None, key), idempotency_key=key)["first"]["id"],
            repeats=True,
        )  # fmt: skip

    def _running_job(self) -> None:
        job = self._chance.choice(self._objects.running)
        if self._chance.random() < 0.6:
            self._recorder.ask(
                "running", job, "get", None, lambda api: _size(api.request("GET", f"jobs/{job}"))
            )
            return
        milli, key = self._chance.randrange(1, 1001), self._key()
        self._recorder.ask(
            "running", job, "resize", milli,
            lambda api: _size(
                api.request("POST", f"jobs/{job}/resize", {"gpu_milli": milli}, idempotency_key=key)["job"]
            ),
            repeats=self._chance.random() < 0.7,
        )  # fmt: skip


def waiting_job(name: str | None, token: str = "") -> dict[str, Any]:
    """A job that fits the pool and finds no card free, as others have them all."""
    launch = {"argv": ["sleep", "600", token], "cwd": "/", "env": {"PATH": "/usr/bin:/bin"}}
    body: dict[str, Any] = {"shape": {"gpu_milli": 1000, "count": 1}, "launch": launch}
    return body if name is None else body | {"name": name}


def _with_etag(api: Api, quota: dict[str, Any]) -> tuple[int | None, int]:
    assert api.etag is not None
    return quota["borrowing_milli"], int(api.etag.strip('"'))


def _size(job: dict[str, Any]) -> tuple[int, int]:
    return job["gpu_milli"], job["generation"]
