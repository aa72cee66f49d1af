"""Subscriptions as their owners see them. Thread-safe."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, Final

import sqlalchemy as sa

from gpupool.base.errors import (
    BadOption,
    DeliveryNotDead,
    NameTaken,
    NoPermission,
    TooManySubscriptions,
    UnknownDelivery,
    UnknownSubscription,
)
from gpupool.base.ids import check_name, new_id
from gpupool.model.tenant import Permission, Principal
from gpupool.notifications.descriptions import (
    count_deliveries,
    describe_delivery,
    describe_subscription,
    hide_path,
)
from gpupool.notifications.formats import Format
from gpupool.notifications.hosts import find_allowed, parse_url
from gpupool.notifications.settings import ensure_row, read_hosts
from gpupool.notifications.tables import deliveries, notification_settings, subscriptions
from gpupool.notifications.timing import parse_quiet_hours, parse_zone
from gpupool.notifications.topics import Scope, Topic, allows_topic
from gpupool.store.database import Store, WriteTransaction
from gpupool.store.tables import pool
from gpupool.tenancy.tables import tenants, users
from gpupool.tenancy.user_names import find_ended_users
from gpupool.wire.notifications import DeliveryOut, DeliveryTestOut, SubscriptionIn, SubscriptionOut

#: Subscriptions of one user.
MOST_SUBSCRIPTIONS: Final = 50
#: Deliveries in one answer.
MOST_DELIVERIES: Final = 1000
_MAIL: Final = re.compile(r"[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]{1,64}@[A-Za-z0-9.-]{1,253}")
_PERMISSIONS: Final = {
    Scope.MINE: Permission.READ,
    Scope.TENANT: Permission.MANAGE_TENANT,
    Scope.POOL: Permission.MANAGE_POOL,
}
_SHOWN: Final = (
    sa.select(
        subscriptions,
        users.c.name.label("user"),
        tenants.c.name.label("tenant"),
    )
    .join(users, users.c.id == subscriptions.c.user_id)
    .join(tenants, tenants.c.id == subscriptions.c.tenant_id)
)
_DELIVERIES: Final = (
    sa.select(deliveries, subscriptions.c.name, users.c.name.label("user"))
    .join(subscriptions, subscriptions.c.id == deliveries.c.subscription_id)
    .join(users, users.c.id == subscriptions.c.user_id)
)


class SubscriptionService:
    """Subscriptions and their deliveries."""

    def __init__(self, store: Store, send_test: Callable[[Any], str]) -> None:
        """Make the service.

        Args:
            send_test: sends a test message to the receiver of a row; returns why it did not arrive.
        """
        self._store = store
        self._send_test = send_test
        store.commit_steps["subscriptions"] = _delete_of_ended_users

    def list_subscriptions(self, caller: Principal) -> list[SubscriptionOut]:
        """List the caller's own, those of its tenant for its admins, all for an admin."""
        query = _SHOWN.where(_match_visible(caller)).order_by(users.c.name, subscriptions.c.name)
        with self._store.read() as connection:
            counts = count_deliveries(connection)
            return [describe_subscription(row, counts) for row in connection.execute(query)]

    def get_subscription(
        self, caller: Principal, name: str, user: str | None = None
    ) -> SubscriptionOut:
        """Describe a subscription. Raises UnknownSubscription."""
        with self._store.read() as connection:
            row = _find_visible(connection, caller, name, user)
            return describe_subscription(row, count_deliveries(connection))

    def create_subscription(self, caller: Principal, body: SubscriptionIn) -> SubscriptionOut:
        """Subscribe a receiver to what happens from now on.

        Raises:
            BadOption: a field is wrong by itself.
            ForbiddenReceiver: the pool sends no messages to that host.
            NoPermission: the scope is not the caller's.
            NameTaken: the caller has one of that name.
            TooManySubscriptions: the caller has as many as one may have.
        """
        check_name(body.name, "subscription")
        _check_scope(caller, body)
        parse_zone(body.time_zone)
        parse_quiet_hours(body.quiet_hours, body.time_zone)
        with self._store.write() as write:
            _check_address(write.connection, body)
            _check_room(write.connection, caller, body.name)
            ensure_row(write)
            if write.execute(sa.select(subscriptions.c.id).limit(1)).first() is None:
                _skip_past(write)
            key = new_id("n")
            vault = self._store.secrets
            is_mail = Format(body.format) is Format.MAIL
            url = "" if is_mail else body.address
            write.insert(
                subscriptions,
                public_id=key,
                user_id=caller.user_id,
                tenant_id=caller.tenant_id,
                scope=body.scope,
                name=body.name,
                format=body.format,
                address=body.address if is_mail else hide_path(body.address),
                url=vault.encrypt(write, subscriptions.c.url, key, url),
                secret=vault.encrypt(write, subscriptions.c.secret, key, body.secret),
                topics=sorted(set(body.topics)),
                waiting_s=body.waiting_seconds,
                language=body.language,
                quiet_hours=body.quiet_hours,
                time_zone=body.time_zone,
                digest_s=body.digest_seconds,
                since_seq=write.execute(sa.select(pool.c.event_seq)).scalar_one(),
                created_ns=write.now_ns,
            )
            out = describe_subscription(_find_visible(write.connection, caller, body.name), {})
            _note_change(write, "created", caller, body.name)
            write.answer(201, out.model_dump(mode="json"))
        return out

    def delete_subscription(self, caller: Principal, name: str, user: str | None = None) -> None:
        """Delete a subscription and its deliveries. Raises UnknownSubscription."""
        with self._store.write() as write:
            row = _find_visible(write.connection, caller, name, user)
            _delete_rows(write, [row.id])
            _note_change(write, "deleted", caller, name)
            write.answer(204, None)

    def send_test_message(
        self, caller: Principal, name: str, user: str | None = None
    ) -> DeliveryTestOut:
        """Send a test message now, outside of quiet hours and digests too."""
        with self._store.read() as connection:
            row = _find_visible(connection, caller, name, user)
        error = self._send_test(row)
        return DeliveryTestOut(delivered=not error, error=error)

    def list_deliveries(
        self, caller: Principal, state: str | None = None, limit: int = 100
    ) -> list[DeliveryOut]:
        """List deliveries of the subscriptions that the caller sees, the newest first."""
        query = _DELIVERIES.where(_match_visible(caller))
        query = query.order_by(deliveries.c.id.desc()).limit(limit)
        if state is not None:
            query = query.where(deliveries.c.state == state)
        with self._store.read() as connection:
            return [describe_delivery(row) for row in connection.execute(query)]

    def retry_delivery(self, caller: Principal, delivery: str) -> DeliveryOut:
        """Try a delivery that was given up once more, now, with all its attempts.

        Raises:
            UnknownDelivery: the caller sees no such delivery.
            DeliveryNotDead: it was not given up.
        """
        query = _DELIVERIES.where(_match_visible(caller), deliveries.c.public_id == delivery)
        with self._store.write() as write:
            row = write.execute(query).one_or_none()
            if row is None:
                raise UnknownDelivery(
                    f"there is no delivery {delivery[:80]!r}", hint="gpupool notify dead list"
                )
            if row.state != "dead":
                raise DeliveryNotDead(
                    f"delivery {delivery} was not given up: got {row.state}, expected dead",
                    hint="gpupool notify dead list  shows those that were given up",
                    state=row.state,
                )
            values = {
                "state": "waiting",
                "attempts": 0,
                "due_ns": write.now_ns,
                "ended_ns": None,
            }
            write.execute(deliveries.update().where(deliveries.c.id == row.id).values(**values))
            out = describe_delivery(write.execute(query).one())
            # It wakes the sender.
            write.announce("subscriptions")
            write.answer(200, out.model_dump(mode="json"))
        return out


def _match_visible(caller: Principal) -> sa.ColumnElement[bool]:
    if caller.sees_all:
        return sa.true()
    mine = subscriptions.c.user_id == caller.user_id
    if not caller.has_permission(Permission.MANAGE_TENANT):
        return mine
    # Of a user that changed its tenant each of the two would see messages about the other.
    both = (subscriptions.c.tenant_id, users.c.tenant_id)
    return sa.or_(mine, sa.and_(*(column == caller.tenant_id for column in both)))


def _find_visible(
    connection: sa.Connection, caller: Principal, name: str, user: str | None = None
) -> Any:
    """Find a subscription by its name.

    Args:
        user: whose, among those that the caller sees; None: the caller's own.
    """
    query = _SHOWN.where(_match_visible(caller), subscriptions.c.name == name)
    query = query.where(users.c.name == (caller.user if user is None else user))
    row = connection.execute(query).one_or_none()
    if row is None:
        raise UnknownSubscription(
            f"there is no subscription {name[:80]!r}", hint="gpupool notify list"
        )
    return row


def _check_scope(caller: Principal, body: SubscriptionIn) -> None:
    scope = Scope(body.scope)
    if not caller.has_permission(_PERMISSIONS[scope]):
        raise NoPermission(
            f"{caller.user} has the role {caller.role}, which may not hear of all of the {scope}",
            hint="leave --scope out to hear of your own jobs",
        )
    wrong = [topic for topic in body.topics if not allows_topic(scope, Topic(topic))]
    if wrong:
        raise BadOption(
            f"scope {scope} has no {', '.join(sorted(wrong))}",
            hint="scope tenant has budgets and reservations, scope pool also cards and nodes",
        )


def _check_address(connection: sa.Connection, body: SubscriptionIn) -> None:
    kind = Format(body.format)
    if kind is not Format.MAIL:
        find_allowed(parse_url(body.address), read_hosts(connection))
    elif not _MAIL.fullmatch(body.address):
        raise BadOption(
            f"{body.address[:80]!r} is no mail address", hint="write it like ada@example.com"
        )
    if body.secret and kind in (Format.MAIL, Format.SLACK, Format.TEAMS, Format.WECOM):
        raise BadOption(
            f"messages of format {body.format} have no signature", hint="leave the secret out"
        )


def _check_room(connection: sa.Connection, caller: Principal, name: str) -> None:
    query = sa.select(subscriptions.c.name).where(subscriptions.c.user_id == caller.user_id)
    names = set(connection.execute(query).scalars())
    if name in names:
        raise NameTaken(
            f"you have a subscription {name}", hint=f"gpupool notify delete {name}, or another name"
        )
    if len(names) >= MOST_SUBSCRIPTIONS:
        raise TooManySubscriptions(
            f"you have {len(names)} subscriptions, which is the most",
            hint="gpupool notify list",
            limit=MOST_SUBSCRIPTIONS,
        )


def _delete_rows(write: WriteTransaction, ids: Sequence[int]) -> None:
    write.execute(deliveries.delete().where(deliveries.c.subscription_id.in_(ids)))
    write.execute(subscriptions.delete().where(subscriptions.c.id.in_(ids)))


def _delete_of_ended_users(write: WriteTransaction) -> None:
    """Delete the subscriptions of users that end in this transaction. Idempotent."""
    ended = find_ended_users(write)
    if not ended:
        return
    mine = sa.select(subscriptions.c.id).where(subscriptions.c.user_id.in_(ended))
    ids = write.execute(mine).scalars().all()
    if ids:
        _delete_rows(write, ids)
        write.announce("subscriptions")


def _skip_past(write: WriteTransaction) -> None:
    """Begin to read the event log at its end: nothing read it while there was no subscription."""
    row = write.execute(sa.select(pool.c.event_seq, pool.c.event_epoch)).one()
    values = {"read_seq": row.event_seq, "event_epoch": row.event_epoch}
    write.execute(notification_settings.update().values(**values))


def _note_change(write: WriteTransaction, what: str, caller: Principal, name: str) -> None:
    data = {"user": caller.user}
    write.event(f"subscription.{what}", name, tenant_id=caller.tenant_id, data=data)
    write.announce("subscriptions")
