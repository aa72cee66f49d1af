"""The thread that delivers messages: at least once, with pauses that grow, dead in the end.

It costs nothing while there is no subscription.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Hashable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

import sqlalchemy as sa

from gpupool.base.errors import GpupoolError
from gpupool.base.ids import new_id
from gpupool.base.silence import mark_busy
from gpupool.base.supervision import SupervisedThread
from gpupool.notifications.collector import Collector, may_hear
from gpupool.notifications.formats import (
    LINE_BYTES,
    MOST_TEXT_BYTES,
    Format,
    Message,
    build_request,
)
from gpupool.notifications.outlets import DeliveryFailure, post_request, send_mail
from gpupool.notifications.settings import read_hosts, read_mail_server
from gpupool.notifications.tables import deliveries, subscriptions
from gpupool.notifications.texts import write_sentence, write_title
from gpupool.notifications.timing import NANOS, compute_retry, read_quiet_hours
from gpupool.notifications.topics import Topic
from gpupool.store.database import Store
from gpupool.store.secrets.vault import SecretVault
from gpupool.tenancy.tables import users

#: Seconds between two looks at jobs that wait, and at most between two of anything.
LOOK_SECONDS: Final = 30.0
#: Seconds between two looks while events come all the time.
_PAUSE_SECONDS: Final = 0.25
#: Receivers that are connected to at once; one that does not answer holds no other up.
_RECEIVERS_AT_ONCE: Final = 8
#: Deliveries of one look.
_MOST_AT_ONCE: Final = 500
#: So many messages for one subscription at once are joined to one.
_MOST_SINGLE: Final = 10
#: Days for which deliveries that have ended are kept.
_KEEP_DAYS: Final = 30
_BUSY_SECONDS: Final = 300.0
#: After so long a look begins no further message. Without a bound, hundreds of receivers that do not
#: answer would make the thread silent, which restarts the server.
_DELIVER_SECONDS: Final = 60.0
_PAUSED: Final = deliveries.alias("paused")
#: Those of a user that is disabled wait, and are no reason to look again.
_IS_DELIVERABLE: Final = sa.and_(
    deliveries.c.state == "waiting",
    users.c.disabled_ns.is_(None),
    users.c.retired_ns.is_(None),
)


class NotificationSender:
    """Follows the event log and delivers: `start`, then `close`."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._collector = Collector(store)
        self._wake = threading.Event()
        self._closing = threading.Event()
        self._is_used = False
        self._next_look_ns = 0
        self._thread = SupervisedThread("notifications", self._run)
        store.notifier.add_listener(self._note_commit)

    def start(self) -> None:
        """Start the thread."""
        self._wake.set()
        self._thread.start()

    def close(self) -> None:
        """Stop after the message that is being sent. Idempotent."""
        self._closing.set()
        self._thread.stop()
        self._wake.set()

    def join(self, seconds: float) -> None:
        """Wait for the end of the thread, for at most `seconds`."""
        self._thread.join(seconds)

    def _note_commit(self, topics: frozenset[Hashable]) -> None:
        if "subscriptions" in topics or (self._is_used and "events" in topics):
            self._wake.set()

    def _run(self) -> None:
        while not self._closing.is_set():
            with mark_busy(_BUSY_SECONDS):
                pause = self.look()
            self._thread.mark_well()
            self._wake.wait(pause)
            self._wake.clear()
            self._closing.wait(_PAUSE_SECONDS)

    def look(self) -> float | None:
        """Collect and deliver what is due.

        Returns:
            Seconds until something is due without news; None: nothing will be.
        """
        with self._store.read() as connection:
            query = sa.select(subscriptions.c.id).limit(1)
            self._is_used = connection.execute(query).first() is not None
        if not self._is_used:
            return None
        while self._collector.collect_events() and not self._closing.is_set():
            pass
        now_ns = self._store.clock.now_ns()
        if now_ns >= self._next_look_ns:
            self._collector.collect_looked()
            self._delete_old(now_ns)
            self._next_look_ns = now_ns + int(LOOK_SECONDS * NANOS)
        self._deliver_due()
        return self._find_pause()

    def _deliver_due(self) -> None:
        with self._store.read() as connection:
            rows = _read_due(connection, self._store.clock.now_ns())
        groups = [list(found) for _, found in itertools.groupby(rows, lambda row: row.id)]
        if not groups:
            return
        until = time.monotonic() + _DELIVER_SECONDS
        # Its threads end with the round: one that ends for want of memory is missed at once.
        with ThreadPoolExecutor(_RECEIVERS_AT_ONCE, "notify") as crew:
            for done in [crew.submit(self._deliver_group, group, until) for group in groups]:
                done.result()

    def _deliver_group(self, rows: Sequence[Any], until: float) -> None:
        """Deliver what is due to one subscription; after a failure the rest of it waits as well.

        What is not begun until an instant of `time.monotonic` is left to the next look.
        """
        first = rows[0]
        if not may_hear(first):
            self._drop(rows)
            return
        joined = first.digest_s > 0 or len(rows) > _MOST_SINGLE
        for part in split_rows(rows) if joined else ([row] for row in rows):
            if self._closing.is_set() or time.monotonic() > until:
                return
            if not self._deliver(first, part):
                return

    def _drop(self, rows: Sequence[Any]) -> None:
        """Give up what was collected while its user still had the right to hear of it."""
        first = rows[0]
        error = (
            f"{first.user} has the role {first.role}, which gets no messages of scope {first.scope}"
        )
        values = {"state": "dead", "error": error}
        with self._store.write() as write:
            mine = deliveries.c.id.in_([row.delivery_id for row in rows])
            write.execute(deliveries.update().where(mine).values(**values, ended_ns=write.now_ns))

    def _deliver(self, receiver: Any, rows: Sequence[Any]) -> bool:
        """Deliver one message; return whether its receiver can be tried with the rest."""
        message = build_message(receiver.language, rows)
        try:
            send_message(self._store, receiver, message)
        except DeliveryFailure as failure:
            self._note_failure(rows, failure)
            return failure.is_final
        self._update(rows, lambda _row: {"state": "sent", "error": ""})
        return True

    def _note_failure(self, rows: Sequence[Any], failure: DeliveryFailure) -> None:
        now_ns = self._store.clock.now_ns()
        quiet = read_quiet_hours(rows[0].quiet_hours, rows[0].time_zone)

        def judge(row: Any) -> dict[str, Any]:
            retry = None if failure.is_final else compute_retry(row.attempts + 1, now_ns, quiet)
            state = {"state": "dead"} if retry is None else {"due_ns": retry}
            return {"error": str(failure), **state}

        self._update(rows, judge)

    def _update(self, rows: Sequence[Any], judge: Callable[[Any], dict[str, Any]]) -> None:
        """Write the outcome of one attempt."""
        with self._store.write() as write:
            for row in rows:
                values = judge(row) | {"attempts": row.attempts + 1}
                if "state" in values:
                    values["ended_ns"] = write.now_ns
                mine = deliveries.c.id == row.delivery_id
                write.execute(deliveries.update().where(mine).values(**values))

    def _find_pause(self) -> float:
        now_ns = self._store.clock.now_ns()
        query = (
            sa.select(sa.func.min(deliveries.c.due_ns))
            .join(subscriptions, subscriptions.c.id == deliveries.c.subscription_id)
            .join(users, users.c.id == subscriptions.c.user_id)
            .where(_IS_DELIVERABLE)
            .where(sa.or_(deliveries.c.due_ns > now_ns, ~_is_paused(now_ns)))
        )
        with self._store.read() as connection:
            due_ns = connection.execute(query).scalar_one()
        soonest = self._next_look_ns if due_ns is None else min(due_ns, self._next_look_ns)
        return max(_PAUSE_SECONDS, (soonest - now_ns) / NANOS)

    def _delete_old(self, now_ns: int) -> None:
        old = sa.and_(
            deliveries.c.state != "waiting",
            deliveries.c.ended_ns < now_ns - _KEEP_DAYS * 86_400 * NANOS,
        )
        with self._store.read() as connection:
            some = connection.execute(sa.select(deliveries.c.id).where(old).limit(1)).first()
        if some is not None:
            with self._store.write(freeing=True) as write:
                write.execute(deliveries.delete().where(old))


def _read_due(connection: sa.Connection, now_ns: int) -> Sequence[Any]:
    """Read what is due, by subscription, each with its receiver."""
    query = (
        sa.select(
            subscriptions,
            deliveries.c.id.label("delivery_id"),
            deliveries.c.public_id.label("delivery"),
            deliveries.c.topic,
            deliveries.c.subject,
            deliveries.c.data,
            deliveries.c.at_ns,
            deliveries.c.attempts,
            users.c.name.label("user"),
            users.c.role,
        )
        .join(subscriptions, subscriptions.c.id == deliveries.c.subscription_id)
        .join(users, users.c.id == subscriptions.c.user_id)
        .where(_IS_DELIVERABLE, deliveries.c.due_ns <= now_ns, ~_is_paused(now_ns))
        .order_by(subscriptions.c.id, deliveries.c.id)
        .limit(_MOST_AT_ONCE)
    )
    return connection.execute(query).all()


def _is_paused(now_ns: int) -> sa.ColumnElement[bool]:
    """Match deliveries of a subscription whose receiver failed and is not to be tried yet.

    Also what happens meanwhile waits for the end of the pause: a receiver that is down would
    otherwise get an attempt for each message.
    """
    return sa.exists().where(
        _PAUSED.c.subscription_id == deliveries.c.subscription_id,
        _PAUSED.c.state == "waiting",
        _PAUSED.c.attempts > 0,
        _PAUSED.c.due_ns > now_ns,
    )


def split_rows(rows: Sequence[Any]) -> Iterator[list[Any]]:
    """Split what is due to one subscription into messages that its receiver takes whole."""
    most = MOST_TEXT_BYTES.get(Format(rows[0].format))
    part = list[Any]()
    size = 0
    for row in rows:
        text = write_sentence(Topic(row.topic), row.subject, row.data, row.language)
        more = len(text.encode(errors="replace")) + LINE_BYTES
        if part and most is not None and size + more > most:
            yield part
            part = []
            size = 0
        part.append(row)
        size += more
    yield part


def build_message(language: Any, rows: Sequence[Any]) -> Message:
    """Build the message of some deliveries to one subscription."""
    sentences = [write_sentence(Topic(row.topic), row.subject, row.data, language) for row in rows]
    items = [
        {
            "id": row.delivery,
            "topic": row.topic,
            "subject": row.subject,
            "at_ns": row.at_ns,
            "data": row.data,
        }
        for row in rows
    ]
    return Message(rows[0].delivery, write_title(sentences, language), sentences, items)


def send_message(store: Store, receiver: Any, message: Message) -> None:
    """Send a message to the receiver of a subscription's row. Raises DeliveryFailure."""
    kind = Format(receiver.format)
    with store.read() as connection:
        hosts = read_hosts(connection)
        try:
            server = read_mail_server(connection, store.secrets) if kind is Format.MAIL else None
            url, secret = read_receiver(store.secrets, receiver)
        except GpupoolError as error:
            # Not final: an operator may put the key back.
            raise DeliveryFailure(f"{error.code}: {error.message}") from error
    if kind is Format.MAIL:
        send_mail(server, receiver.address, message)
        return
    request = build_request(kind, url, secret, message, store.clock.now_ns())
    post_request(kind, request, hosts)


def read_receiver(secrets: SecretVault, row: Any) -> tuple[str, str]:
    """Return the URL, empty of a mail address, and the signing secret of a subscription's row."""
    url = secrets.decrypt(subscriptions.c.url, row.public_id, row.url)
    return url, secrets.decrypt(subscriptions.c.secret, row.public_id, row.secret)


def send_test(store: Store, receiver: Any) -> str:
    """Send a test message to the receiver of a row; return why it did not arrive."""
    said = {"en": "Test message of gpupool.", "zh": "gpupool 测试消息。"}[receiver.language]
    try:
        send_message(store, receiver, Message(new_id("d"), said, [said], []))
    except DeliveryFailure as failure:
        return str(failure)
    return ""
