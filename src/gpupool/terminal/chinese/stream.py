"""A text stream that translates the lines written to it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:
    from gpupool.terminal.chinese.translator import Translator


class TranslatedStream:
    """Writes to another stream what is written to it, each line in Chinese where there is some.

    Bytes (`buffer`, `fileno`) and everything else are those of the other stream.

    Attributes:
        original: The stream that it writes to; data is written there.
    """

    def __init__(self, original: TextIO, translator: Translator) -> None:
        self.original = original
        self._translator = translator

    def write(self, text: str) -> int:
        """Write a text; return how many signs of it were written: all of them."""
        if not text.isspace():
            lines = text.splitlines(keepends=True)
            text = "".join(self._translator.translate_line(line) for line in lines)
        self.original.write(text)
        return len(text)

    def writelines(self, lines: list[str]) -> None:
        """Write several texts."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.original, name)
