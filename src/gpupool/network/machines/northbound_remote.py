"""Where the server reaches the databases of the engine."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

from gpupool.network.engine_row import read_engine_row
from gpupool.network.external import membership as external
from gpupool.network.machines import database_servers as servers
from gpupool.network.machines import service as machines
from gpupool.network.ovn.credentials import show_certificate
from gpupool.network.zones.reports import read_zone_northbound
from gpupool.store.database import Store
from gpupool.store.secrets.vault import SECRET_ERRORS

log = logging.getLogger(__name__)


def read_northbound(store: Store, zone: int = 0) -> str | None:
    """Return where the northbound database of a zone is; None while it is not ready.

    A centre elsewhere is reached over TLS, with a certificate that is shown from then on. Without the
    key of that certificate it is not ready.
    """
    try:
        return _find_northbound(store, zone)
    except SECRET_ERRORS as error:
        log.warning("networks wait for a secret: %s", error.message)
        return None


def _find_northbound(store: Store, zone: int) -> str | None:
    with store.read() as connection:
        row = read_engine_row(connection)
        if row is None or row.state in ("starting", "stopping"):
            return None
        if zone:
            return read_zone_northbound(connection, zone)
        centre = machines.find_machine(connection, row.agent)
        cluster = servers.join_remotes(servers.read_servers(connection), "northbound")
        ovn = external.read_ovn(connection)
    if ovn is not None:
        external.show_ovn_certificate(ovn, store.secrets)
        return str(ovn.northbound)
    if cluster and centre is not None:
        _show_own(store, centre)
        return cluster
    if row.state != "ready":
        return None
    is_here = Path(row.northbound.removeprefix("unix:")).exists()
    if is_here or centre is None or not centre.northbound:
        return str(row.northbound)
    # As the centre itself: the databases trust every certificate of the pool's authorities.
    _show_own(store, centre)
    return str(centre.northbound)


def _show_own(store: Store, centre: Any) -> None:
    made = machines.read_certificate(centre, store.secrets)
    if made is not None:
        show_certificate(made.certificate, made.private_key, made.trusted)
