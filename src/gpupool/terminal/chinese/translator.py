"""Find the Chinese of a finished English text.

An exact text comes first, then the template with the most literal signs, then the parts of a text
that is a list; the sentences of a list come before a template of one. Pure but for reading the
catalogues; each is read when first needed.
"""

from __future__ import annotations

import json
import os
import re
from functools import cache
from typing import Any

#: `{0}` is carried over and `{0!}` translated; `{0#}` is a number, `{0=}` a term and `{0?}` a text
#: of a catalogue, or the text is another one.
_HOLE = re.compile(r"\{(\d+)([!#=?]?)\}")
_NUMBER = re.compile(r"-?[\d.,]+")
#: Two English words in a row are a sentence: without Chinese the text around it stays English.
_PROSE_PAIR = re.compile(r"(?<![\w/.=-])[a-z']{2,} [a-z']{2,}(?![\w/=-])")
#: Between sentences of one text, and what stands for it in Chinese.
_JOINTS = (("; ", "；"), (".  ", "。"), ("  ", "  "))
#: Between the parts of a list: all of them have Chinese, or none is translated.
_LISTS = {"; ": "；", ", ": "，"}
#: ECMA-48 SGR, as `output.paint_text` writes it.
_COLOR = re.compile(r"\x1b\[\d*m")
_JOINT = re.compile(r"; |  ")
_PREFIX = re.compile(r"\s*(?:gpupool: |- )?")
_DEPTH = 4


class Template:
    """A text with holes.

    Attributes:
        english: The text with holes.
        probe: Its longest literal part; a text without it is none of this template.
        weight: How many literal signs it has.
    """

    def __init__(self, english: str, chinese: str) -> None:
        parts = _HOLE.split(english)[::3]
        self.english = english
        self.chinese = chinese
        self.probe = max(parts, key=len)
        self.weight = sum(map(len, parts))
        self._parts = parts
        self._matcher: re.Pattern[str] | None = None

    def match(self, text: str) -> tuple[str, ...] | None:
        """Return what fills the holes; None where the text is another one."""
        if self.probe not in text:
            return None
        if self._matcher is None:  # compiling all of them would take longer than most commands
            pattern = "(.+?)".join(map(re.escape, self._parts))
            self._matcher = re.compile(pattern, re.DOTALL)
        found = self._matcher.fullmatch(text)
        return None if found is None else found.groups()


class Translator:
    """Translates by the catalogues of `texts`."""

    def __init__(
        self, texts: dict[str, str], terms: dict[str, Any], titles: dict[str, str]
    ) -> None:
        # By `{0`, not by _HOLE: a search in 2,600 keys is a third of the time of loading.
        self._exact = {key: text for key, text in texts.items() if "{0}" not in key}
        templates = [Template(key, text) for key, text in texts.items() if "{0}" in key]
        self._templates = sorted(templates, key=lambda one: -one.weight)
        self._gapped = [one for one in self._templates if "  " in one.english]
        self._joined = {joint: self._list_with(joint) for joint in _LISTS}
        self._words: dict[str, str] = terms["words"]
        self._columns: dict[str, str] = terms["titles"]
        #: By title, words that mean something else there: a card that failed is no job that failed.
        self._words_of: dict[str, dict[str, str]] = terms["words_of"]
        self._words_below: frozenset[str] = frozenset(terms["words_below"])
        self._sentences_below: frozenset[str] = frozenset(terms["sentences_below"])
        self.titles = titles

    def _list_with(self, literal: str) -> list[Template]:
        return [one for one in self._templates if literal in one.english]

    def translate(self, text: str) -> str:
        """Return the Chinese of a message; of a message without Chinese the English."""
        lead = _PREFIX.match(text)
        before = lead.group() if lead else ""
        found = self._find(text[len(before) :].rstrip("\n"), 0)
        return text if found is None else before + found + "\n" * text.endswith("\n")

    def translate_line(self, line: str) -> str:
        """Return the Chinese of a line of output; a row of a table is none of ours any more.

        A line with one colour has it as a whole: Chinese words stand in another order.
        """
        if "\x1b[" in line:
            plain = _COLOR.sub("", line)
            found = self.translate_line(plain)
            color = _COLOR.search(line)
            if found == plain or color is None or len(_COLOR.findall(line)) > 2:
                return line
            return f"{color.group()}{found.removesuffix(chr(10))}\x1b[0m" + line[
                -1
            ] * line.endswith("\n")
        return line if "  " in line.strip() and not self._is_known(line) else self.translate(line)

    def translate_title(self, title: str) -> str:
        """Return the Chinese of a title."""
        return self._columns.get(title) or self.translate(title)

    def translate_cell(self, title: str, value: str) -> str:
        """Return the Chinese of a cell whose title says that it is a word or a sentence."""
        if title in self._words_below:
            words = {**self._words, **self._words_of.get(title, {})}
            word, colon, rest = value.partition(": ")
            if word in words and not colon:
                return words[word]
            reason = self._find_part(rest, 0)
            if word in words and reason is not None:
                return f"{words[word]}：{reason}"
        if title in self._words_below or title.rstrip(" 0123456789") in self._sentences_below:
            return self.translate(value)
        return value  # a name, a number, a command

    def translate_help(self, text: str) -> str:
        """Return the Chinese of a text of the help, paragraph by paragraph."""
        paragraphs = text.strip().split("\n\n")
        return "\n\n".join(self._translate_paragraph(one) for one in paragraphs)

    def _translate_paragraph(self, text: str) -> str:
        plain = " ".join(text.split())
        return _load("help").get(plain) or self._exact.get(plain) or text

    def _find(self, text: str, depth: int) -> str | None:
        if text in self._exact:
            return self._exact[text]
        if depth > _DEPTH:
            return None
        # A hole of a shorter template would hold the end of one part and the next one.
        for joint, templates in self._joined.items():
            if joint in text:
                found = self._find_filled(text, templates, depth)
                found = found or self._find_list(text, joint, depth)
                if found is not None:
                    return found
        return self._find_filled(text, self._templates, depth) or self._find_parts(text, depth)

    def _find_filled(self, text: str, templates: list[Template], depth: int) -> str | None:
        for template in templates:
            holes = template.match(text)
            if holes is not None:
                filled = self._fill(template.chinese, holes, depth)
                if filled is not None:
                    return filled
        return None

    def _fill(self, chinese: str, holes: tuple[str, ...], depth: int) -> str | None:
        parts = _HOLE.split(chinese)
        filled = [parts[0]]
        for number, kind, literal in zip(parts[1::3], parts[2::3], parts[3::3], strict=True):
            hole = holes[int(number)]
            if kind == "#" and not _NUMBER.fullmatch(hole):
                return None
            if kind == "=" and hole not in self._words:
                return None
            # A name stays as it is, also one that is a word; a sentence is translated or refused.
            is_sentence = (bool(kind) and kind in "!=?") or self._is_sentence(hole)
            value = self._find_part(hole, depth) if is_sentence else hole
            # A hole that holds an end of one sentence and the next one is a wrong match.
            if value is None or (kind in ("", "#") and _JOINT.search(hole)):
                return None
            if kind == "?" and value == hole:
                return None
            filled += [value, literal]
        return "".join(filled)

    def _is_known(self, line: str) -> bool:
        """Return whether a line with a gap is a text of ours as a whole."""
        lead = _PREFIX.match(line)
        plain = line[lead.end() if lead else 0 :].rstrip("\n")
        return plain in self._exact or any(one.match(plain) for one in self._gapped)

    def _is_sentence(self, text: str) -> bool:
        return (" " in text and text in self._words) or not _is_plain(text)

    def _find_part(self, text: str, depth: int) -> str | None:
        """Return the Chinese of a part; names, numbers and command lines are their own."""
        found = self._words.get(text) or self._find(text, depth + 1)
        if found is None and (text.startswith("gpupool ") or _is_plain(text)):
            return text
        return found

    def _find_list(self, text: str, joint: str, depth: int) -> str | None:
        found = []
        for part in text.split(joint):
            one = self._find(part, depth + 1)
            if one is None:
                return None
            found.append(one)
        return _LISTS[joint].join(found)

    def _find_parts(self, text: str, depth: int) -> str | None:
        for joint, chinese in _JOINTS:
            if joint not in text:
                continue
            found = []
            changed = False
            for part in text.split(joint):
                one = self._find(part, depth + 1)
                if one is None and not (part.startswith("gpupool ") or _is_plain(part)):
                    break
                one = one or part
                changed = changed or one != part
                found.append(one)
            else:
                if changed:
                    return chinese.join(found)
        return None


def _is_plain(text: str) -> bool:
    """Return whether a text has no two English words in a row."""
    return not _PROSE_PAIR.search(text)


@cache
def _load(name: str) -> dict[str, Any]:
    # Not importlib.resources, whose import takes longer than the catalogues.
    path = os.path.join(os.path.dirname(__file__), "texts", f"{name}.json")
    with open(path, encoding="utf-8") as file:
        loaded: dict[str, Any] = json.load(file)
    return loaded


@cache
def load_translator() -> Translator:
    """Read the catalogues of messages; that of the help is read with the first help."""
    errors = _load("errors")
    texts = dict(errors["messages"])
    for name in ("status", "fields", "output", "reasons"):
        texts |= _load(name)
    return Translator(texts, _load("terms"), errors["titles"])
