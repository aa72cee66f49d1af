"""Finds the family of a job: jobs of one owner whose names differ in numbers and hashes alone."""

from __future__ import annotations

import re
from dataclasses import dataclass

#: Characters that separate the words of a job's name.
_SEPARATORS = re.compile(r"[-_./:\s]+")
#: A word of a commit, digest or generated id: hexadecimal, with at least one digit.
_HASH = re.compile(r"(?=[a-f]*[0-9])[0-9a-f]{6,}")
#: A job's index in its array.
_INDEX = re.compile(r"\[[0-9]*\]")
_DIGITS = re.compile(r"[0-9]+")
#: Letters of its id at the end of a name that the pool made; a name that was taken has more.
MADE_LETTERS = 4
#: The pattern of a name that has nothing but numbers.
NUMBERED = "numbered"


@dataclass(frozen=True, slots=True, order=True)
class FamilyKey:
    """Whose jobs they are, and the stable part of their names."""

    tenant: str
    project: str
    user: str
    pattern: str

    @property
    def name(self) -> str:
        """Return the whole name, for commands: `TENANT/PROJECT/USER/PATTERN`."""
        return f"{self.tenant}/{self.project}/{self.user}/{self.pattern}"

    def matches(self, text: str) -> bool:
        """Whether a text names it: whole, or by its pattern alone.

        >>> key = FamilyKey("lab", "default", "ada", "train")
        >>> key.matches("train"), key.matches("lab/default/ada/train"), key.matches("tra")
        (True, True, False)
        """
        return text in (self.pattern, self.name)


def strip_made_end(name: str, public_id: str) -> str:
    """Return a job's name without the end of its id, which the pool adds to a name that it makes.

    >>> strip_made_end("python-m7q8", "j-4k9x2m7q8w"), strip_made_end("python-7q8w", "j-4k9x2m7q8w")
    ('python-m7q8', 'python')
    """
    return name.removesuffix(f"-{public_id[-MADE_LETTERS:]}")


def find_pattern(name: str) -> str:
    """Return the part of a job's name that its family has in common.

    Array indices, numbers and hashes are left out; the words that remain are joined by `-`.

    >>> find_pattern("train-17"), find_pattern("sweep_lr0.003_run12"), find_pattern("eval-3fa9c1e")
    ('train', 'sweep-lr-run', 'eval')
    >>> find_pattern("resnet50[12]"), find_pattern("resnet50"), find_pattern("2026-11-29")
    ('resnet', 'resnet', 'numbered')
    """
    words = list[str]()
    for word in _SEPARATORS.split(_INDEX.sub("", name.lower())):
        rest = "" if _HASH.fullmatch(word) else _DIGITS.sub("", word)
        if rest:
            words.append(rest)
    return "-".join(words) or NUMBERED
