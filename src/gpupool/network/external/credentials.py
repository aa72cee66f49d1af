"""Checks the certificate that a pool shows to an OVN of others. Nothing is written to a disk."""

from __future__ import annotations

import ssl

from gpupool.base.errors import BadInput
from gpupool.network.balancing.certificates import check_certificate
from gpupool.wire.network.external import ExternalOvnIn

_HINT = "--ovn-certificate FILE --ovn-key FILE --ovn-ca FILE"


def check_credentials(body: ExternalOvnIn, *, has_tls: bool, now_ns: int) -> None:
    """Raise BadInput unless the certificate, its key and the authorities fit the databases."""
    given = {
        "a certificate": body.certificate,
        "its private key": body.private_key,
        "the authorities to trust": body.trusted,
    }
    if not has_tls:
        extra = [name for name, text in given.items() if text]
        if extra:
            raise BadInput(
                f"{extra[0]} is given, and the databases are reached without TLS (tcp:)",
                hint="name them with ssl:, or leave the certificate out",
            )
        return
    missing = [name for name, text in given.items() if not text]
    if missing:
        raise BadInput(f"databases with TLS need {', '.join(missing)}", hint=_HINT)
    check_certificate(f"{body.certificate}\n{body.private_key}", now_ns)
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cadata=body.trusted)
    except (ssl.SSLError, ValueError) as error:
        raise BadInput("the authorities cannot be read: not PEM of X.509", hint=_HINT) from error
