"""Hypothesis strategies for chunks and the JSON inside them."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from chatagent.ui import CHUNK_TYPES, Chunk, DataChunk, SteeringMessage, TextUIPart, codec_of

TEXTS = st.text(max_size=8)
IDS = st.sampled_from(["a", "b"])
NAMES = st.sampled_from(["weather", "get-weather"])
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.floats(-(2.0**53), 2.0**53) | TEXTS,
    lambda children: st.lists(children, max_size=3) | st.dictionaries(TEXTS, children, max_size=3),
    max_leaves=6,
)
OBJECTS = st.dictionaries(TEXTS, JSON, max_size=2)
METADATA = st.dictionaries(TEXTS, OBJECTS, max_size=2)
EXTRA = st.none() | st.dictionaries(st.sampled_from(["x-one", "x-two"]), JSON, min_size=1, max_size=2)

BY_NAME: dict[str, st.SearchStrategy[Any]] = {
    "id": IDS,
    "tool_call_id": IDS,
    "approval_id": IDS,
    "tool_name": NAMES,
    "provider_metadata": METADATA,
    "tool_metadata": OBJECTS,
    "citations": st.lists(OBJECTS, max_size=2),
    "input_encoding": st.sampled_from(["json", "text"]),
    "finish_reason": st.sampled_from(["stop", "length", "tool-calls", "interrupted"]),
}
BY_EXPECTED: dict[str, st.SearchStrategy[Any]] = {
    "a string": TEXTS,
    "true or false": st.booleans(),
    "any JSON value": JSON,
}


@st.composite
def chunk_of(draw: st.DrawFn, cls: type[Chunk]) -> Chunk:
    """A chunk of the class, each optional field there or not."""
    values: dict[str, Any] = {"extra": draw(EXTRA)}
    for field in codec_of(cls).fields:
        if field.required or draw(st.booleans()):
            values[field.name] = draw(
                BY_NAME[field.name] if field.name in BY_NAME else BY_EXPECTED[field.kind.expected]
            )
    return cls(**values)


DATA_CHUNKS = st.builds(
    DataChunk,
    type=st.sampled_from(["data-a", "data-b"]),
    data=JSON,
    id=st.none() | IDS,
    transient=st.none() | st.booleans(),
    extra=EXTRA,
)
STEERING_CHUNKS = st.builds(
    SteeringMessage, id=IDS, parts=st.lists(st.builds(TextUIPart, text=TEXTS), max_size=2).map(tuple), extra=EXTRA
)
CHUNKS: st.SearchStrategy[Chunk] = st.one_of(
    *(chunk_of(cls) for cls in CHUNK_TYPES.values() if cls is not SteeringMessage), DATA_CHUNKS, STEERING_CHUNKS
)
