"""What an admin types for a provider is checked before it is kept."""

from __future__ import annotations

import pytest

from gpupool.base.errors import BadOption
from gpupool.signon.addresses import check_certificates


@pytest.mark.parametrize(
    "text", ["certificate", "证书", "-----BEGIN CERTIFICATE-----\nx\n", "a\0b"]
)
def test_a_text_that_is_no_certificate_is_refused(text: str) -> None:
    with pytest.raises(BadOption):
        check_certificates(text)


def test_without_certificates_those_of_the_system_are_trusted() -> None:
    check_certificates("")
