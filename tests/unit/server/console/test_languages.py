"""The language that a browser prefers of ours."""

import pytest

from gpupool.server.console.languages import choose_language


@pytest.mark.parametrize(
    ("header", "language"),
    [
        ("zh-CN,zh;q=0.9,en;q=0.8", "zh"),
        ("en-US,en;q=0.9,zh;q=0.8", "en"),
        ("fr, zh;q=0.4, en;q=0.3", "zh"),
        ("fr", "en"),
        ("zh;q=x, en;q=0.1", "en"),
        ("", "en"),
    ],
)
def test_the_preferred_one_of_ours_is_chosen(header: str, language: str) -> None:
    assert choose_language({"headers": [(b"accept-language", header.encode())]}) == language


def test_without_a_header_it_is_english() -> None:
    assert choose_language({"headers": []}) == "en"
