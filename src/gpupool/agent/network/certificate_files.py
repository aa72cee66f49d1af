"""The certificate of a machine as files, where its daemons read them: mode 0600, replaced whole."""

from __future__ import annotations

import shutil
from typing import Final

from gpupool.agent.network.daemons import CERTIFICATE, PRIVATE_KEY, TRUSTED, EngineFiles
from gpupool.base.durable import make_directory_durably, write_durably
from gpupool.wire.network.networks import EngineCertificate

#: By file, the field of a certificate. What is trusted comes first: no daemon meets a peer with a
#: newer certificate before it trusts its authority.
_FIELDS: Final = {TRUSTED: "trusted", PRIVATE_KEY: "private_key", CERTIFICATE: "certificate"}


def write_certificate(files: EngineFiles, certificate: EngineCertificate | None) -> None:
    """Write the files that differ; remove them where there is no certificate. Idempotent.

    Daemons read the files again by themselves.
    """
    if certificate is None:
        shutil.rmtree(files.certificates, ignore_errors=True)
        return
    make_directory_durably(files.certificates, mode=0o700)
    for name, field in _FIELDS.items():
        path = files.certificates / name
        text = getattr(certificate, field).encode()
        if not path.exists() or path.read_bytes() != text:
            write_durably(path, text)
