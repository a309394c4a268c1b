"""Text in pieces, cut by somebody who counts in UTF-16: the halves of a character are joined again (rule 16.11)."""

from __future__ import annotations

import re

__all__ = ["join_pieces", "join_surrogates"]

_SPLIT_PAIR = re.compile("[\ud800-\udbff][\udc00-\udfff]")


def join_surrogates(text: str) -> str:
    """Return the text with each high surrogate and the low one behind it made one character; lone ones stay."""
    if text.isascii():
        return text
    try:
        text.encode()  # far quicker than a search, and it fails for surrogates only
    except UnicodeEncodeError:
        return _SPLIT_PAIR.sub(_one_character, text)
    return text


def join_pieces(pieces: list[str]) -> str:
    """Join pieces of text and leave the list with the whole as its only piece, so that the next call has less to do."""
    text = join_surrogates("".join(pieces))
    pieces[:] = [text]
    return text


def _one_character(pair: re.Match[str]) -> str:
    high, low = pair[0]
    return chr(0x10000 + ((ord(high) - 0xD800) << 10) + (ord(low) - 0xDC00))
