"""Delivers one message, over HTTP or by mail."""

from __future__ import annotations

import http.client
import io
import smtplib
import socket
import ssl
import time
from collections.abc import Iterable
from email.message import EmailMessage
from email.utils import formatdate
from typing import TYPE_CHECKING, Any, Final

from gpupool.base.errors import GpupoolError
from gpupool.notifications.formats import Format, HookRequest, Message, find_refusal
from gpupool.notifications.hosts import Lookup, Receiver, look_up, resolve_receiver
from gpupool.notifications.texts import clean_text
from gpupool.wire.notifications import AllowedHost, MailServerIn

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

#: Seconds for a connection, and for the whole answer on it.
TIMEOUT_SECONDS: Final = 10.0
_MOST_ANSWER_BYTES: Final = 65_536
#: Answers that another attempt would get as well.
_FINAL_STATUSES: Final = frozenset({400, 401, 403, 404, 405, 410})


class DeliveryFailure(Exception):
    """A message did not arrive. `is_final`: no further attempt would help."""

    def __init__(self, text: str, *, is_final: bool = False) -> None:
        super().__init__(text[:400])
        self.is_final = is_final


def post_request(
    kind: Format, request: HookRequest, allowed: Iterable[AllowedHost], lookup: Lookup = look_up
) -> None:
    """Send a request to its receiver; redirects are not followed. Raises DeliveryFailure."""
    try:
        receiver = resolve_receiver(request.url, allowed, lookup)
        status, body = _exchange(receiver, request)
    except GpupoolError as error:
        raise DeliveryFailure(f"{error.code}: {error.message}") from error
    except (OSError, http.client.HTTPException) as error:
        raise DeliveryFailure(f"{type(error).__name__}: {error}") from error
    if not 200 <= status < 300:
        raise DeliveryFailure(f"answered {status}", is_final=status in _FINAL_STATUSES)
    refusal = find_refusal(kind, body)
    if refusal:
        raise DeliveryFailure(f"refused: {refusal}")


def _exchange(receiver: Receiver, request: HookRequest) -> tuple[int, bytes]:
    connection = _PinnedConnection(receiver)
    headers = {"Content-Type": "application/json; charset=utf-8", "User-Agent": "gpupool"}
    try:
        connection.request("POST", receiver.target, request.body, {**headers, **request.headers})
        answer = connection.getresponse()
        return answer.status, answer.read(_MOST_ANSWER_BYTES)
    finally:
        connection.close()


class _AnswerBytes(io.RawIOBase):
    """The bytes of an answer, with one deadline: the timeout of a socket restarts at each byte."""

    def __init__(self, raw: io.RawIOBase, sock: socket.socket) -> None:
        self._raw = raw
        self._sock = sock
        self._until = time.monotonic() + TIMEOUT_SECONDS

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer) -> int | None:
        left = self._until - time.monotonic()
        if left <= 0:
            raise TimeoutError(f"the answer takes longer than {TIMEOUT_SECONDS:g} s")
        self._sock.settimeout(left)
        return self._raw.readinto(buffer)

    def close(self) -> None:
        self._raw.close()
        super().close()


class _TimedAnswer(http.client.HTTPResponse):
    """An answer that has to come within `TIMEOUT_SECONDS` as a whole."""

    def __init__(self, sock: socket.socket, *args: Any, **options: Any) -> None:
        super().__init__(sock, *args, **options)
        self.fp = io.BufferedReader(_AnswerBytes(self.fp.detach(), sock))


class _PinnedConnection(http.client.HTTPConnection):
    """A connection to the address that was judged, by the name in the URL."""

    response_class = _TimedAnswer

    def __init__(self, receiver: Receiver) -> None:
        super().__init__(receiver.host, receiver.port, timeout=TIMEOUT_SECONDS)
        self._receiver = receiver

    def connect(self) -> None:
        """Connect, and agree on TLS where the URL says https."""
        pair = (self._receiver.address, self._receiver.port)
        self.sock = socket.create_connection(pair, TIMEOUT_SECONDS)
        if not self._receiver.is_plain:
            context = ssl.create_default_context()
            self.sock = context.wrap_socket(self.sock, server_hostname=self._receiver.host)


def send_mail(server: MailServerIn | None, address: str, message: Message) -> None:
    """Send a message by the pool's mail server. Raises DeliveryFailure."""
    if server is None:
        raise DeliveryFailure("the pool has no mail server; an admin sets one: gpupool notify mail")
    mail = build_mail(server.sender, address, message)
    try:
        with _open_session(server) as session:
            session.send_message(mail)
    except smtplib.SMTPRecipientsRefused as error:
        code, said = next(iter(error.recipients.values()))
        raise DeliveryFailure(
            f"{address} refused: {code} {_decode(said)}", is_final=code >= 500
        ) from error
    except (OSError, smtplib.SMTPException) as error:
        raise DeliveryFailure(f"{type(error).__name__}: {error}") from error


def build_mail(sender: str, address: str, message: Message) -> EmailMessage:
    """Build the mail of a message."""
    mail = EmailMessage()
    mail["From"] = sender
    mail["To"] = address
    mail["Subject"] = clean_text(message.title)
    mail["Date"] = formatdate()
    # The same at every attempt: a mail program shows a repetition once.
    mail["Message-ID"] = f"<{message.key}@gpupool>"
    mail["Auto-Submitted"] = "auto-generated"  # RFC 3834: no holiday replies
    mail.set_content(message.text + "\n")
    return mail


def _open_session(server: MailServerIn) -> smtplib.SMTP:
    if server.security == "tls":
        session: smtplib.SMTP = smtplib.SMTP_SSL(
            server.host, server.port, timeout=TIMEOUT_SECONDS, context=ssl.create_default_context()
        )
    else:
        session = smtplib.SMTP(server.host, server.port, timeout=TIMEOUT_SECONDS)
    try:
        if server.security == "starttls":
            session.starttls(context=ssl.create_default_context())
        if server.user:
            session.login(server.user, server.password or "")
    except BaseException:
        session.close()
        raise
    return session


def _decode(said: object) -> str:
    return said.decode(errors="replace") if isinstance(said, bytes) else str(said)
