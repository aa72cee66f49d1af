"""The layer that records what people do: each request that may change something, and refusals.

A change's record commits with the change: `store.acts` asks `RequestAct` in the request's first
transaction. What writes nothing goes to `audit_log.recorder`. Traffic of agents, meters and
collectors is not recorded; what is refused to them elsewhere is. Decision 0106.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gpupool.audit_log.fields import HIDDEN, summarize_body
from gpupool.audit_log.service import AuditService
from gpupool.base.errors import GpupoolError, InternalError
from gpupool.model.tenant import Permission, Principal
from gpupool.server.http.problems import CLIENT_GONE, MEDIA_TYPE, status_of
from gpupool.server.middleware.auth import SAFE_METHODS
from gpupool.server.middleware.request_bodies import BODY_KEY
from gpupool.server.middleware.request_metrics import route_template
from gpupool.store import acts
from gpupool.store.acts import ActActor, AuditEntry
from gpupool.store.write_transaction import WriteTransaction
from gpupool.tenancy.access import PRINCIPAL_KEY, scope_peer

#: Logins: without a user, what they write is a count of failures.
LOGINS: Final = frozenset(
    {
        "POST /login",
        "POST /login/local",
        "GET /sso/callback",
        "POST /api/v1/sso/device/poll",
    }
)
LOGOUTS: Final = frozenset({"POST /logout", "POST /sso/logout"})
#: They compute an answer and change nothing; the console asks some of them at every key.
COMPUTING: Final = frozenset(
    {
        "POST /api/v1/jobs/plan",
        "POST /api/v1/jobs/preview",
        "POST /api/v1/whatif",
        "POST /api/v1/defrag/plan",
        "POST /api/v1/rebalance/plan",
        "POST /api/v1/services/{service}/plan",
        "POST /api/v1/sso/explain",
        "POST /api/v1/sso/device",
    }
)
#: Routes of machines: heartbeats and reports, many a second.
MACHINES: Final = frozenset({Permission.SERVE_NODE, Permission.TELL_CLUSTER, Permission.SCRAPE})
#: The action of a request that was refused before its route was looked for.
AUTHENTICATE: Final = "authenticate"
OBJECTS_KEPT: Final = 50
OBJECT_CHARACTERS: Final = 128
#: Of an error's body that is read for its code; ours are shorter.
_PROBLEM_BYTES: Final = 64 << 10


class AuditMiddleware:
    """Records requests. Around authentication, so that refused credentials are recorded too."""

    def __init__(self, app: ASGIApp, audit: AuditService) -> None:
        self._app = app
        self._audit = audit

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        act = RequestAct(scope)
        token = acts.current.set(act if act.may_change else None)
        outcome = _AnswerOutcome(send)
        try:
            await self._app(scope, receive, outcome.send)
        except GpupoolError as error:
            outcome.note_error(error)
            raise
        except Exception:
            outcome.note_error(InternalError(""))
            raise
        finally:
            acts.current.reset(token)
            entry = act.finish(outcome.status, outcome.read_code())
            if entry is not None:
                self._audit.recorder.add(entry)


class _AnswerOutcome:
    """The status and the code of an answer that passes."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._body = b""
        self._is_problem = False
        self._code: str | None = None
        self.status: int | None = None

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            types = [value for name, value in message.get("headers", ()) if name == b"content-type"]
            self._is_problem = bool(types) and types[0].decode("latin-1").startswith(MEDIA_TYPE)
        elif self._is_problem and len(self._body) < _PROBLEM_BYTES:
            self._body += message.get("body", b"")
        await self._send(message)

    def note_error(self, error: GpupoolError) -> None:
        """Note an error that a layer outside answers."""
        self.status = status_of(type(error))
        self._code = error.code

    def read_code(self) -> str | None:
        if self._code is None and self._is_problem:
            try:
                self._code = str(json.loads(self._body)["code"])
            except (ValueError, KeyError):
                return None
        return self._code


class RequestAct:
    """One request, as the audit log sees it: a `store.acts.PendingAct`."""

    def __init__(self, scope: Scope) -> None:
        self._scope = scope
        self._actor: ActActor | None = None
        self._objects: list[str] = []
        self._seq: int | None = None
        self._is_recorded = False
        self._is_closed = False
        self._is_safe = scope["method"] in SAFE_METHODS
        self.may_change = not self._is_safe or f"GET {scope['path']}" in LOGINS

    def name_actor(self, actor: ActActor) -> None:
        self._actor = actor

    def name_object(self, name: str) -> None:
        self._objects.append(name)

    def describe(self, write: WriteTransaction) -> AuditEntry | None:
        """Return the record of the request's first transaction."""
        # Before a route is found, only what authentication notes is written.
        if self._is_closed or self._is_recorded or "route" not in self._scope:
            return None
        action = self._name_action()
        if self._is_of_machine() or (action in LOGINS and self._actor is None):
            return None
        events = write.list_events()
        self._seq = write.audit_head.seq + 1
        facts = self._build_facts(
            _name_kind(action, "change"), action, [str(event["subject"]) for event in events]
        )
        if action not in LOGINS:
            usual = getattr(self._scope["route"], "status_code", None) or 200
            facts["status"] = write.read_answer_status() or usual
        owners = [event["tenant_id"] for event in events if event["tenant_id"] is not None]
        return AuditEntry(facts, owners[0] if owners else self._find_tenant_id())

    def mark_committed(self) -> None:
        self._is_recorded = True

    def finish(self, status: int | None, code: str | None) -> AuditEntry | None:
        """Return the record of a request that wrote none in a transaction; None: it needs none."""
        self._is_closed = True
        if status is None or status == CLIENT_GONE:
            return None
        has_failed = status >= 400
        if self._is_recorded:
            # The effect is committed; what the caller heard is another thing.
            return self._make_entry("answer", status, code) if has_failed else None
        if "route" not in self._scope:
            return self._make_unrouted_entry(status, code)
        if has_failed:
            return self._make_refusal(status, code)
        action = self._name_action()
        is_quiet = action in COMPUTING or action in LOGINS or action in LOGOUTS
        if self._is_safe or is_quiet or self._is_of_machine():
            return None
        return self._make_entry("request", status, code)

    def _make_unrouted_entry(self, status: int, code: str | None) -> AuditEntry | None:
        """Record a credential that does not count, and a caller that may not come in."""
        given = {b"authorization", b"cookie"} & {name for name, _ in self._scope["headers"]}
        if status == 403 or (status == 401 and given):
            return self._make_entry("refusal", status, code, AUTHENTICATE)
        return None

    def _make_refusal(self, status: int, code: str | None) -> AuditEntry | None:
        action = self._name_action()
        # Of readings only what rights refuse; "not found" may be another tenant's thing.
        is_hidden = status == 404 and bool(self._scope.get("path_params"))
        if self._is_safe and action not in LOGINS and status != 403 and not is_hidden:
            return None
        if self._is_of_machine() and status != 403:
            return None
        return self._make_entry(_name_kind(action, "refusal"), status, code, action)

    def _make_entry(
        self, kind: str, status: int, code: str | None, action: str | None = None
    ) -> AuditEntry:
        facts = self._build_facts(kind, action or self._name_action(), ())
        facts |= {"status": status, "code": code}
        if kind == "answer":
            facts["data"] = {"of_seq": self._seq}
        return AuditEntry(facts, self._find_tenant_id())

    def _build_facts(self, kind: str, action: str, subjects: Sequence[str]) -> dict[str, Any]:
        route = self._scope.get("route")
        body = self._scope.get(BODY_KEY, b"")
        changes = summarize_body(None if route is None else _find_body_shape(route), body)
        name = changes.get("name")
        named = [name] if isinstance(name, str) and name != HIDDEN else []
        return {
            "kind": kind,
            "action": action,
            **self._describe_actor(),
            "source": _describe_source(self._scope),
            "objects": self._list_objects([*named, *subjects]),
            "status": None,
            "code": None,
            "request": _read_key(self._scope),
            "changes": changes,
            "times": 1,
        }

    def _describe_actor(self) -> dict[str, str | None]:
        principal = self._scope.get(PRINCIPAL_KEY)
        if isinstance(principal, Principal):
            return {
                "user": principal.user,
                "tenant": principal.tenant,
                "role": principal.role.value,
                "credential": _describe_credential(principal),
            }
        actor = self._actor
        return {
            "user": None if actor is None else actor.user,
            "tenant": None if actor is None else actor.tenant,
            "role": None if actor is None else actor.role,
            "credential": None,
        }

    def _find_tenant_id(self) -> int | None:
        principal = self._scope.get(PRINCIPAL_KEY)
        if isinstance(principal, Principal):
            return principal.tenant_id
        return None if self._actor is None else self._actor.tenant_id

    def _list_objects(self, subjects: Sequence[str]) -> list[str]:
        given = self._scope.get("path_params") or {}
        found = dict.fromkeys([*map(str, given.values()), *self._objects, *subjects])
        names = [name.replace("\n", " ")[:OBJECT_CHARACTERS] for name in found]
        return names[:OBJECTS_KEPT]

    def _name_action(self) -> str:
        return f"{self._scope['method']} {route_template(self._scope)}"[:200]

    def _is_of_machine(self) -> bool:
        dependant = getattr(self._scope.get("route"), "dependant", None)
        needed = [] if dependant is None else dependant.dependencies
        return any(getattr(one.call, "permission", None) in MACHINES for one in needed)


def _name_kind(action: str, usual: str) -> str:
    if action in LOGINS:
        return "login"
    return "logout" if action in LOGOUTS else usual


def _describe_credential(principal: Principal) -> str | None:
    if principal.session is not None:
        return f"session {principal.session}"
    if principal.token is not None:
        return f"{'service-token' if principal.is_service else 'token'} {principal.token}"
    return "socket" if principal.local else None


def _describe_source(scope: Scope) -> str | None:
    peer = scope_peer(scope)
    if peer is not None:
        return f"uid {peer.uid} pid {peer.pid}"
    client = scope.get("client")
    return str(client[0])[:64] if client else None


def _read_key(scope: Scope) -> str | None:
    for name, value in scope["headers"]:
        if name == b"idempotency-key":
            text: str = value.decode("latin-1")[:128]
            return text if text.isascii() and text.isprintable() else None
    return None


def _find_body_shape(route: Any) -> Any:
    field = getattr(route, "body_field", None)
    return None if field is None else field.field_info.annotation
