"""Revision 0067 divides the address of a subscription into what is shown and what is secret; 0071 lists
the columns that are encrypted."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import sqlalchemy as sa

from gpupool.notifications.tables import subscriptions
from gpupool.server.migrate import prepare_database
from gpupool.store.database import connect, sqlite_url
from gpupool.store.secrets.columns import list_secret_columns

later = import_module("gpupool.server.migrations.versions.0071_keys_of_networks_are_encrypted")
revision = import_module("gpupool.server.migrations.versions.0067_secrets_are_encrypted")


def test_the_path_of_a_url_is_kept_apart_and_a_mail_address_stays(tmp_path: Path) -> None:
    engine = connect(sqlite_url(tmp_path / "gpupool.db"))
    prepare_database(engine, 1, "p-1")
    rows = {
        "n-1": ("webhook", "https://hooks.example:8443/T0/SECRET?key=1"),
        "n-2": ("mail", "ada@example.com"),
    }
    with engine.connect() as connection:
        connection.exec_driver_sql("PRAGMA foreign_keys=OFF")
        for key, (kind, address) in rows.items():
            connection.execute(
                subscriptions.insert().values(
                    public_id=key,
                    user_id=1,
                    tenant_id=1,
                    scope="mine",
                    name=key,
                    format=kind,
                    address=address,
                    secret="",
                    topics=["job-failed"],
                    waiting_s=60,
                    language="en",
                    quiet_hours="",
                    time_zone="UTC",
                    digest_s=0,
                    since_seq=0,
                    created_ns=1,
                )
            )
        revision._divide_addresses(connection)
        query = sa.select(subscriptions.c.address, subscriptions.c.url)
        found = [tuple(row) for row in connection.execute(query.order_by(subscriptions.c.id))]
    engine.dispose()
    assert found == [
        ("https://hooks.example:8443/…", "https://hooks.example:8443/T0/SECRET?key=1"),
        ("ada@example.com", ""),
    ]


def test_the_columns_of_an_earlier_version_are_all_but_the_keys_of_networks() -> None:
    names = {one.name for one in list_secret_columns()}
    keys = {f"{table}/private_key" for table in later._KEYS} | {"network_lines/secret_key"}
    assert names == {*later._COVERED, *keys}
