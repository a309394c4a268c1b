"""What went wrong in a run, and whether the test has heard of it: no failure may pass unseen.

A failure is what ended the run, what failed a turn, a misuse of the test kit that a turn's stream has swallowed (a
script that ran out), or a request that the network guard refused, whatever became of the error. The test has heard of
it if a driver raised it, returned its turn, or the turn's `error` was read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from chatagent.errors import HarnessError

if TYPE_CHECKING:
    from chatagent_test.harness.driven_run import DrivenRun
    from chatagent_test.harness.run_network import RunNetwork
    from chatagent_test.harness.watch import RunWatch, SeenTurn

__all__ = ["Failures"]


class Failures:
    """The failures of one harness.

    Args:
        run: the run that may fail.
        watch: what sees its turns.
        network: what its runs may ask the network for.
    """

    __slots__ = ("_network", "_run", "_run_error_told", "_watch")

    def __init__(self, run: DrivenRun, watch: RunWatch, network: RunNetwork) -> None:
        self._run, self._watch, self._network = run, watch, network
        self._run_error_told = False

    def follow(self, run: DrivenRun) -> None:
        """Look at another run from now on."""
        self._run, self._run_error_told = run, False

    def take_run_error(self) -> None:
        """Take it that the test has heard of what ended the run."""
        self._run_error_told = True

    @property
    def untold_of_turns(self) -> bool:
        """Whether a turn has failed and the test has not heard of it."""
        return any(_error_of(turn) is not None and not turn.told for turn in self._watch.turns)

    def raise_run_error(self) -> None:
        """Raise what ended the run, if it failed and nobody has raised it."""
        error = self._run.error
        self._raise_refusal(of=error)
        if error is not None and not self._run_error_told:
            self._run_error_told = True
            raise error

    def tell(self, turn: SeenTurn) -> None:
        """Take it that a driver returns this turn; raises instead if the test kit was misused or a request refused."""
        turn.told = turn.settled_at is not None or _error_of(turn) is not None
        self._raise_refusal()
        misuse = _misuse_in(turn)
        if misuse is not None:
            raise misuse

    def _raise_refusal(self, *, of: BaseException | None = None) -> None:
        """Raise a refusal that the test has not heard of; an error of the run counts as what became of it."""
        refusal = self._network.take_untold()
        if refusal is not None:
            self._run_error_told = self._run_error_told or of is not None
            raise refusal

    def raise_untold(self) -> None:
        """Raise the first failure that the test has not heard of, if there is one."""
        self.raise_run_error()
        for turn in self._watch.turns:
            error = _error_of(turn)
            if error is not None and not turn.told:
                turn.told = True
                raise error


def _error_of(turn: SeenTurn) -> BaseException | None:
    return None if turn.report is None else turn.report.error or _misuse_in(turn)


def _misuse_in(turn: SeenTurn) -> HarnessError | None:
    error = None if turn.report is None else turn.report.stream_error
    return error if isinstance(error, HarnessError) else None
