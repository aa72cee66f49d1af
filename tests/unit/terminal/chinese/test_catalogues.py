"""The Chinese catalogues: complete for what they cover, with the holes of the English, never stale."""

from __future__ import annotations

import ast
import importlib.util
import json
import math
import re
import sys
from functools import cache
from itertools import chain, pairwise
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from gpupool.base.errors import list_error_classes
from gpupool.model.faults.catalogue import read_xids
from gpupool.server.http.problems import describe_invalid
from gpupool.terminal.chinese.translator import load_translator

ROOT = Path(__file__).parents[4]
CONSOLE = ROOT / "console" / "src" / "locales"
HOLE = re.compile(r"\{(\d+)[!#=?]?\}")

#: Packages whose errors people meet in `gpupool`. Those of `kubernetes` are English, as kubectl is.
ERRORS = (
    *("cli", "terminal", "client", "base", "host", "allocations", "tenancy", "fleet", "metering"),
    *("billing", "signon", "server", "store", "notifications", "workspaces", "agent", "mechanisms"),
    *("network", "vm", "probes", "burn", "verification", "scheduling", "model", "simulation"),
    *("dialects", "templates", "audit_log", "delivery", "serving"),
)
#: What `gpupool import` says of manifests is English: its stdout is data.
IMPORT_TEXTS = {
    "the pod: {0}",
    "never above {0} %",
    "{0} on its card",
    "of {0}",
    "queue {0}",
    "gang {0} ({1})",
    "within one {0}",
    "within one {0} if possible",
    "priority class {0}",
    "may be preempted",
    "is not preempted",
    "warning: {0}",
    "nothing in {0} asks for a card: it is printed as it is",
    "{0} in this: gpupool import {1} --explain  tells",
}
#: Names and numbers with nothing to translate.
PLAIN_TEXTS = {"{0} sha256:{1}"}
#: Packages that make what is printed.
OUTPUT = (
    *("cli", "terminal", "model", "scheduling", "allocations", "base", "client", "mechanisms"),
    *("server", "network", "dialects"),
)


#: Packages that say how things are: networks, cards, incidents, schedules, checks of the server.
STATUS = (
    *("network", "agent", "server", "fleet", "allocations", "tenancy", "signon", "model"),
    *("mechanisms", "probes", "base", "billing", "metering", "notifications", "store"),
)


@cache
def load_lister() -> ModuleType:
    spec = importlib.util.spec_from_file_location("list_texts", ROOT / "tools" / "list_texts.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["list_texts"] = module
    spec.loader.exec_module(module)
    return module


def read_console(language: str, name: str) -> dict[str, str]:
    found: dict[str, str] = json.loads((CONSOLE / language / f"{name}.json").read_text())
    return found


def find_holes(text: str) -> set[str]:
    return set(HOLE.findall(text))


def test_every_text_of_the_help_has_chinese() -> None:
    assert load_lister().list_missing("help", ()) == []


@pytest.mark.parametrize("package", ERRORS)
def test_every_error_of_a_covered_package_has_chinese(package: str) -> None:
    assert load_lister().list_missing("errors", [package]) == []
    # Here, since reading the package takes most of the time.
    if package in STATUS:
        assert load_lister().list_missing("status", [package]) == []


def test_every_line_of_the_commands_has_chinese() -> None:
    assert set(load_lister().list_missing("output", ["cli"])) == IMPORT_TEXTS | PLAIN_TEXTS


def test_every_problem_of_a_field_has_chinese() -> None:
    assert load_lister().list_missing("fields", ["wire", "templates"]) == []


class Shape(BaseModel):
    """Fields of the kinds that bodies of requests have."""

    model_config = ConfigDict(extra="forbid")

    name: Annotated[str, Field(min_length=2, max_length=4, pattern="^[a-z]+$")]
    count: Annotated[int, Field(ge=1, le=8)]
    share: Annotated[float, Field(gt=0, lt=1, allow_inf_nan=False)]
    kind: Literal["tcp", "udp", "icmp"]
    is_private: bool
    items: Annotated[list[str], Field(min_length=1, max_length=2)]
    labels: dict[str, str]
    inner: Shape | None = None


GOOD = {
    "name": "abc",
    "count": 1,
    "share": 0.5,
    "kind": "tcp",
    "is_private": True,
    "items": ["a"],
    "labels": {},
}


WRONG: dict[str, tuple[object, ...]] = {
    "name": ("", "a", "abcde", "AB", 1),
    "count": (0, 9, 1.5, "x", "9" * 5000, []),
    "share": (0, 1, "x", math.inf, {}),
    "kind": ("sctp",),
    "is_private": ("maybe", []),
    "items": ([], ["a", "b", "c"], "a"),
    "labels": ([], {"a": 1}),
    "inner": ([], {}),
    "other": (1,),
}


@pytest.mark.parametrize("field", WRONG)
def test_what_pydantic_says_of_a_field_has_chinese(field: str) -> None:
    texts: list[str] = []
    for value in WRONG[field]:
        with pytest.raises(ValidationError) as caught:
            Shape.model_validate({**GOOD, field: value})
        refusal = describe_invalid(
            [{**error, "loc": ("body", *error["loc"])} for error in caught.value.errors()]
        )
        problems: Any = refusal.details["fields"]
        texts += [refusal.message, *(entry["problem"] for entry in problems)]
    for english in texts:
        chinese = load_translator().translate(english)
        assert (english, bool(re.search("[\u4e00-\u9fff]", chinese))) == (english, True)


def test_every_meaning_of_an_xid_has_chinese() -> None:
    meanings = {entry.meaning for entry in read_xids().values()}
    translate = load_translator().translate
    assert [meaning for meaning in sorted(meanings) if translate(meaning) == meaning] == []


def test_every_title_of_a_column_has_chinese() -> None:
    titles = json.loads((load_lister().TEXTS / "terms.json").read_text())["titles"]
    assert [title for title in load_lister().list_titles() if title not in titles] == []


def test_every_code_has_a_chinese_title() -> None:
    titles = load_translator().titles
    assert set(titles) == set(list_error_classes())


@pytest.mark.parametrize("name", ["help", "errors", "output", "reasons", "status", "fields"])
def test_chinese_has_the_holes_of_the_english(name: str) -> None:
    for english, chinese in load_lister().read_catalogue(name).items():
        assert (english, find_holes(chinese)) == (english, find_holes(english))
        assert chinese.strip() == chinese != ""


def test_an_entry_of_the_help_is_in_the_help() -> None:
    lister = load_lister()
    fixed = ast.unparse(ast.parse((ROOT / "src/gpupool/terminal/help.py").read_text()))
    known = set(lister.list_help_texts())
    stale = [text for text in lister.read_catalogue("help") if text not in known]
    assert [text for text in stale if repr(text)[1:-1] not in fixed] == []


def test_an_entry_of_the_errors_is_an_error() -> None:
    lister = load_lister()
    known = {text for package in ERRORS for text in lister.list_error_texts(package)}
    assert [text for text in lister.read_catalogue("errors") if text not in known] == []


def list_words(text: str) -> list[str]:
    return re.findall(r"[A-Za-z-]+", text)


def test_the_words_of_an_entry_are_in_a_source() -> None:
    # Expressions in an f-string make neighbours that no literal has: half of the pairs are enough.
    texts = chain(
        load_lister().list_constants((*OUTPUT, "agent/network", "probes", "signon")),
        (entry.meaning for entry in read_xids().values()),
    )
    known_words: set[str] = set()
    known_pairs: set[tuple[str, str]] = set()
    for text in texts:
        known_words |= set(list_words(text))
        known_pairs |= set(pairwise(list_words(text)))
    stale = []
    catalogues = map(load_lister().read_catalogue, ("output", "reasons", "status"))
    for english in chain.from_iterable(catalogues):
        parts = [list_words(part) for part in HOLE.split(english)[::2]]
        pairs = [pair for words in parts for pair in pairwise(words)]
        is_known = len(pairs) < 3 or sum(pair in known_pairs for pair in pairs) * 2 >= len(pairs)
        if not is_known or not known_words.issuperset(word for words in parts for word in words):
            stale.append(english)
    assert stale == []


@pytest.mark.parametrize(
    ("namespace", "prefix"),
    [
        ("shell", "state."),
        ("map", "condition."),
        ("nodes", "state."),
        ("nodes", "health."),
        ("nodes", "level."),
        ("usage", "kind."),
        ("request", "priority."),
    ],
)
def test_terms_are_those_of_the_console(namespace: str, prefix: str) -> None:
    terms = json.loads((load_lister().TEXTS / "terms.json").read_text())
    words = dict(terms["words"])
    console = read_console("zh", namespace)
    words |= terms["words_of"]["HEALTH"] if namespace == "nodes" or prefix == "condition." else {}
    shared = {key.removeprefix(prefix): key for key in console if key.startswith(prefix)}
    if namespace == "map":
        shared.pop("unknown")  # on the map it says of what: the health is not known
    if namespace == "usage":
        # A table of the terminal has room for more than the name of the kind.
        words["reserved"] = words["reserved, unused"]
    if namespace == "shell":
        # States that only the console shows: `set` and `open` are other words in a terminal.
        shared = {word: key for word, key in shared.items() if word in words}
    assert len(shared) >= 3
    assert {word: words.get(word) for word in shared} == {
        word: console[key] for word, key in shared.items()
    }
