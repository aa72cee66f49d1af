"""Where the documentation explains an error code.

Its line in the reference, the guide of its subject.

Imports no server: the command line explains codes without a pool. Pages are named as the repository
has them; with `GPUPOOL_DOCS_URL` they are addresses of the site that `make site` builds.
"""

from __future__ import annotations

from collections.abc import Mapping

from gpupool.base.errors import BadOption, list_error_classes
from gpupool.terminal.language import find_error_title
from gpupool.terminal.output import format_pairs

#: The page that has an anchor for every code; made by `tools/gen_reference.py`.
REFERENCE = "docs/reference/errors.md"
#: The environment variable with the site's address, for a site that is served somewhere.
SITE_VARIABLE = "GPUPOOL_DOCS_URL"

_IMPORTING = "docs/how-to/bring-your-manifests.md"
_QUOTAS = "docs/how-to/quotas.md"
_MONEY = "docs/how-to/money.md"
_SIGN_ON = "docs/how-to/sign-on.md"
_KUBERNETES = "docs/how-to/kubernetes-troubleshooting.md"
_PEOPLE = "docs/how-to/one-server-many-people.md"
_RIGHTS = "docs/concepts/rights.md"
_STANDBY = "docs/how-to/postgresql.md"
_TROUBLE = "docs/how-to/when-something-is-wrong.md"
_BACKUP = "docs/how-to/back-up-and-restore.md"
_AIR_GAPPED = "docs/how-to/air-gapped.md"
_SERVICE = "docs/how-to/system-service.md"

#: By code, the guide of its subject. A code without one is explained by its message and hint alone.
GUIDES: Mapping[str, str] = {
    "GP-1007": "docs/how-to/simulated-cards.md",
    "GP-1021": "docs/concepts/placement.md",
    "GP-1022": "docs/how-to/partitions.md",
    "GP-1023": "docs/how-to/choosing-a-mechanism.md",
    "GP-1030": "docs/reference/traces.md",
    **dict.fromkeys(("GP-1040", "GP-1041", "GP-1042", "GP-1043", "GP-1044"), _IMPORTING),
    **dict.fromkeys(("GP-2002", "GP-2014", "GP-2048", "GP-3009"), _QUOTAS),
    **dict.fromkeys(("GP-2120", "GP-2121", "GP-2122", "GP-2123", "GP-2124"), _MONEY),
    **dict.fromkeys(("GP-3046", "GP-3047"), _MONEY),
    **dict.fromkeys(("GP-2140", "GP-2141", "GP-3048"), "docs/how-to/notifications.md"),
    **dict.fromkeys(("GP-2130", "GP-3040", "GP-3041", "GP-3042", "GP-3043", "GP-3044"), _SIGN_ON),
    "GP-2210": "docs/how-to/workspaces.md",
    "GP-2015": "docs/how-to/gangs.md",
    "GP-2045": "docs/how-to/arrays.md",
    **dict.fromkeys(("GP-2060", "GP-2061", "GP-2062"), "docs/how-to/containers.md"),
    **dict.fromkeys(("GP-2017", "GP-2018", "GP-2030", "GP-2032", "GP-2033"), _KUBERNETES),
    **dict.fromkeys(("GP-2005", "GP-2053", "GP-3001"), _PEOPLE),
    **dict.fromkeys(("GP-3002", "GP-3010", "GP-3011", "GP-3012"), _RIGHTS),
    **dict.fromkeys(("GP-4006", "GP-4007", "GP-5035", "GP-5036"), _STANDBY),
    **dict.fromkeys(("GP-5001", "GP-5003", "GP-5005", "GP-5006", "GP-5008"), _TROUBLE),
    "GP-5002": "docs/how-to/upgrading.md",
    **dict.fromkeys(("GP-1090", "GP-1091", "GP-1092"), _AIR_GAPPED),
    **dict.fromkeys(("GP-1093", "GP-1094"), _SERVICE),
    **dict.fromkeys(("GP-4005", "GP-5004", "GP-5023", "GP-5024"), _BACKUP),
    "GP-5010": "docs/concepts/fence.md",
    **dict.fromkeys(("GP-5032", "GP-5033", "GP-5034"), "docs/how-to/network.md"),
}


def is_error_code(word: str) -> bool:
    """Return whether a word has the form of a code, in either case."""
    return word[:3].upper() == "GP-" and word[3:].isascii() and word[3:].isdigit()


def locate_page(page: str, site: str) -> str:
    """Return where a page is read: its path in the repository, or its address on a site.

    >>> locate_page("docs/reference/errors.md#gp-2002", "https://docs.example.org/")
    'https://docs.example.org/docs/reference/errors.html#gp-2002'
    """
    if not site:
        return page
    # mkdocs.yml has `use_directory_urls: false`: every page is a file with that ending.
    return f"{site.rstrip('/')}/{page.replace('.md', '.html', 1)}"


def explain_code(word: str, site: str = "") -> dict[str, object]:
    """Say what a code means and where it is explained; keys are those of `-o json`.

    Raises:
        BadOption: No error has this code.
    """
    code = word.upper()
    error_class = list_error_classes().get(code)
    if error_class is None:
        raise BadOption(f"unknown error code {word}", hint=f"{REFERENCE} has all of them")
    guide = GUIDES.get(code)
    return {
        "code": code,
        "meaning": error_class.title,
        "exit_code": error_class.exit_code,
        "reference": locate_page(f"{REFERENCE}#{code.lower()}", site),
        "guide": None if guide is None else locate_page(guide, site),
    }


def format_code(explained: Mapping[str, object]) -> str:
    """Format what `explain_code` returns for people, a line per fact."""
    facts = [(name.replace("_", " "), value) for name, value in explained.items() if value]
    meaning = find_error_title(str(explained["code"])) or explained["meaning"]
    return format_pairs((name, meaning if name == "meaning" else value) for name, value in facts)
