"""A language model that says what a test tells it, and remembers what it was asked.

It plays scripts (`chatagent_test.scripting`), or gives raw results. It waits only where its script says so: pauses are
on the clock of the current run, holds end when the test says so, and an abort of the call ends every wait.
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterable, Awaitable, Callable, Iterable, Mapping, Sequence
from itertools import count
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar, cast

import anyio

from chatagent.current import current_clock
from chatagent.errors import InvalidArgumentError, ScriptExhaustedError, WaitTimeoutError
from chatagent.model import CallOptions, GenerateResult, ModelStreamPart, RequestInfo, ResponseInfo, StreamResult
from chatagent_test.scripting.builder import Script
from chatagent_test.scripting.player import Holds, ScriptStream
from chatagent_test.scripting.render import IdCounter, render
from chatagent_test.scripting.whole import whole_answer

if TYPE_CHECKING:
    from chatagent.model import SpecificationVersion, SupportedUrls

__all__ = [
    "MockLanguageModel",
    "RawStreamResult",
    "ScriptSource",
    "convert_array_to_stream",
    "convert_stream_to_array",
    "mock_id",
    "mock_values",
    "simulate_stream",
]

ItemT = TypeVar("ItemT")
ResultT = TypeVar("ResultT")

ScriptSource: TypeAlias = Script | Sequence[Script] | Callable[[CallOptions], Script | Awaitable[Script]]
"""One script, which answers every call; a list, one entry a call; or a function of the call's options."""

RawStreamResult: TypeAlias = StreamResult | Mapping[str, object]
"""A result of `do_stream`, or a mapping with `stream`, `request` and `response`. A `stream` that is a list of parts may
answer any number of calls."""

Raw: TypeAlias = (
    ResultT | Exception | Sequence[ResultT | Exception] | Callable[[CallOptions], ResultT | Awaitable[ResultT]]
)
"""One result, given for every call; a list, one entry a call; or a function of the options. An exception is raised."""


class MockLanguageModel:
    """A language model for tests.

    Args:
        script: what it says; exclusive with the raw forms.
        do_stream: raw results of `do_stream`: a result, a list of them (one a call), or a function of the options.
        do_generate: the same for `do_generate`.
        provider: name of the provider.
        model_id: name of the model.
        supported_urls: what URLs it reads by itself, or a function that says so; none by default.
        specification_version: the protocol that it speaks; `v4` gets file data in its tagged form.

    Raises:
        InvalidArgumentError: both a script and raw results, or an entry that is no script.
    """

    def __init__(
        self,
        script: ScriptSource | None = None,
        *,
        do_stream: Raw[RawStreamResult] | None = None,
        do_generate: Raw[GenerateResult] | None = None,
        provider: str = "mock-provider",
        model_id: str = "mock-model-id",
        supported_urls: SupportedUrls | Callable[[], SupportedUrls | Awaitable[SupportedUrls]] | None = None,
        specification_version: SpecificationVersion = "v3",
    ) -> None:
        if script is not None and (do_stream is not None or do_generate is not None):
            raise InvalidArgumentError(argument="script", value=script, problem="it excludes raw results")
        self.specification_version: SpecificationVersion = specification_version
        self.provider = provider
        self.model_id = model_id
        self.do_stream_calls: list[CallOptions] = []
        """What each call of `do_stream` was asked with, recorded before it is answered."""
        self.do_generate_calls: list[CallOptions] = []
        """What each call of `do_generate` was asked with."""
        self._supported_urls = supported_urls
        self._scripts = None if script is None else _Answers[Script](script)
        self._raw_stream = None if do_stream is None else _Answers[RawStreamResult](do_stream)
        self._raw_generate = None if do_generate is None else _Answers[GenerateResult](do_generate)
        self._ids = IdCounter()
        self._holds = Holds(_hold_names(self._scripts))
        self._streams: list[ScriptStream] = []
        """What its scripts gave, one stream a call."""

    @property
    def supported_urls(self) -> SupportedUrls | Awaitable[SupportedUrls]:
        """The URLs that it reads by itself."""
        supported = self._supported_urls
        return supported() if callable(supported) else supported or {}

    async def do_stream(self, options: CallOptions, /) -> StreamResult:
        """Answer the next call with a stream.

        Raises:
            ScriptExhaustedError: there is no entry for this call.
            NotImplementedError: there is neither a script nor `do_stream`.
            Exception: what the script's entry fails with.
        """
        self.do_stream_calls.append(options)
        if self._raw_stream is not None:
            return _as_stream_result(await self._raw_stream.next(options, "do_stream", self._story))
        return StreamResult(stream=(await self._play(options, "do_stream")).parts)

    async def do_generate(self, options: CallOptions, /) -> GenerateResult:
        """Answer the next call in one piece; errors as for `do_stream`."""
        self.do_generate_calls.append(options)
        if self._raw_generate is not None:
            return await self._raw_generate.next(options, "do_generate", self._story)
        stream = await self._play(options, "do_generate")
        return whole_answer([part async for part in stream])

    async def reached(self, name: str, *, wait_timeout: float = 10.0) -> None:
        """Return when the model stands at `script.hold(name)`, or has come by it since the last such wait.

        Args:
            name: the name of the hold.
            wait_timeout: real seconds after which the wait is given up.

        Raises:
            InvalidArgumentError: no script has a hold of that name.
            WaitTimeoutError: the model did not come there in time; the text says what it did instead.
        """
        hold = self._holds.named(name)
        with anyio.move_on_after(wait_timeout):
            await hold.reached()
            return
        raise WaitTimeoutError(
            f"reached({name!r}): the model did not come to script.hold({name!r}) within {wait_timeout:g} s of real "
            f"time; {self._story()}"
        )

    def release(self, name: str) -> None:
        """Let the model go on that stands at `script.hold(name)`; if none does, the next one will not stop there.

        Raises:
            InvalidArgumentError: no script has a hold of that name.
        """
        self._holds.named(name).release()

    def assert_done(self) -> None:
        """Check that every entry of its lists was asked for, and that nobody stands at a hold.

        Raises:
            AssertionError: something is left; the text says what.
        """
        for name, answers in (
            ("script", self._scripts),
            ("do_stream", self._raw_stream),
            ("do_generate", self._raw_generate),
        ):
            entries, calls = (None, 0) if answers is None else (answers.entries, answers.calls)
            if entries is not None and calls < len(entries):
                left = f"the model's {name} has {len(entries) - calls} of {len(entries)} entries left"
                msg = f"{left}, the next is {entries[calls]!r}; let it be asked for them, or leave them out"
                raise AssertionError(f"{msg}\n{self._story()}")
        if self._holds.occupied:
            held = ", ".join(f"hold({name!r})" for name in self._holds.occupied)
            msg = f"the model still stands at {held}; release it"
            raise AssertionError(msg)

    def _story(self) -> str:
        """What the model has done so far."""
        calls = [*self.do_stream_calls, *self.do_generate_calls]
        if not calls:
            return "it was not called"
        told = "".join(f"\n  call {number} {stream.story}" for number, stream in enumerate(self._streams, 1))
        return f"it was called {'once' if len(calls) == 1 else f'{len(calls)} times'}{':' if told else ''}{told}"

    async def _play(self, options: CallOptions, method: str) -> ScriptStream:
        rendered = render(await self._next_script(options, method), self._ids)
        stream = ScriptStream(rendered.actions, self._holds, options.abort_signal)
        self._streams.append(stream)
        if rendered.failure is not None:
            await stream.wait_all(rendered.waits)
            stream.end_with(rendered.failure)
            raise rendered.failure
        return stream

    async def _next_script(self, options: CallOptions, method: str) -> Script:
        if self._scripts is None:
            msg = f"Not implemented: give MockLanguageModel a script, or `{method}`"
            raise NotImplementedError(msg)
        return _script(await self._scripts.next(options, method, self._story))


class _Answers(Generic[ResultT]):
    """Answers to the calls of a model, one after the other."""

    __slots__ = ("_function", "_single", "calls", "entries")

    def __init__(self, source: Raw[ResultT]) -> None:
        self.calls = 0
        self.entries: Sequence[ResultT | Exception] | None = None
        self._function: Callable[[CallOptions], object] | None = None
        self._single: ResultT | Exception | None = None
        if isinstance(source, list | tuple):
            self.entries = tuple(cast("Sequence[ResultT | Exception]", source))
        elif callable(source):
            self._function = source
        else:
            self._single = cast("ResultT | Exception", source)

    @property
    def known(self) -> Sequence[object] | None:
        """All that may be given; `None` if nobody can know."""
        return None if self._function is not None else (self._single,) if self.entries is None else self.entries

    async def next(self, options: CallOptions, method: str, story: Callable[[], str]) -> ResultT:
        number, self.calls = self.calls, self.calls + 1
        if self.entries is not None and number >= len(self.entries):
            entries = len(self.entries)
            raise ScriptExhaustedError(call_number=number, entries=entries, method=method, so_far=story())
        result: object = self._single if self.entries is None else self.entries[number]
        if self._function is not None:
            made = self._function(options)
            result = await cast("Awaitable[object]", made) if inspect.isawaitable(made) else made
        if isinstance(result, Exception):
            raise result
        return cast("ResultT", result)


def _script(value: object) -> Script:
    if not isinstance(value, Script):
        raise InvalidArgumentError(
            argument="script",
            value=value,
            problem='give a Script, such as script.text("…"), a list of them, or a function',
        )
    return value


def _hold_names(scripts: _Answers[Script] | None) -> frozenset[str] | None:
    """Return the names of all holds; `None` if nobody can know them."""
    known = () if scripts is None else scripts.known
    return None if known is None else frozenset(name for each in known for name in _script(each).holds)


def _as_stream_result(result: object) -> StreamResult:
    """Return a raw result as the protocol has it, with a stream of its own if it was given as a list."""
    if isinstance(result, Mapping):
        fields = dict(cast("Mapping[str, Any]", result))
        for name, kind in (("request", RequestInfo), ("response", ResponseInfo)):
            if isinstance(fields.get(name), Mapping):
                fields[name] = kind(**fields[name])
        result = StreamResult(**fields)
    if not isinstance(result, StreamResult):
        raise InvalidArgumentError(
            argument="do_stream", value=result, problem='give a StreamResult, or {"stream": [parts]}'
        )
    stream: object = result.stream
    if not isinstance(stream, Iterable):
        return result
    parts = cast("Iterable[ModelStreamPart]", stream)
    return StreamResult(stream=convert_array_to_stream(parts), request=result.request, response=result.response)


class SimulatedStream(Generic[ItemT]):
    """An async iterator over given items that waits on the clock in front of each."""

    __slots__ = ("_delay", "_items", "_next_delay")

    def __init__(self, items: Iterable[ItemT], initial_delay: float | None, chunk_delay: float | None) -> None:
        self._items = iter(items)
        self._delay, self._next_delay = initial_delay, chunk_delay

    def __aiter__(self) -> SimulatedStream[ItemT]:
        return self

    async def __anext__(self) -> ItemT:
        for item in self._items:
            delay, self._delay = self._delay, self._next_delay
            if delay is not None:
                await current_clock().sleep(delay)
            return item
        raise StopAsyncIteration

    async def aclose(self) -> None:
        """End the stream; nothing more comes."""
        self._items = iter(())


def simulate_stream(
    parts: Iterable[ItemT], *, initial_delay: float | None = None, chunk_delay: float | None = None
) -> SimulatedStream[ItemT]:
    """Return a stream of given parts, which come when they are asked for.

    Args:
        parts: what comes, in order; without parts the stream ends at once.
        initial_delay: seconds on the clock before the first part; `None` does not wait at all, 0 lets others run.
        chunk_delay: the same before each other part.
    """
    for name, delay in (("initial_delay", initial_delay), ("chunk_delay", chunk_delay)):
        if delay is not None and not 0 <= delay < float("inf"):
            raise InvalidArgumentError(argument=name, value=delay, problem="a delay is 0 seconds or more, or `None`")
    return SimulatedStream(parts, initial_delay, chunk_delay)


def convert_array_to_stream(items: Iterable[ItemT]) -> SimulatedStream[ItemT]:
    """Return a stream of the items, without delays."""
    return simulate_stream(items)


async def convert_stream_to_array(stream: AsyncIterable[ItemT]) -> list[ItemT]:
    """Return everything that a stream gives, once it has ended."""
    return [item async for item in stream]


def mock_id(prefix: str = "id") -> Callable[[], str]:
    """Return an id generator that gives `id-0`, `id-1`, …."""
    numbers = count()
    return lambda: f"{prefix}-{next(numbers)}"


def mock_values(*values: ItemT) -> Callable[[], ItemT]:
    """Return a function that gives the values in turn, then the last one for ever."""
    if not values:
        raise InvalidArgumentError(argument="values", value=values, problem="give at least one")
    numbers = count()
    return lambda: values[min(next(numbers), len(values) - 1)]
