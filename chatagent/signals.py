"""Abort signals: how work is asked to stop, and can see it and finish on its own.

A signal is not cancellation: the code under it goes on until it looks, so it can still write its last words (C-111).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from chatagent.errors import AbortError
from chatagent.waiting import Gate

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["AbortController", "AbortSignal"]


class AbortSignal:
    """Tells that work should stop. Made by an `AbortController`, or by `AbortSignal.any`."""

    __slots__ = ("_aborted", "_callbacks", "_reason", "_sources", "_unsubscribe")

    def __init__(self, *sources: AbortSignal) -> None:
        self._aborted = False
        self._reason: object = None
        self._callbacks: dict[object, Callable[[], object]] = {}
        self._sources = sources
        self._unsubscribe: list[Callable[[], None]] = []

    @staticmethod
    def any(*signals: AbortSignal | None) -> AbortSignal:
        """Return a signal that is aborted as soon as one of the given ones is, with its reason.

        Args:
            signals: the signals to combine; `None` stands for none.
        """
        present = tuple(signal for signal in signals if signal is not None)
        return present[0] if len(present) == 1 else AbortSignal(*present)

    @property
    def aborted(self) -> bool:
        """Whether work should stop."""
        if not self._aborted:
            for source in self._sources:
                if source.aborted:
                    self._aborted, self._reason = True, source.reason
                    break
        return self._aborted

    @property
    def reason(self) -> object:
        """What the aborter gave as its reason; `None` before, or if it gave none."""
        return self._reason if self.aborted else None

    def raise_if_aborted(self) -> None:
        """Do nothing, or raise.

        Raises:
            AbortError: the signal is aborted; the error carries the reason.
        """
        if self.aborted:
            raise AbortError(self._reason)

    async def wait(self) -> None:
        """Return when the signal is aborted."""
        if self.aborted:
            return
        gate = Gate("an abort signal")
        unsubscribe = self.add_callback(gate.open)
        try:
            await gate.wait()
        finally:
            unsubscribe()

    def add_callback(self, callback: Callable[[], object]) -> Callable[[], None]:
        """Call back when the signal is aborted; at once if it is already.

        Args:
            callback: called once, without arguments, in the task that aborts; it must not wait.

        Returns:
            A function that takes the callback back; calling it late or twice does nothing.
        """
        if self.aborted:
            callback()
            return _nothing
        key = object()
        self._callbacks[key] = callback
        if self._sources and not self._unsubscribe:
            self._unsubscribe = [source.add_callback(self._source_aborted) for source in self._sources]

        def unsubscribe() -> None:
            self._callbacks.pop(key, None)
            if not self._callbacks:
                self._let_go()

        return unsubscribe

    def _source_aborted(self) -> None:
        if self.aborted:
            self._fire()

    def _abort(self, reason: object) -> None:
        if not self._aborted:
            self._aborted, self._reason = True, reason
            self._fire()

    def _fire(self) -> None:
        """Call everybody, then raise the first error that a callback raised: none keeps the others from hearing."""
        callbacks, self._callbacks = list(self._callbacks.values()), {}
        self._let_go()
        first: Exception | None = None
        for callback in callbacks:
            try:
                callback()
            except Exception as exc:  # noqa: BLE001 - raised below, once all have been called
                first = first or exc
        if first is not None:
            raise first

    def _let_go(self) -> None:
        unsubscribe, self._unsubscribe = self._unsubscribe, []
        for each in unsubscribe:
            each()


class AbortController:
    """Holds one signal and may abort it."""

    __slots__ = ("signal",)

    def __init__(self) -> None:
        self.signal = AbortSignal()
        """The signal to hand to the work."""

    def abort(self, reason: object = None) -> None:
        """Abort the signal; a later call changes nothing.

        Args:
            reason: what `signal.reason` will show; `None` for none.
        """
        self.signal._abort(reason)  # pyright: ignore[reportPrivateUsage] - the two are one mechanism


def _nothing() -> None:
    return None
