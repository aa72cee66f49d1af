"""Reads function prototypes, pointer-to-function typedefs and type aliases out of preprocessed C.

The vendor's headers are regular enough that a whole C parser is not needed: after `cc -E -P` every
public function is one declaration with named types. What this reader does not understand it refuses
with the text it stumbled over, so a new header that uses another style stops the build instead of
losing a symbol. It knows nothing of CUDA.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

_NOISE = re.compile(
    r"\b(?:extern|__extension__|__inline__|__inline|__restrict|__restrict__|_Noreturn)\b"
)
_ATTRIBUTE = re.compile(r"__attribute__\s*\(\((?:[^()]|\([^()]*\))*\)\)")
_BRACES = re.compile(r"\{[^{}]*\}")
_FUNCTION = re.compile(r"^(?P<returns>[\w\s*]*?[\s*])(?P<name>\w+)\s*\((?P<parameters>[^()]*)\)$")
_FUNCTION_TYPE = re.compile(
    r"^typedef\s+(?P<returns>[\w\s*]+?)\s*\(\s*\*\s*(?P<name>\w+)\)\s*\((?P<parameters>[^()]*)\)$"
)
_ALIAS = re.compile(r"^typedef\s+(?P<old>[\w\s]+?[\s*]+)(?P<new>\w+)$")
_PARAMETER = re.compile(r"^(?P<type>.*?[\s*])(?P<name>\w+)\s*(?P<array>(?:\[\w*\])*)$")
_TYPE_WORDS = ("int", "char", "short", "long", "unsigned", "signed", "float", "double")
_TYPE_STARTS = ("const", "struct", "enum", "union")


class Unreadable(Exception):
    """A declaration in a style that this reader does not know."""


@dataclass(frozen=True)
class Parameter:
    """One parameter: its type as C text, arrays as the pointers they decay to, and its name."""

    type: str
    name: str


@dataclass(frozen=True)
class Prototype:
    """What a function returns and takes."""

    returns: str
    parameters: tuple[Parameter, ...]

    def types(self) -> tuple[str, ...]:
        return (self.returns, *(parameter.type for parameter in self.parameters))


@dataclass(frozen=True)
class Declarations:
    """Everything that was read from one translation unit."""

    functions: dict[str, Prototype]
    function_types: dict[str, Prototype]
    aliases: dict[str, str]

    def canonical(self, prototype: Prototype) -> tuple[str, ...]:
        """The prototype's types with every alias followed to its end: equal for equal machine-level
        prototypes."""
        return tuple(self._canonical_type(text) for text in prototype.types())

    def _canonical_type(self, text: str) -> str:
        while True:
            followed = re.sub(r"\w+", lambda word: self.aliases.get(word[0], word[0]), text)
            if followed == text:  # a parameter that is itself const is the callee's business
                return text if "*" in text else text.removeprefix("const ")
            text = normal(followed)


def read(preprocessed: str, wanted: str) -> Declarations:
    """Read one preprocessed translation unit (`cc -E -P`): functions whose name begins with the
    expression `wanted`.

    Raises Unreadable where such a name is declared in a way that would be lost.
    """
    called = re.compile(rf"\b(?:{wanted})\w*\s*\(")
    functions: dict[str, Prototype] = {}
    function_types: dict[str, Prototype] = {}
    aliases: dict[str, str] = {}
    for statement in _statements(preprocessed):
        if found := _FUNCTION_TYPE.match(statement):
            function_types[found["name"]] = _prototype(found)
        elif found := _ALIAS.match(statement):
            aliases[found["new"]] = normal(re.sub(r"\b(?:struct|union|enum)\b", "", found["old"]))
        elif statement.startswith(("typedef", "static")) or not called.search(statement):
            continue
        elif found := _FUNCTION.match(statement):
            functions.setdefault(found["name"], _prototype(found))
        else:
            raise Unreadable(statement[:200])
    return Declarations(
        functions, function_types, {new: old for new, old in aliases.items() if new != old}
    )


def _statements(preprocessed: str) -> Iterator[str]:
    """Declarations without attributes and without what stands in braces, one line each."""
    text = _NOISE.sub(" ", _ATTRIBUTE.sub(" ", preprocessed))
    emptied = _BRACES.sub("@", text)
    while emptied != text:
        text, emptied = emptied, _BRACES.sub("@", emptied)
    for statement in re.sub(r"\)\s*@", ") @;", text).split(";"):
        yield normal(statement.replace("@", " @ "))


def _prototype(found: re.Match[str]) -> Prototype:
    texts = [normal(text) for text in found["parameters"].split(",")]
    if texts in ([""], ["void"]):
        return Prototype(normal(found["returns"]), ())
    return Prototype(
        normal(found["returns"]), tuple(_parameter(text, place) for place, text in enumerate(texts))
    )


def _parameter(text: str, place: int) -> Parameter:
    found = _PARAMETER.match(text)
    if found is None or found["name"] in _TYPE_WORDS or found["type"].strip() in _TYPE_STARTS:
        if re.fullmatch(r"[\w\s]+[\s*]*", text):
            return Parameter(
                normal(text), f"argument{place}"
            )  # a type alone: the header gives no name
        raise Unreadable(f"parameter {place + 1} is {text!r}")
    return Parameter(normal(found["type"] + "*" * found["array"].count("[")), found["name"])


def normal(text: str) -> str:
    """One spelling for one type: single spaces, stars together and apart from the word before."""
    return (
        re.sub(r"\s*\*\s*(?=\*)", " *", re.sub(r"\s*\*", " *", " ".join(text.split())))
        .replace("* *", "**")
        .strip()
    )
