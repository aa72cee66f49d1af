"""`gpupool tenant`: list, show, delete after a question."""

from __future__ import annotations

import pytest

from tests.unit.cli.golden import GoldenLine


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("tenants", "tenant list"),
        ("tenant", "tenant show nlp"),
        ("tenant-delete", "tenant delete nlp"),
    ],
)
def test_tenant_prints_the_recorded_output(name: str, line: str, golden_line: GoldenLine) -> None:
    golden_line(name, line)
