"""What models answer in numbers: token counts of Messages, and embeddings (7.15). The same text has the same ones."""

from __future__ import annotations

import base64
import hashlib
import math
from array import array
from random import Random
from typing import TYPE_CHECKING, Any, cast

from chatagent_test.inference.formats.answers import requested_model
from chatagent_test.inference.formats.failures import openai_error
from chatagent_test.inference.formats.tokens import estimate_tokens, estimate_usage
from chatagent_test.inference.scripted import ScriptedResponse

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["embeddings_response", "token_count_response"]

DIMENSIONS = 1536
"""Of an embedding, unless the request says how many."""


def token_count_response(request: Mapping[str, object]) -> ScriptedResponse:
    """Return about how many tokens a Messages request has: one for every four characters of its texts."""
    return ScriptedResponse.json(200, {"input_tokens": estimate_usage(request, []).input_tokens.total})


def embeddings_response(request: Mapping[str, object]) -> ScriptedResponse:
    """Return an embedding for each text of a request: a vector of length 1 that only that text has.

    Vectors say nothing about what texts mean: those of two texts are about at right angles.
    """
    texts = _inputs(request.get("input"))
    if texts is None:
        missing = "Missing required parameter: 'input'."
        wrong = "Invalid 'input': give a text, a list of texts, or lists of tokens, none of which is empty."
        return openai_error(400, missing if request.get("input") is None else wrong, param="input")
    count = request.get("dimensions")
    dimensions = count if isinstance(count, int) and 0 < count <= DIMENSIONS * 2 else DIMENSIONS
    is_packed = request.get("encoding_format") == "base64"
    data = [
        {"object": "embedding", "index": index, "embedding": _told(_vector(text, dimensions), is_packed=is_packed)}
        for index, text in enumerate(texts)
    ]
    tokens = sum(map(_tokens, texts))
    usage = {"prompt_tokens": tokens, "total_tokens": tokens}
    body = {"object": "list", "data": data, "model": requested_model(request), "usage": usage}
    return ScriptedResponse.json(200, body)


def _inputs(given: object) -> list[str | list[object]] | None:
    """Return what is to be embedded; `None` if that is nothing, or something else than texts and tokens."""
    if isinstance(given, str):
        return [given] if given else None
    if not isinstance(given, list) or not given:
        return None
    members = cast("list[Any]", given)
    if all(_is_number(each) for each in members):
        return [members]
    are_inputs = all(each and (isinstance(each, str) or _are_tokens(each)) for each in members)
    return members if are_inputs else None


def _are_tokens(value: object) -> bool:
    return isinstance(value, list) and all(map(_is_number, cast("list[object]", value)))


def _is_number(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _tokens(text: str | list[object]) -> int:
    return estimate_tokens(text) if isinstance(text, str) else len(text)


def _vector(text: str | list[object], dimensions: int) -> list[float]:
    digest = hashlib.sha256(repr(text).encode("utf-8", "surrogatepass")).digest()
    random = Random(int.from_bytes(digest))
    numbers = [random.gauss(0, 1) for _ in range(dimensions)]
    length = math.hypot(*numbers)
    return [number / length for number in numbers]


def _told(vector: list[float], *, is_packed: bool) -> str | list[float]:
    """Return a vector as numbers, or as little-endian floats of four bytes in base64, which the SDK asks for."""
    if not is_packed:
        return [round(number, 8) for number in vector]
    packed = array("f", vector)
    if array("H", [1]).tobytes()[0] == 0:
        packed.byteswap()
    return base64.b64encode(packed.tobytes()).decode()
