"""What the parts of a service share: its setting, and the way to its threads.

A service is one object in several files, by what it is asked for: `generations.py`, `commands_and_files.py`, and
`service.py`, which opens and closes it and knows the threads as such.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pydantic_core import to_jsonable_python

from chatagent.protocol import ThreadNotFoundError, check_thread_id

if TYPE_CHECKING:
    from collections.abc import Mapping

    from chatagent.protocol import AgentContract, Repeats
    from chatagent.service.loaded import LoadedThreads
    from chatagent.service.setting import ServiceSetting
    from chatagent.service.thread import ServiceThread

__all__ = ["ServiceState", "as_json"]


class ServiceState:
    """The state of a service; `AgentService` fills it."""

    contract: AgentContract
    _setting: ServiceSetting
    _threads: LoadedThreads
    _repeats: Repeats
    """The answers of commands."""
    _first_metadata: Mapping[str, object]
    """What the metadata of each run begins with."""

    def thread(self, thread_id: str) -> ServiceThread:
        """Return a thread, whether it exists for clients or not."""
        return self._threads.get(thread_id)

    def existing(self, thread_id: str) -> ServiceThread:
        """Return a thread that exists.

        Raises:
            ThreadIdError: no thread can have this id.
            ThreadNotFoundError: it does not exist.
        """
        check_thread_id(thread_id)
        thread = self.thread(thread_id)
        if not thread.backend.model.exists:
            raise ThreadNotFoundError(thread_id=thread_id)
        return thread


def as_json(value: object) -> Any:
    """Return what JSON makes of a value."""
    return to_jsonable_python(value, by_alias=True)
