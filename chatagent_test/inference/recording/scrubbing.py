"""Secrets out of recordings (7.10): headers by name, and what looks like a key anywhere."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, cast

from chatagent.errors import InvalidArgumentError

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["SCRUBBED", "Scrubber"]

SCRUBBED: Final = "[scrubbed]"

_HEADERS: Final = frozenset(
    {
        "anthropic-organization-id",
        "api-key",
        "authorization",
        "cookie",
        "openai-organization",
        "openai-project",
        "proxy-authorization",
        "set-cookie",
        "x-amz-security-token",
        "x-api-key",
        "x-goog-api-key",
    }
)
_NAMES: Final = (
    r"(?:api[_-]?key|access[_-]?token|auth[_-]?token|authorization(?:_token)?|client[_-]?secret|password|secret)"
)
_MEMBERS: Final = re.compile(_NAMES, re.IGNORECASE)
_LOOKS: Final = (
    rb'(?i:"%s)\\*"\s*:\s*\\*"([^"\\]+)' % _NAMES.encode(),  # in JSON, and in JSON inside of it
    rb"\bsk-(?:ant-|proj-|svcacct-|or-)?[A-Za-z0-9_-]{16,}",
    rb"\b(?:ghp|gho|ghu|ghs|ghr|github_pat|glpat|xox[abprs])[_-][A-Za-z0-9_-]{16,}",
    rb"\bAKIA[0-9A-Z]{16}\b",
    rb"\bAIza[0-9A-Za-z_-]{35}",
    rb"\bBearer [A-Za-z0-9._~+/-]{8,}=*",
    rb"\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{4,}",
)
_SHORTEST_SECRET: Final = 4


@dataclass(frozen=True, slots=True)
class _Pattern:
    expression: re.Pattern[bytes]

    def mask(self, content: bytes) -> bytes:
        """Replace what is found by as many stars, so that lengths and the cuts between chunks stay as they were."""
        return self.expression.sub(self._starred, content)

    def _starred(self, found: re.Match[bytes]) -> bytes:
        start, end = found.span(1) if self.expression.groups and found[1] is not None else found.span()
        first = found.start()
        return found[0][: start - first] + b"*" * (end - start) + found[0][end - first :]


class Scrubber:
    """Takes secrets out of what is recorded.

    Args:
        secrets: texts that must not be kept anywhere, such as the key in use.
        headers: names of more headers whose values are not kept.
        patterns: more regular expressions of what is masked: their first group, if they have one.

    Raises:
        InvalidArgumentError: a secret is so short that everything would be masked.
    """

    def __init__(
        self, secrets: Iterable[str] = (), *, headers: Iterable[str] = (), patterns: Iterable[str] = ()
    ) -> None:
        known = tuple(secrets)
        for secret in known:
            if len(secret) < _SHORTEST_SECRET:
                problem = f"a secret has {_SHORTEST_SECRET} characters or more"
                raise InvalidArgumentError(argument="secrets", value=secret, problem=problem)
        self._headers = _HEADERS | {name.lower() for name in headers}
        exact = [re.escape(secret.encode()) for secret in known]
        self._patterns = [_Pattern(re.compile(each)) for each in (*exact, *_LOOKS, *(p.encode() for p in patterns))]

    def headers(self, headers: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
        """Return headers without their secrets, the names of which stay."""
        return [(name, SCRUBBED if name.lower() in self._headers else self.text(value)) for name, value in headers]

    def text(self, text: str) -> str:
        """Return a text without secrets."""
        return self.content(text.encode("utf-8", "surrogatepass")).decode("utf-8", "surrogatepass")

    def content(self, content: bytes) -> bytes:
        """Return bytes without secrets, of the same length."""
        for pattern in self._patterns:
            content = pattern.mask(content)
        return content

    def json(self, value: Any) -> Any:
        """Return a JSON value without secrets: members that are named like one, and texts that look like one."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, list):
            return [self.json(each) for each in cast("list[object]", value)]
        if isinstance(value, dict):
            members = cast("dict[str, object]", value)
            return {key: self._member(key, each) for key, each in members.items()}
        return value

    def _member(self, key: str, value: object) -> object:
        if isinstance(value, str) and value and _MEMBERS.fullmatch(key):
            return SCRUBBED
        return self.json(value)
