"""Error codes lead into the documentation: reference, guide, and the site where there is one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gpupool.base.errors import BadOption, list_error_classes
from gpupool.cli.main import main
from gpupool.terminal.error_pages import GUIDES, REFERENCE, explain_code, locate_page

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("code", list_error_classes())
def test_every_code_has_an_anchor_in_the_reference(code: str) -> None:
    explained = explain_code(code)
    page, _, anchor = str(explained["reference"]).partition("#")
    assert page == REFERENCE
    assert f'<a id="{anchor}"></a>{code} |' in (ROOT / page).read_text()


@pytest.mark.parametrize("code", GUIDES)
def test_every_guide_exists_and_belongs_to_a_code(code: str) -> None:
    assert code in list_error_classes()
    assert (ROOT / GUIDES[code]).is_file()


def test_a_page_of_a_site_ends_as_the_site_builds_it() -> None:
    assert locate_page("docs/a.md", "") == "docs/a.md"
    assert locate_page("docs/a.md#b", "https://x.org/") == "https://x.org/docs/a.html#b"


def test_help_of_a_code_prints_where_it_is_explained(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("GPUPOOL_DOCS_URL", raising=False)
    assert main(["help", "gp-2002"]) == 0
    assert capsys.readouterr().out == (
        "code       GP-2002\n"
        "meaning    Beyond the tenant's quota\n"
        "exit code  3\n"
        "reference  docs/reference/errors.md#gp-2002\n"
        "guide      docs/how-to/quotas.md\n"
    )


def test_help_of_a_code_as_json_names_the_site(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GPUPOOL_DOCS_URL", "https://docs.example.org")
    assert main(["help", "GP-2006", "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out) == {
        "code": "GP-2006",
        "meaning": "Name taken",
        "exit_code": 3,
        "reference": "https://docs.example.org/docs/reference/errors.html#gp-2006",
        "guide": None,
    }


def test_help_of_an_unknown_code_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(BadOption):
        explain_code("GP-9999")
    assert main(["help", "GP-9999"]) == 2
    assert "unknown error code GP-9999" in capsys.readouterr().err
