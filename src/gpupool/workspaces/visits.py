"""Visits of the pages that jobs serve: links that work once, and the cookies that they set.

Both are signed texts: nothing is stored, so cookies outlast the server's restart. A link names the
start of the server that made it and is taken once. What a cookie allows is looked up again for each
request: its user, the token that the user came with, and the right to enter the job. Decision 0103.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import secrets
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Final

from gpupool.base.errors import NotLoggedIn
from gpupool.base.units import NANOS_PER_SECOND

#: A link is opened at once by a browser, or pasted a little later.
LINK_NS: Final = 10 * 60 * NANOS_PER_SECOND
#: A working day; afterwards the person asks for a new link.
COOKIE_NS: Final = 12 * 3600 * NANOS_PER_SECOND
#: Links that were taken: beyond that those that have expired are forgotten: the clock refuses them.
_TAKEN_AT_MOST: Final = 65536


@dataclass(frozen=True)
class Visitor:
    """A person with the right to see the pages of one job.

    Attributes:
        token: id of the token that the person came with; None: of another way to log in.
        session: id of the console's session that the person came with, with which the visit ends;
            None: no browser asked for it.
    """

    job: str
    user_id: int
    token: str | None
    session: str | None = None


class VisitBook:
    """Makes and checks links and cookies. On the event loop alone."""

    def __init__(self, key: bytes, now_ns: Callable[[], int]) -> None:
        self._key = key
        self._now_ns = now_ns
        #: Of this start of the server: an earlier one's links may have been taken.
        self._start = secrets.token_hex(8)
        self._taken: dict[str, int] = {}

    def make_link(self, visitor: Visitor) -> tuple[str, int]:
        """Return the text of a link, and when it expires."""
        expires_ns = self._now_ns() + LINK_NS
        more = {"start": self._start, "number": secrets.token_hex(8)}
        return self._sign("link", visitor, expires_ns, more), expires_ns

    def take_link(self, text: str) -> Visitor:
        """Return the visitor of a link, once. Raises NotLoggedIn."""
        found = self._read("link", text)
        number = str(found.get("number"))
        if found.get("start") != self._start or number in self._taken:
            raise NotLoggedIn(
                "this link was opened before, or the server has restarted since",
                hint="ask for a new one:  gpupool notebook --open JOB",
            )
        if len(self._taken) >= _TAKEN_AT_MOST:
            now_ns = self._now_ns()
            self._taken = {key: end for key, end in self._taken.items() if end > now_ns}
        self._taken[number] = int(str(found["expires_ns"]))
        return _make_visitor(found)

    def make_cookie(self, visitor: Visitor) -> str:
        """Return the value of a cookie for the pages of the visitor's job."""
        return self._sign("cookie", visitor, self._now_ns() + COOKIE_NS, {})

    def read_cookie(self, text: str) -> Visitor:
        """Return the visitor of a cookie. Raises NotLoggedIn."""
        return _make_visitor(self._read("cookie", text))

    def _sign(self, kind: str, visitor: Visitor, expires_ns: int, more: dict[str, str]) -> str:
        content = {**asdict(visitor), **more, "kind": kind, "expires_ns": expires_ns}
        encoded = base64.urlsafe_b64encode(json.dumps(content).encode()).rstrip(b"=")
        return f"{encoded.decode()}.{self._hash(encoded)}"

    def _read(self, kind: str, text: str) -> dict[str, object]:
        encoded, _, signature = text.partition(".")
        given = encoded.encode("utf-8", "replace")
        if not hmac.compare_digest(self._hash(given).encode(), signature.encode()):
            raise _refuse_visit()
        content: dict[str, object] = json.loads(
            base64.urlsafe_b64decode(given + b"=" * (-len(given) % 4))
        )
        if content["kind"] != kind or int(str(content["expires_ns"])) <= self._now_ns():
            raise _refuse_visit()
        return content

    def _hash(self, content: bytes) -> str:
        return hmac.new(self._key, content, hashlib.sha256).hexdigest()


def _make_visitor(content: dict[str, object]) -> Visitor:
    token = content["token"]
    # Cookies of a release before 0114 name no session.
    session = content.get("session")
    return Visitor(
        str(content["job"]),
        int(str(content["user_id"])),
        None if token is None else str(token),
        None if session is None else str(session),
    )


def _refuse_visit() -> NotLoggedIn:
    return NotLoggedIn(
        "this page needs a link of yours, which has expired or is missing",
        hint="ask for one:  gpupool notebook --open JOB",
    )
