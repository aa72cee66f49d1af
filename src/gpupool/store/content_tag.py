"""Tags of what has no generation: a change names the tag of what it read."""

from __future__ import annotations

import hashlib
import json

#: Hexadecimal digits of a digest in a tag: 56 bits, which decimal `ETag`s of 18 digits hold.
_DIGITS = 14


def make_content_tag(content: object) -> int:
    """Make the number that changes whenever the content does.

    Args:
        content: What JSON can write. No secret of few bits: a reader of the tag could guess it.

    Returns:
        A number of at most 17 digits, the same for the same content.
    """
    text = json.dumps(content, sort_keys=True, ensure_ascii=True)
    return int(hashlib.sha256(text.encode()).hexdigest()[:_DIGITS], 16)
