"""What an admin sets for the pool's messages, and how far the event log is read."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from gpupool.model.tenant import Principal
from gpupool.notifications.tables import notification_settings
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

    def read(self) -> NotificationSettingsOut:
        """Read them; the password of the mail server is not told."""
        with self._store.read() as connection:
            return _describe(connection)

    def change(self, _caller: Principal, body: NotificationSettingsIn) -> NotificationSettingsOut:
        """Change what is named in `body`."""
        values = dict[str, object]()
        if body.hosts is not None:
            unique = {one.host: one for one in body.hosts}
            values["hosts"] = [unique[name].model_dump() for name in sorted(unique)]
        with self._store.write() as write:
            ensure_row(write)
            if body.mail is not None:
                column = notification_settings.c.mail
                password = self._store.secrets.encrypt(write, column, 1, body.mail.password)
                values["mail"] = {**body.mail.model_dump(), "password": password}
            if values:
                write.execute(notification_settings.update().values(**values))
                write.event("notifications.changed", "settings", data={"fields": sorted(values)})
            out = _describe(write.connection)
            write.answer(200, out.model_dump(mode="json"))
        return out


def _describe(connection: sa.Connection) -> NotificationSettingsOut:
    found = _read_mail(connection)
    names = MailServerOut.model_fields
    mail = None if found is None else MailServerOut(**{name: found[name] for name in names})
    return NotificationSettingsOut(hosts=read_hosts(connection), mail=mail)


def _read_mail(connection: sa.Connection) -> dict[str, Any] | None:
    query = sa.select(notification_settings.c.mail)
    found: dict[str, Any] | None = connection.execute(query).scalar_one_or_none()
    return found
