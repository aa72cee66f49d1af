"""List the English texts of the command line that have no Chinese.

    .venv/bin/python tools/list_texts.py help|errors|output|status|fields [PACKAGE...]

Texts of the help come from the parsers; those of errors and of output from the syntax trees of the
sources. A part that differs each time is a hole: `{0} waits: {1}`. ADR 0107.
"""

from __future__ import annotations

import argparse
import ast
import json
import re
import sys
from collections.abc import Iterable, Iterator
from functools import cache
from itertools import product
from pathlib import Path

from gpupool.base.errors import list_error_classes
from gpupool.terminal.commands import EXIT_CODES, GROUPS, SUMMARIES
from gpupool.terminal.parser import CommandParser, build_parser

SOURCES = Path(__file__).parents[1] / "src" / "gpupool"
TEXTS = SOURCES / "terminal" / "chinese" / "texts"
NODES = (ast.Call, ast.Constant, ast.Assign, ast.FunctionDef)
#: A part of a text that differs each time, before it gets its number.
HOLE = "\0"
#: Variants of one expression (`a if b else c`) that are listed at most.
MAX_VARIANTS = 16
#: Functions and methods whose texts people read, with the positions of these texts.
OUTPUT_CALLS = {
    "write": (0,),
    "print_notice": (0,),
    "make_check": (2, 3),
    "print": (0,),
    "append": (0,),
    "Rejection": (0, 1),
}

#: What the server says of things that it watches: the same, and the names of such texts.
STATUS_CALLS = {
    "well": (0,),
    "warn": (0, 1),
    "fail": (0, 1),
    "Reach": (1, 2, 3),
    "FaultAdvice": (0,),
    "GatewayChange": (1,),
    "FenceSurvey": (1,),
}
STATUS_WORDS = frozenset({"reason", "inside_reason", "health_reason", "note"})

#: What the wire and the templates say of a field's value.
FIELD_CALLS = {"ValueError": (0,), "_Wrong": (0,), "FieldFault": (1,)}


def list_help_texts() -> list[str]:
    """List the texts of every help, paragraph by paragraph, blanks joined."""
    texts = {title: None for title, _ in GROUPS}
    texts |= dict.fromkeys(meaning for _, meaning in EXIT_CODES)
    for name in SUMMARIES:
        for text in _list_parser_texts(build_parser(name)):
            texts[" ".join(text.split())] = None
    return [text for text in texts if text]


def _list_parser_texts(parser: CommandParser) -> Iterator[str]:
    yield parser.summary
    yield from parser.about.strip().split("\n\n")
    yield from parser.headings.values()
    for action in parser._actions:
        if action.help and action.help != argparse.SUPPRESS:
            yield action.help
    for child in parser.children.choices.values() if parser.children else ():
        yield from _list_parser_texts(child)


def expand_text(node: ast.expr) -> list[str]:
    """Return the texts that an expression makes, with holes."""
    if isinstance(node, ast.Constant):
        return [node.value if isinstance(node.value, str) else HOLE]
    if isinstance(node, ast.JoinedStr):
        return _join_variants([expand_text(value) for value in node.values])
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return _join_variants([expand_text(node.left), expand_text(node.right)])
    if isinstance(node, ast.IfExp):
        return [*expand_text(node.body), *expand_text(node.orelse)][:MAX_VARIANTS]
    if isinstance(node, ast.FormattedValue) and isinstance(node.value, ast.IfExp):
        return expand_text(node.value)
    return [HOLE]


def _join_variants(parts: list[list[str]]) -> list[str]:
    count = 1
    for number, variants in enumerate(parts):
        if count * len(variants) > MAX_VARIANTS:
            parts[number] = [HOLE]
        count *= len(parts[number])
    return ["".join(chosen) for chosen in product(*parts)]


def number_holes(text: str) -> str:
    """Write the holes of a text as {0}, {1}, …; neighbours are one."""
    text = re.sub(f"{HOLE}+", HOLE, text)
    for number in range(text.count(HOLE)):
        text = text.replace(HOLE, f"{{{number}}}", 1)
    return text


def has_words(text: str) -> bool:
    """Return whether there is something to translate: a word, and no command line alone."""
    plain = re.sub(r"\{\d+\}", " ", text)
    if plain.lstrip().startswith("gpupool "):
        # Two blanks divide a command line from what is said of it: `gpupool ps  lists them`.
        return bool(re.search(r"\S  +[a-z]{2,}", plain.replace("  gpupool", "")))
    return bool(re.search(r"[A-Za-z]{2,}", plain))


def list_error_texts(package: str) -> list[str]:
    """List the messages and hints of the errors that a package raises."""
    names = {one.__name__ for one in list_error_classes().values()}
    texts: dict[str, None] = {}
    for node in read_nodes(package):
        if isinstance(node, ast.Call) and _find_name(node.func) in names:
            hints = [word.value for word in node.keywords if word.arg == "hint"]
            texts |= dict.fromkeys(_list_lines([*node.args[:1], *hints]))
    return list(texts)


def list_output_texts(package: str) -> list[str]:
    """List what a package writes, line by line."""
    texts: dict[str, None] = {}
    for node in read_nodes(package):
        if isinstance(node, ast.Call):
            places = OUTPUT_CALLS.get(_find_name(node.func), ())
            written = [node.args[place] for place in places if place < len(node.args)]
            written += [word.value for word in node.keywords if word.arg == "empty"]
            texts |= dict.fromkeys(_list_lines(written))
    return [text for text in texts if " " in text.strip()]


def list_status_texts(package: str) -> list[str]:
    """List what a package says of the state of things.

    Texts of STATUS_CALLS, of words of that name, and what a function returns that says why.
    """
    texts: dict[str, None] = {}
    for node in read_nodes(package):
        if isinstance(node, ast.Call):
            places = STATUS_CALLS.get(_find_name(node.func), ())
            said = [node.args[place] for place in places if place < len(node.args)]
            said += [word.value for word in node.keywords if word.arg in STATUS_WORDS]
            texts |= dict.fromkeys(_list_lines(said))
        elif isinstance(node, ast.Assign) and _find_name(node.targets[0]) in STATUS_WORDS:
            texts |= dict.fromkeys(_list_lines([node.value]))
        elif isinstance(node, ast.FunctionDef) and _says_why(node):
            texts |= dict.fromkeys(_list_lines(_list_returned(node)))
    return [text for text in texts if " " in text.strip()]


def _says_why(node: ast.FunctionDef) -> bool:
    return bool(re.match(r"(Return|Say|Explain)\b.*\bwhy\b", ast.get_docstring(node) or ""))


def _list_returned(node: ast.FunctionDef) -> Iterator[ast.expr]:
    """List the texts that a function returns; a refusal may be a part of a pair."""
    for one in ast.walk(node):
        if isinstance(one, ast.Return) and one.value is not None:
            yield from one.value.elts if isinstance(one.value, ast.Tuple) else [one.value]


def list_field_texts(package: str) -> list[str]:
    """List what a package says of the value of a field."""
    texts: dict[str, None] = {}
    for node in read_nodes(package):
        if isinstance(node, ast.Call):
            places = FIELD_CALLS.get(_find_name(node.func), ())
            texts |= dict.fromkeys(_list_lines(node.args[place] for place in places))
    return list(texts)


def list_titles() -> list[str]:
    """List the titles of columns."""
    titles: dict[str, None] = {}
    for node in read_nodes("cli"):
        if isinstance(node, ast.Call) and _find_name(node.func) == "TableColumn":
            title = node.args[0]
            if isinstance(title, ast.Constant) and title.value:
                titles[str(title.value)] = None
    return list(titles)


def _list_lines(nodes: Iterable[ast.expr]) -> Iterator[str]:
    for node in nodes:
        for text in expand_text(node):
            for line in text.splitlines():
                plain = number_holes(line.strip().removeprefix("gpupool: "))
                if has_words(plain):
                    yield plain


def list_constants(packages: Iterable[str]) -> Iterator[str]:
    """List every literal text of packages, those of f-strings in parts."""
    for package in packages:
        for node in read_nodes(package):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield node.value


def _find_name(node: ast.expr) -> str:
    return node.id if isinstance(node, ast.Name) else getattr(node, "attr", "")


@cache
def read_nodes(package: str) -> tuple[ast.AST, ...]:
    """Return what is looked at in a package's modules, in the order of their paths."""
    nodes: list[ast.AST] = []
    for file in sorted((SOURCES / package).rglob("*.py")):
        tree = ast.parse(file.read_text(encoding="utf-8"))
        nodes += [one for one in ast.walk(tree) if isinstance(one, NODES)]
    return tuple(nodes)


def read_catalogue(name: str) -> dict[str, str]:
    """Read the entries of a catalogue of texts."""
    loaded = json.loads((TEXTS / f"{name}.json").read_text(encoding="utf-8"))
    entries: dict[str, str] = loaded["messages"] if name == "errors" else loaded
    return entries


#: By kind, what finds its texts in a package.
FINDERS = {
    "errors": list_error_texts,
    "output": list_output_texts,
    "status": list_status_texts,
    "fields": list_field_texts,
}


def list_missing(kind: str, packages: Iterable[str]) -> list[str]:
    """List the texts of a kind without Chinese."""
    known = {
        text
        for name in ("errors", "output", "reasons", "status", "fields")
        for text in read_catalogue(name)
    }
    if kind == "help":
        help_texts = read_catalogue("help")
        return [text for text in list_help_texts() if text not in help_texts]
    find = FINDERS[kind]
    missing: dict[str, None] = {}
    for package in packages:
        missing |= dict.fromkeys(text for text in find(package) if text not in known)
    return list(missing)


def main() -> int:
    """Print the texts; return 1 where some have no Chinese."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kind", choices=("help", *FINDERS))
    parser.add_argument("packages", nargs="*", default=["cli"], help="below src/gpupool")
    options = parser.parse_args()
    missing = list_missing(options.kind, options.packages)
    for text in missing:
        print(text)
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
