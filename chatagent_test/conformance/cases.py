"""A case of the suite: what it is about, and how it is run (rules CT-1, CT-6, CT-7)."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

import anyio
from anyio import fail_after

from chatagent.errors import WaitTimeoutError
from chatagent.protocol import PROFILES, Profile
from chatagent_test.conformance.backend import Unsupported
from chatagent_test.conformance.errors import CaseFailedError, ConformanceWarning, Mismatch
from chatagent_test.conformance.stage import Stage

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from chatagent.protocol import AgentManifest
    from chatagent_test.conformance.backend import ConformanceBackend

    Body: TypeAlias = Callable[[Stage], Awaitable[None]]

__all__ = ["GUARD", "Case", "case"]

GUARD: Final = 5.0
"""Real seconds that a case may take. It is no measure: whatever a case waits for is an event."""

_WAIT_SHARE: Final = 0.8
"""The share of the guard that a single wait of a client may take, so that it can say what it waits for."""

_PROFILE_OF: Final[dict[str, Profile]] = {
    "core": "core",
    "watch": "watch",
    "heads": "heads",
    "files": "files",
    "commands": "commands",
    "regen": "regeneration",
    "retry": "regeneration",
    "act": "actions",
}


@dataclass(frozen=True, slots=True)
class Case:
    """One rule, or a few, shown on a transport. `cases()` gives them all."""

    case_id: str
    profile: Profile
    """The group of operations that it is about."""
    title: str
    """What it shows, in a sentence."""
    rules: tuple[str, ...]
    """The ids of the rules in the reference."""
    body: Body
    needs: frozenset[Profile] = field(default_factory=frozenset["Profile"])
    """Other profiles that it needs."""
    selected: frozenset[Profile] | None = None
    """The profiles that were asked for; `None` for those that the backend's manifest declares."""

    def __str__(self) -> str:
        return self.case_id

    @property
    def profiles(self) -> frozenset[Profile]:
        """Every profile that it needs."""
        return self.needs.union([self.profile])

    async def run(self, backend: ConformanceBackend, *, within: float = GUARD) -> None:
        """Play the case on a session of its own.

        Args:
            backend: opens the session.
            within: real seconds that it may take.

        Raises:
            CaseFailedError: the transport broke a rule.
            Unsupported: the backend cannot do what the case needs; pytest and unittest take it for a skip.
        """
        async with backend.open() as session:
            manifest = await session.transport.get_manifest()
            self._check_profiles(manifest)
            stage = Stage(session, manifest, _WAIT_SHARE * within)
            try:
                await self._play(stage, within)
            finally:
                await stage.aclose()

    def run_blocking(self, backend: ConformanceBackend, *, event_loop: str = "asyncio", within: float = GUARD) -> None:
        """Play the case on an event loop of its own, for tests that are no coroutines.

        Args:
            backend: opens the session.
            event_loop: `asyncio` or `trio`.
            within: real seconds that it may take.
        """

        async def play() -> None:
            await self.run(backend, within=within)

        anyio.run(play, backend=event_loop)

    def _check_profiles(self, manifest: AgentManifest) -> None:
        if self.selected is None:
            missing = [each for each in PROFILES if each in self.profiles and each not in manifest.profiles]
            if missing:
                raise Unsupported(f"{self.case_id}: the backend's manifest does not declare the profile {missing[0]!r}")
        elif self.case_id == "core-manifest":
            left_out = [each for each in manifest.profiles if each not in self.selected]
            if left_out:
                names = ", ".join(repr(each) for each in left_out)
                warnings.warn(
                    f"the backend's manifest declares profiles whose cases are not run: {names}; "
                    "give them to parametrize(), or give it none to run what the manifest declares",
                    ConformanceWarning,
                    stacklevel=3,
                )

    async def _play(self, stage: Stage, within: float) -> None:
        try:
            with fail_after(within):
                await self.body(stage)
        except Exception as raised:  # noqa: BLE001 - whatever a case runs into is the transport's doing, told in one way
            error = _only(raised)
            if isinstance(error, Unsupported):
                raise error from None
            expected, came = _told(error, stage, within)
            raise CaseFailedError(
                case_id=self.case_id,
                title=self.title,
                rules=self.rules,
                expected=expected,
                came=came,
                events=stage.lines(),
            ) from (None if isinstance(error, Mismatch) else error)


def case(case_id: str, *rules: str, needs: tuple[Profile, ...] = ()) -> Callable[[Body], Case]:
    """Make a case of a function; its docstring is the title.

    Args:
        case_id: the id; its first word says the profile.
        *rules: the rules that it is about.
        needs: other profiles that it needs.
    """

    def make(body: Body) -> Case:
        title = (body.__doc__ or "").strip().removesuffix(".")
        return Case(case_id, _PROFILE_OF[case_id.partition("-")[0]], title, rules, body, frozenset(needs))

    return make


def _only(error: Exception) -> Exception:
    """Return the error inside groups of one; of several, the one that says most."""
    while isinstance(error, ExceptionGroup):
        inside: tuple[Exception, ...] = cast("Any", error).exceptions
        known = [each for each in inside if isinstance(each, Mismatch | Unsupported)]
        error = (known or inside)[0]
    return error


def _told(error: Exception, stage: Stage, within: float) -> tuple[str, str]:
    if isinstance(error, Mismatch):
        return error.expected, error.came
    if type(error) is TimeoutError:
        return stage.waits_for, f"nothing within {within:g} s"
    if isinstance(error, WaitTimeoutError):
        return stage.waits_for, f"nothing in time: {error}"
    return "no error", f"{type(error).__name__}: {error} (the last wait was for {stage.waits_for})"
