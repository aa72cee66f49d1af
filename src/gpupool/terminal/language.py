"""Which language the command line speaks, and the door to it.

Sources, logs, `-o json` and the wire are English. In English nothing but this module is imported;
`gpupool.terminal.chinese` is loaded when Chinese is chosen. ADR 0107 has the reasons.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import TextIO

    from gpupool.terminal.chinese.translator import Translator

LANGUAGES = ("en", "zh")
#: From the strongest to the weakest: ours, then those of POSIX (Base Definitions, 8.2).
VARIABLES = ("GPUPOOL_LANG", "LC_ALL", "LC_MESSAGES", "LANG")

_translator: Translator | None = None


def choose_language(environ: Mapping[str, str], encoding: str | None = "utf-8") -> str:
    """Return `zh` where the first of `VARIABLES` that is not empty begins with it, else `en`.

    Args:
        encoding: That of stdout; Chinese is not chosen where it has no Chinese signs.
    """
    named = next((environ[name] for name in VARIABLES if environ.get(name)), "")
    if not named.lower().startswith("zh"):
        return "en"
    return "zh" if has_chinese_signs(encoding) else "en"


def has_chinese_signs(encoding: str | None) -> bool:
    """Return whether text in this encoding can be Chinese."""
    try:
        "中文".encode(encoding or "ascii")
    except (LookupError, UnicodeEncodeError):
        return False
    return True


def speak(language: str) -> None:
    """Choose the language of everything that is printed from now on.

    In Chinese stdout and stderr translate lines until English is chosen again. Idempotent.
    """
    global _translator  # a process speaks one language, as gettext has it
    if language == "en":
        _translator = None
        sys.stdout = getattr(sys.stdout, "original", sys.stdout)
        sys.stderr = getattr(sys.stderr, "original", sys.stderr)
        return
    if _translator is not None:
        return
    from gpupool.terminal.chinese.stream import TranslatedStream
    from gpupool.terminal.chinese.translator import load_translator

    _translator = load_translator()
    sys.stdout = TranslatedStream(sys.stdout, _translator)
    sys.stderr = TranslatedStream(sys.stderr, _translator)


def leave_stdout() -> None:
    """Translate no line of stdout, for a command whose stdout is data."""
    sys.stdout = data_stream()


def is_chinese() -> bool:
    """Return whether Chinese is chosen."""
    return _translator is not None


def localize(text: str) -> str:
    """Return a message in the chosen language; what has no translation stays as it is, whole."""
    return text if _translator is None else _translator.translate(text)


def localize_help(text: str) -> str:
    """Return a text of the help; paragraphs that are translated become one line each."""
    return text if _translator is None else _translator.translate_help(text)


def localize_title(title: str) -> str:
    """Return the title of a column or of a fact."""
    return title if _translator is None else _translator.translate_title(title)


def localize_cell(title: str, value: str) -> str:
    """Return the value below a title: names stay, states and reasons are translated."""
    return value if _translator is None else _translator.translate_cell(title, value)


def find_error_title(code: str) -> str:
    """Return the Chinese title of an error code; empty in English, and for an unknown code."""
    return "" if _translator is None else _translator.titles.get(code, "")


def wrap_text(text: str, width: int) -> list[str]:
    """Break a text into lines of so many columns."""
    if _translator is None:
        import textwrap

        return textwrap.wrap(text, width)
    from gpupool.terminal.chinese.layout import wrap_signs

    return wrap_signs(text, width)


def data_stream() -> TextIO:
    """Return stdout for data: what programs read is never translated."""
    stream: TextIO = getattr(sys.stdout, "original", sys.stdout)
    return stream


def find_language_option(words: Sequence[str]) -> str | None:
    """Return the value of `--lang` among the words before `--`, None where it is not given."""
    for number, word in enumerate(words):
        if word == "--":
            return None
        if word.startswith("--lang="):
            return word.removeprefix("--lang=")
        if word == "--lang" and number + 1 < len(words):
            return words[number + 1]
    return None
