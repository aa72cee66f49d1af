"""The pool's membership in an OVN of others: begun, read and ended.

Runs in the transactions of `engine_service`, but for `probe_ovn`.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from gpupool.base.errors import WrongState
from gpupool.network.engine_row import read_engine_row
from gpupool.network.external.credentials import check_credentials
from gpupool.network.external.remotes import find_southbound, parse_remotes
from gpupool.network.external.tables import network_external_ovn
from gpupool.network.gateway_rows import CHASSIS
from gpupool.network.ovn.credentials import show_certificate
from gpupool.network.ovn.session import OvsdbSession
from gpupool.store.database import Store, WriteTransaction
from gpupool.store.secrets.vault import SecretVault
from gpupool.wire.network.external import ExternalOvnIn, ExternalOvnOut
from gpupool.wire.network.networks import EngineCertificate


def parse_ovn(body: ExternalOvnIn, now_ns: int) -> dict[str, Any]:
    """Check what an admin asks for; returns the row. Raises BadAddress and BadInput."""
    northbound = parse_remotes(body.northbound, "northbound")
    if body.southbound is None:
        southbound = find_southbound(northbound)
    else:
        southbound = parse_remotes(body.southbound, "southbound")
    has_tls = any(server.startswith("ssl:") for server in (*northbound, *southbound))
    check_credentials(body, has_tls=has_tls, now_ns=now_ns)
    return {
        "id": 1,
        "northbound": ",".join(northbound),
        "southbound": ",".join(southbound),
        "certificate": body.certificate or "",
        "private_key": body.private_key or "",
        "trusted": body.trusted or "",
        "has_rows": True,
        "reason": "",
    }


def probe_ovn(store: Store, wanted: dict[str, Any]) -> None:
    """Read both databases before the pool joins them, where its engine does not run.

    Blocks for 5 s at most for each server.

    Raises:
        NetworkingUnavailable: one does not answer.
        WrongState: machines of another pool are in it.
    """
    with store.read() as connection:
        if read_engine_row(connection) is not None:
            return
    if wanted["certificate"]:
        show_certificate(wanted["certificate"], wanted["private_key"], wanted["trusted"])
    OvsdbSession(wanted["northbound"], "OVN_Northbound", {"NB_Global": ("name",)}).close()
    session = OvsdbSession(wanted["southbound"], "OVN_Southbound", {"Chassis": ("name",)})
    try:
        names = sorted(row.name for row in session.get_rows("Chassis").values())
    finally:
        session.close()
    taken = [name for name in names if name.partition("-")[0] == CHASSIS]
    if taken:
        raise WrongState(
            f"this OVN has a chassis {taken[0]} already, so another pool is in it",
            hint=f"one pool for each OVN; where that pool is gone: ovn-sbctl chassis-del {taken[0]}",
        )


def join_ovn(
    write: WriteTransaction, secrets: SecretVault, wanted: dict[str, Any], *, is_off: bool
) -> None:
    """Keep the OVN that the pool joins. Idempotent.

    Args:
        is_off: whether the engine does not run.

    Raises:
        WrongState: the engine has other databases.
        SecretKeyMissing: the private key cannot be encrypted; others of `SECRET_ERRORS` too.
    """
    before = read_ovn(write.connection)
    column = network_external_ovn.c.private_key
    private_key = secrets.encrypt(write, column, wanted["id"], wanted["private_key"])
    stored = {**wanted, "private_key": private_key}
    if before is None and is_off:
        write.insert(network_external_ovn, **stored)
    elif before is None or any(
        getattr(before, name) != wanted[name] for name in ("northbound", "southbound")
    ):
        place = "databases of its own" if before is None else f"the OVN at {before.northbound}"
        raise WrongState(
            f"the engine has {place}; it does not move to others while it runs",
            hint="gpupool network disable, then enable --ovn",
        )
    else:
        # A certificate that replaces another one.
        write.execute(network_external_ovn.update().values(**stored))


def read_ovn(connection: sa.Connection) -> Any:
    """Return the row of the OVN that the pool is in, or None."""
    return connection.execute(sa.select(network_external_ovn)).one_or_none()


def require_own_databases(connection: sa.Connection, what: str) -> None:
    """Raise WrongState where the pool is in an OVN of others.

    Args:
        what: what needs databases of the pool's own, and why.
    """
    ovn = read_ovn(connection)
    if ovn is not None:
        raise WrongState(
            f"{what}; this pool is in the OVN at {ovn.northbound}",
            hint="gpupool network disable, then enable without --ovn",
        )


def describe_ovn(connection: sa.Connection) -> ExternalOvnOut | None:
    """Describe the OVN without its secrets."""
    row = read_ovn(connection)
    if row is None:
        return None
    return ExternalOvnOut(northbound=row.northbound, southbound=row.southbound)


def read_ovn_certificate(row: Any, secrets: SecretVault) -> EngineCertificate | None:
    """Return what the pool shows to the databases; None without TLS. Raises `SECRET_ERRORS`."""
    if not row.certificate:
        return None
    private_key = secrets.decrypt(network_external_ovn.c.private_key, row.id, row.private_key)
    return EngineCertificate(
        certificate=row.certificate, private_key=private_key, trusted=row.trusted
    )


def show_ovn_certificate(row: Any, secrets: SecretVault) -> None:
    """Show the databases their certificate from the next connection on. Raises `SECRET_ERRORS`."""
    made = read_ovn_certificate(row, secrets)
    if made is not None:
        show_certificate(made.certificate, made.private_key, made.trusted)


def expect_rows(write: WriteTransaction) -> None:
    """Note that rows of the pool are written from now on, and have to be deleted. Idempotent."""
    write.execute(network_external_ovn.update().values(has_rows=True, reason=""))


def note_departure(write: WriteTransaction, reason: str) -> None:
    """Note that the pool's rows are deleted, or why they are not yet. Idempotent.

    Args:
        reason: empty: they are.
    """
    values = {"has_rows": bool(reason), "reason": reason[:400]}
    write.execute(network_external_ovn.update().values(**values))


def forget_ovn(write: WriteTransaction) -> None:
    """End the membership. Idempotent."""
    write.execute(network_external_ovn.delete())
