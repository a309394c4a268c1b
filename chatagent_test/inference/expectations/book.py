"""The expectations of a server: who may claim one, which duplicates replay one, and what was never asked for."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from chatagent_test.inference.answers import find_response
from chatagent_test.inference.errors import DuplicateExpectationError
from chatagent_test.inference.expectations.calls import Call, Claim, ExpectationPhase, Expected, Fingerprint
from chatagent_test.inference.steps import Steps, Wait

if TYPE_CHECKING:
    from collections.abc import Iterable

    from chatagent_test.inference.answers import Render
    from chatagent_test.inference.expectations.classifying import RequestClassifier
    from chatagent_test.inference.log import LogEntry
    from chatagent_test.inference.scripted import ScriptedResponse
    from chatagent_test.inference.waiting import Board

__all__ = ["ExpectationBook"]


class ExpectationBook:
    """All expectations of one server. Claiming is atomic: one lock, registration order, each call once."""

    def __init__(self, board: Board, classifier: RequestClassifier) -> None:
        self._board = board
        self._classifier = classifier
        self._all: list[Expected] = []
        self._pending: list[Expected] = []
        self._active: dict[Fingerprint, Call] = {}
        self._newest: dict[str, Expected] = {}
        """The last registration of each name."""

    @property
    def registered(self) -> list[Expected]:
        """Every registration, in order."""
        with self._board.lock:
            return list(self._all)

    def register(self, *expected: Expected) -> None:
        """Register expectations, all or none.

        Raises:
            DuplicateExpectationError: the name of one is in use.
        """
        with self._board.lock:
            for each in expected:
                known = self._newest.get(each.name)
                if known is not None and known.is_in_use:
                    raise DuplicateExpectationError(name=each.name)
            self._newest.update({each.name: each for each in expected})
            self._all.extend(expected)
            self._pending.extend(expected)

    def withdraw(self, expected: Expected) -> None:
        """Let nobody claim an expectation any more."""
        with self._board.lock:
            expected.withdrawn = True
            if expected in self._pending:
                self._pending.remove(expected)

    def claim(self, entry: LogEntry) -> Claim | None:
        """Join the active call that a request repeats, or claim the first expectation that it matches."""
        if not self._pending and not self._active:
            return None
        fingerprint = self._fingerprint(entry)
        with self._board.lock:
            call = self._active.get(fingerprint) if fingerprint is not None else None
            if call is None:
                expected = next((each for each in self._pending if each.matcher.matches(entry)), None)
                if expected is None:
                    return None
                call = self._open_call(expected, fingerprint)
            claim = Claim(call, entry, self._board, self._settle)
            self._board.changed()
            return claim

    def release_all(self) -> None:
        """Open every barrier."""
        for expected in self.registered:
            if expected.barrier is not None:
                expected.barrier.open()

    def unsatisfied(self) -> list[Expected]:
        """Return those that were not met, in registration order."""
        return [each for each in self.registered if not each.is_satisfied and not each.withdrawn]

    def explain(self, entries: Iterable[LogEntry]) -> list[str]:
        """Return who is not satisfied, and for each request that no expectation answered, why none did."""
        unsatisfied = self.unsatisfied()
        lines: list[str] = []
        for each in unsatisfied:
            lines += [f"{each.diagnostic} was not satisfied", *(f"  {line}" for line in each.held())]
        strangers = [entry for entry in entries if entry.kind is not None and not _is_expected(entry)]
        for entry in strangers if unsatisfied else ():
            reasons = [
                f"    not `{each.name}`: {reason}"
                for each in unsatisfied
                if entry.index >= each.registered_after and (reason := self._why_not(each, entry)) is not None
            ]
            if reasons:
                lines += [f"  request [{entry.index}] {entry.line} (answered by {entry.answered_by}):", *reasons]
        return lines

    def why_unanswered(self, entry: LogEntry) -> list[str]:
        """Return why no pending expectation was meant for a request."""
        with self._board.lock:
            pending = list(self._pending)
        reasons = ((each, self._why_not(each, entry)) for each in pending)
        return [f"not `{each.name}`: {reason}" for each, reason in reasons if reason is not None]

    def _why_not(self, expected: Expected, entry: LogEntry) -> str | None:
        return expected.matcher.why_not(entry, self._classifier)

    def _open_call(self, expected: Expected, fingerprint: Fingerprint | None) -> Call:
        call = Call(expected, expected.calls, fingerprint)
        expected.calls += 1
        if not expected.is_pending:
            self._pending.remove(expected)
        if expected.phase is ExpectationPhase.PENDING:
            expected.phase = ExpectationPhase.RECEIVED
        if fingerprint is not None:
            self._active[fingerprint] = call
        return call

    def _settle(self, call: Call) -> None:
        if call.fingerprint is not None:
            self._active.pop(call.fingerprint, None)

    def _fingerprint(self, entry: LogEntry) -> Fingerprint | None:
        """Return what tells one logical call from another; headers but for the id are no part of it (2.5)."""
        request_id = self._classifier.request_id(entry)
        if request_id is None:
            return None
        return entry.path, entry.kind, request_id, json.dumps(entry.body, sort_keys=True, separators=(",", ":"))


def response_of(claim: Claim, entry: LogEntry, render: Render) -> Steps[ScriptedResponse]:
    """Find the response to a claim: the first request of a call asks for it, its duplicates get the same."""
    call = claim.call
    if not claim.is_primary:
        while not (yield Wait(call.answered)):
            pass
        if call.response is not None:
            return call.response
    answers = call.expected.answers
    try:
        call.response = yield from find_response(answers[min(call.number, len(answers) - 1)], entry, render)
    finally:
        call.answered.open()
    return call.response


def _is_expected(entry: LogEntry) -> bool:
    return (entry.answered_by or "").startswith(("expectation:", "replay:"))
