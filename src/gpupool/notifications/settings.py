"""What an admin sets for the pool's messages, and how far the event log is read."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from gpupool.base.errors import StaleGeneration
from gpupool.model.tenant import Principal
from gpupool.notifications.tables import notification_settings
from gpupool.store.content_tag import make_content_tag
from gpupool.store.database import Store, WriteTransaction
from gpupool.store.secrets.vault import SecretVault
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


def read_mail_server(connection: sa.Connection, secrets: SecretVault) -> MailServerIn | None:
    """Read the pool's mail server with its password; None: it has none.

    Raises what `SecretVault.decrypt` does.
    """
    found = _read_mail(connection)
    if found is None:
        return None
    password = secrets.decrypt(notification_settings.c.mail, 1, found["password"])
    return MailServerIn(**{**found, "password": password})


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
                password = self._seal_password(write, body.mail)
                values["mail"] = {**body.mail.model_dump(), "password": password}
            if values:
                write.execute(notification_settings.update().values(**values))
                write.event("notifications.changed", "settings", data={"fields": sorted(values)})
            out = _describe(write.connection)
            write.answer(200, out.model_dump(mode="json"))
        return out, _tag(out)

    def _seal_password(self, write: WriteTransaction, server: MailServerIn) -> str | None:
        """Return the password as it is stored: a new one, or the one that is kept.

        Another host never gets the one of this host.
        """
        if server.password is not None:
            column = notification_settings.c.mail
            return self._store.secrets.encrypt(write, column, 1, server.password)
        before = _read_mail(write.connection)
        if before is None or (before["host"], before["user"]) != (server.host, server.user):
            return ""
        kept: str = before["password"]
        return kept


def _tag(settings: NotificationSettingsOut) -> int:
    return make_content_tag(settings.model_dump(mode="json"))


def _describe(connection: sa.Connection) -> NotificationSettingsOut:
    found = _read_mail(connection)
    mail = None
    if found is not None:
        known = {name: value for name, value in found.items() if name != "password"}
        mail = MailServerOut(**known, has_password=bool(found["password"]))
    return NotificationSettingsOut(hosts=read_hosts(connection), mail=mail)


def _read_mail(connection: sa.Connection) -> dict[str, Any] | None:
    query = sa.select(notification_settings.c.mail)
    found: dict[str, Any] | None = connection.execute(query).scalar_one_or_none()
    return found
