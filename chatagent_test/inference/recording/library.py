"""A folder of recordings: which of them answers a request, and which nobody has asked for (7.10)."""

from __future__ import annotations

from collections import Counter, defaultdict
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

from chatagent.errors import InvalidArgumentError
from chatagent_test.inference.recording.exchanges import Exchange, request_key
from chatagent_test.inference.recording.scrubbing import Scrubber

if TYPE_CHECKING:
    from chatagent_test.inference.scripted import ScriptedResponse

__all__ = ["Recordings"]


class Recordings:
    """Recorded exchanges, one JSON file each.

    Requests that are equal in method, endpoint and body are answered in the order of the names of their files, and the
    last answer again and again. Methods may be called from any thread.

    Args:
        folder: where the files are; it need not be there before something is saved.
        scrubber: what takes secrets out of what is saved, and of requests before they are compared.

    Raises:
        InvalidArgumentError: a file is no recording; the error names it.
    """

    def __init__(self, folder: str | Path, *, scrubber: Scrubber | None = None) -> None:
        self.folder = Path(folder)
        self.scrubber = scrubber or Scrubber()
        self._lock = Lock()
        self._exchanges: defaultdict[str, list[tuple[str, Exchange]]] = defaultdict(list)
        self._asked: Counter[str] = Counter()
        self._recorded: set[str] = set()
        for path in sorted(self.folder.glob("*.json"), key=lambda path: path.stem):
            exchange = _loaded(path)
            self._exchanges[exchange.key].append((path.name, exchange))

    def __len__(self) -> int:
        return sum(len(each) for each in self._exchanges.values())

    def find(self, endpoint: str, request: Any, *, method: str = "POST") -> Exchange | None:
        """Return the recording that answers a request, and count it as used; `None` if there is none.

        Args:
            endpoint: the path.
            request: the JSON body.
            method: of the request.
        """
        key = request_key(method, endpoint, self.scrubber.json(request))
        with self._lock:
            known = self._exchanges.get(key)
            if not known:
                return None
            _, exchange = known[min(self._asked[key], len(known) - 1)]
            self._asked[key] += 1
            return exchange

    def answer(
        self, endpoint: str, request: Any, *, method: str = "POST", speed: float | None = None
    ) -> ScriptedResponse | None:
        """Return the answer to a request, as `find` finds it.

        Args:
            endpoint: the path.
            request: the JSON body.
            method: of the request.
            speed: how many times faster than it was recorded; `None`: without any wait.
        """
        exchange = self.find(endpoint, request, method=method)
        return None if exchange is None else exchange.response(speed=speed)

    def save(self, exchange: Exchange) -> Path:
        """Keep an exchange in a file of its own, in one step, and answer with it from now on."""
        with self._lock:
            self.folder.mkdir(parents=True, exist_ok=True)
            path = self._free(exchange.name)
            partial = path.with_suffix(".partial")
            partial.write_text(exchange.to_json(), encoding="utf-8")
            partial.replace(path)
            self._exchanges[exchange.key].append((path.name, exchange))
            self._asked[exchange.key] += 1
            self._recorded.add(path.name)
        return path

    @property
    def unused(self) -> list[str]:
        """The names of the files that no request has been answered with, nor been recorded to: stale ones."""
        with self._lock:
            return sorted(
                name
                for key, known in self._exchanges.items()
                for name, _ in known[self._asked[key] :]
                if name not in self._recorded
            )

    def _free(self, name: str) -> Path:
        """Return a path that no file has; a second one of a name is numbered so that it comes behind the first."""
        path, number = self.folder / f"{name}.json", 1
        while path.exists():
            number += 1
            path = self.folder / f"{name}-{number:03}.json"
        return path


def _loaded(path: Path) -> Exchange:
    try:
        return Exchange.from_json(path.read_text(encoding="utf-8"))
    except (InvalidArgumentError, UnicodeDecodeError) as exc:
        raise InvalidArgumentError(argument="folder", value=str(path), problem=f"it is no recording: {exc}") from exc
