"""Checks the certificates that tenants give their load balancers. Nothing is written to a disk."""

from __future__ import annotations

import os
import ssl
from datetime import UTC, datetime
from pathlib import Path

from gpupool.base.certificate_dates import read_validity
from gpupool.base.errors import BadInput

_HINT = "give one file with the chain, its first certificate the server's, and its private key"


def check_certificate(text: str, now_ns: int) -> int:
    """Check a certificate chain with its key, and return until when it holds, in nanoseconds.

    Raises BadInput for what no server can use; the message shows nothing of the key.
    """
    try:
        text.encode("ascii")
        _, end = read_validity(text)
    except ValueError as error:
        raise BadInput("the certificate cannot be read: not PEM of X.509", hint=_HINT) from error
    _check_key(text)
    end_ns = int(end.timestamp()) * 10**9
    if end_ns <= now_ns:
        raise BadInput(
            f"the certificate expired at {end:%Y-%m-%dT%H:%M:%SZ}; now it is "
            f"{datetime.fromtimestamp(now_ns / 1e9, UTC):%Y-%m-%dT%H:%M:%SZ}",
            hint="renew it first",
        )
    return end_ns


def _check_key(text: str) -> None:
    # The library reads keys from a file alone; this one has no name and is no disk's.
    descriptor = os.memfd_create("certificate", os.MFD_CLOEXEC)
    try:
        os.write(descriptor, text.encode("ascii"))
        path = Path(f"/proc/self/fd/{descriptor}")
        # The empty password makes an encrypted key fail, where none would ask a terminal.
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(path, password="")
    except (ssl.SSLError, ValueError) as error:
        reason = getattr(error, "reason", None) or "unreadable"
        raise BadInput(
            "the private key is missing, encrypted or of another certificate "
            f"({str(reason).lower().replace('_', ' ')})",
            hint=_HINT,
        ) from error
    finally:
        os.close(descriptor)
