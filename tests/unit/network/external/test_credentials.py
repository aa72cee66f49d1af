"""What a pool shows to an OVN of others: checked whole before it is kept."""

from __future__ import annotations

import pytest

from gpupool.base.errors import BadInput
from gpupool.network.external.credentials import check_credentials
from gpupool.network.machines.certificates import issue_certificate, make_authority
from gpupool.wire.network.external import ExternalOvnIn

NOW_NS = 1_800_000_000 * 10**9
DAY_NS = 86_400 * 10**9


def make_body(**changes: str | None) -> ExternalOvnIn:
    authority = make_authority("others", NOW_NS)
    made = issue_certificate(authority, "pool", NOW_NS)
    fields: dict[str, str | None] = {
        "northbound": "ssl:192.0.2.7:6641",
        "certificate": made.certificate,
        "private_key": made.private_key,
        "trusted": authority.certificate,
    }
    return ExternalOvnIn.model_validate(fields | changes)


def test_a_certificate_with_its_key_and_authorities_is_taken() -> None:
    check_credentials(make_body(), has_tls=True, now_ns=NOW_NS + DAY_NS)


def test_databases_without_tls_need_none() -> None:
    body = ExternalOvnIn(northbound="tcp:192.0.2.7:6641")
    check_credentials(body, has_tls=False, now_ns=NOW_NS)
    with pytest.raises(BadInput, match="reached without TLS"):
        check_credentials(make_body(), has_tls=False, now_ns=NOW_NS)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"certificate": None}, "need a certificate"),
        ({"private_key": None, "trusted": None}, "its private key, the authorities to trust"),
        ({"certificate": "no PEM"}, "cannot be read"),
        ({"private_key": "no PEM"}, "the private key is missing"),
        ({"trusted": "no PEM"}, "the authorities cannot be read"),
    ],
)
def test_what_no_database_would_take_is_refused(
    changes: dict[str, str | None], message: str
) -> None:
    with pytest.raises(BadInput, match=message):
        check_credentials(make_body(**changes), has_tls=True, now_ns=NOW_NS + DAY_NS)


def test_a_certificate_that_is_over_is_refused() -> None:
    with pytest.raises(BadInput, match="expired"):
        check_credentials(make_body(), has_tls=True, now_ns=NOW_NS + 4000 * DAY_NS)


def test_no_message_and_no_printed_body_has_the_key() -> None:
    body = make_body()
    assert body.private_key is not None
    assert body.private_key.splitlines()[1] not in repr(body)
