"""How a pool starts: its marker by what was known and what was asked for, and where it listens."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

from gpupool.base.errors import WrongState
from gpupool.base.ids import new_id
from gpupool.base.settings import SYSTEM_SOCKET, SYSTEM_STATE_DIR, PoolPaths
from gpupool.host.options import Options
from gpupool.host.state import LAYOUT, Marker
from gpupool.server.listeners import Listener, UnixListener, parse_listen


def marker_for(known: Marker | None, options: Options) -> Marker:
    """How this pool starts: as before, unless the options say otherwise."""
    if known is None:
        known = Marker(pool_id=new_id("p"), sim=options.sim)
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
        **_doors(known, options),
        labels=options.label or known.labels,
        job_limits=options.job_limit or known.job_limits,
        standby=known.standby if options.standby is None else options.standby,
        pid=os.getpid(),
    )


def _doors(known: Marker, options: Options) -> dict[str, Any]:
    """Where a start listens and behind what: as before unless said, and never weaker unless that is said aloud.

    A certificate goes on also for new listeners; leave to speak plain HTTP holds for the listeners it was given for.
    """
    cert, key = known.tls_cert, known.tls_key
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


def listeners_of(paths: PoolPaths, marker: Marker) -> list[Listener]:
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
