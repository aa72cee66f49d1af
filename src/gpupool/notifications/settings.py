"""What an admin sets for the pool's messages, and how far the event log is read."""

from __future__ import annotations

import sqlalchemy as sa

from gpupool.base.errors import StaleGeneration
from gpupool.model.tenant import Principal
from gpupool.notifications.tables import notification_settings
from gpupool.store.content_tag import make_content_tag
from gpupool.store.database import Store, WriteTransaction
from gpupool.wire.notifications import (
    AllowedHost,
    MailServerIn,
    MailServerOut,
    NotificationSettingsIn,
    NotificationSettingsOut,
)


def read_hosts(connection: sa.Connection) -> list[AllowedHost]:
    """Read the hosts that messages may be sent to."""
    query = sa.select(notification_settings.c.hosts)
    found = connection.execute(query).scalar_one_or_none() or []
    return [AllowedHost(**one) for one in found]


def read_mail_server(connection: sa.Connection) -> MailServerIn | None:
    """Read the pool's mail server; None: it has none."""
    found = connection.execute(sa.select(notification_settings.c.mail)).scalar_one_or_none()
    return None if found is None else MailServerIn(**found)


def ensure_row(write: WriteTransaction) -> None:
    """Make the row of settings where there is none."""
    query = sa.select(notification_settings.c.id)
    if write.execute(query).one_or_none() is None:
        write.insert(notification_settings, id=1, read_seq=0, event_epoch="", hosts=[], mail=None)


class NotificationSettings:
    """The settings as admins see and change them. Thread-safe."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def read(self) -> tuple[NotificationSettingsOut, int]:
        """Read them and the tag that a change names; the password of the mail server is not told."""
        with self._store.read() as connection:
            found = _describe(connection)
        return found, _tag(found)

    def change(
        self, _caller: Principal, body: NotificationSettingsIn, tag: int | None = None
    ) -> tuple[NotificationSettingsOut, int]:
        """Change what is named in `body`; a tag: only if it is still that of the settings.

        Raises:
            StaleGeneration: they were changed since.
        """
        values = dict[str, object]()
        if body.hosts is not None:
            unique = {one.host: one for one in body.hosts}
            values["hosts"] = [unique[name].model_dump() for name in sorted(unique)]
        with self._store.write() as write:
            ensure_row(write)
            if tag is not None and tag != _tag(_describe(write.connection)):
                raise StaleGeneration(
                    "the settings of messages were changed since they were read",
                    hint="look again: gpupool notify settings",
                )
            if body.mail is not None:
                values["mail"] = _keep_password(write.connection, body.mail).model_dump()
            if values:
                write.execute(notification_settings.update().values(**values))
                write.event("notifications.changed", "settings", data={"fields": sorted(values)})
            out = _describe(write.connection)
            write.answer(200, out.model_dump(mode="json"))
        return out, _tag(out)


def _keep_password(connection: sa.Connection, server: MailServerIn) -> MailServerIn:
    """Fill in a password that is not named. Another host never gets the one of this host."""
    if server.password is not None:
        return server
    before = read_mail_server(connection)
    is_same = before is not None and (before.host, before.user) == (server.host, server.user)
    kept = before.password if before is not None and is_same else ""
    return server.model_copy(update={"password": kept or ""})


def _tag(settings: NotificationSettingsOut) -> int:
    return make_content_tag(settings.model_dump(mode="json"))


def _describe(connection: sa.Connection) -> NotificationSettingsOut:
    server = read_mail_server(connection)
    mail = None
    if server is not None:
        known = server.model_dump(exclude={"password"})
        mail = MailServerOut(**known, has_password=bool(server.password))
    return NotificationSettingsOut(hosts=read_hosts(connection), mail=mail)
