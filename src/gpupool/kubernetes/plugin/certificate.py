"""How old the webhook's certificate is, as its Secret has it."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from gpupool.kubernetes.admission.certificates import CERTIFICATE
from gpupool.kubernetes.manifests.install import SECRET
from gpupool.terminal.check_rows import FAIL, OK, WARN, Check, make_check

#: Days of validity below which the doctor warns: the webhook renews its certificate long before.
FEW_DAYS = 7


def check_certificate(secret: Mapping[str, Any], now: datetime) -> Check:
    """One check."""
    from cryptography import x509

    restart = "kubectl -n gpupool rollout restart deployment/gpupool-webhook  has a new one made"
    try:
        found = x509.load_pem_x509_certificate(
            base64.b64decode((secret.get("data") or {})[CERTIFICATE])
        )
    except (KeyError, ValueError):
        return make_check(
            "certificate", FAIL, f"{CERTIFICATE} of Secret {SECRET} cannot be read", restart
        )
    left = (found.not_valid_after_utc - now).days
    said = f"good until {found.not_valid_after_utc:%Y-%m-%d}, {left} days"
    if left < 0:
        return make_check(
            "certificate", FAIL, f"ran out on {found.not_valid_after_utc:%Y-%m-%d}", restart
        )
    return make_check(
        "certificate", WARN if left < FEW_DAYS else OK, said, restart if left < FEW_DAYS else ""
    )
