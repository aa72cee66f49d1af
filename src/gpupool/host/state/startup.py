"""Chooses how a pool starts: its marker from the last start and the options, and its listeners."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

from gpupool.base.errors import WrongState
from gpupool.base.ids import new_id
from gpupool.base.settings import SYSTEM_SOCKET, SYSTEM_STATE_DIR, PoolPaths
from gpupool.host.settings.options import HostOptions
from gpupool.host.state.directory import LAYOUT, PoolMarker
from gpupool.server.http.listeners import Listener, UnixListener, parse_listen


def choose_marker(known: PoolMarker | None, options: HostOptions) -> PoolMarker:
    """Return the marker of this start: as before, unless the options say otherwise.

    Raises:
        WrongState: the options name other cards than the pool has.
    """
    if known is None:
        known = PoolMarker(pool_id=new_id("p"), sim=options.sim)
    elif options.sim is not None and options.sim != known.sim:
        had = f"simulated cards {known.sim}" if known.sim else "this machine's real cards"
        raise WrongState(
            f"{options.state_dir} holds a pool of {had}; it cannot become one of --sim {options.sim}",
            hint="leave out --sim, choose another --state-dir, or remove it with  gpupool down --purge",
        )
    return replace(
        known,
        layout=LAYOUT,
        node_name=options.node_name or known.node_name,
        store=options.store or known.store,
        fence_reaction=options.fence_reaction or known.fence_reaction,
        **_choose_listeners(known, options),
        labels=options.label or known.labels,
        job_limits=options.job_limit or known.job_limits,
        allow_images=options.allow_image or known.allow_images,
        allow_volumes=options.allow_volume or known.allow_volumes,
        standby=known.standby if options.standby is None else options.standby,
        pid=os.getpid(),
    )


def _choose_listeners(known: PoolMarker, options: HostOptions) -> dict[str, Any]:
    """Return listeners and encryption of a start: as before unless the options say otherwise."""
    # Never weaker without an explicit option: a certificate holds for new listeners too, but the
    # permission for plain HTTP only for the listeners that it was given for.
    cert = known.tls_cert
    key = known.tls_key
    if options.tls_cert or options.tls_key:
        cert = str(options.tls_cert) if options.tls_cert else None
        key = str(options.tls_key) if options.tls_key else None
    elif options.insecure_http:
        cert = key = None
    return {
        "listeners": options.listen or known.listeners,
        "tls_cert": cert,
        "tls_key": key,
        "insecure_http": options.insecure_http or (known.insecure_http and not options.listen),
    }


def list_listeners(paths: PoolPaths, marker: PoolMarker) -> list[Listener]:
    mode = 0o666 if os.getuid() == 0 else 0o600
    listeners: list[Listener] = [UnixListener(paths.socket, mode)]
    if os.getuid() == 0 and paths.root == SYSTEM_STATE_DIR:
        SYSTEM_SOCKET.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        listeners.append(UnixListener(SYSTEM_SOCKET, mode))
    cert = Path(marker.tls_cert) if marker.tls_cert else None
    key = Path(marker.tls_key) if marker.tls_key else None
    for text in marker.listeners:
        listeners.append(parse_listen(text, cert=cert, key=key, insecure_http=marker.insecure_http))
    return listeners
