"""Which tools there are and how their calls are shown (rule DM-31), and what a contract says of them (rule BT-1)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from chatagent.protocol import RESERVED_KEY, AgentContract, Executor, SuspendContract, ToolContract, ValueContract
from chatagent.ui import UNSET
from chatagent_test.transport.errors import ScriptError, UnknownToolError, nearest

if TYPE_CHECKING:
    from collections.abc import Mapping

    from chatagent.protocol import AgentManifest
    from chatagent_test.transport.scripts import SeedAction

__all__ = ["RegisteredTool", "ToolBook", "ToolLook"]


@dataclass(frozen=True, slots=True)
class RegisteredTool:
    """A tool that no manifest lists.

    Args:
        executor: where it runs.
        tool_id: its stable id; without one its calls are shown as those of a dynamic tool.
    """

    executor: Executor
    tool_id: str | None = None


@dataclass(frozen=True, slots=True)
class ToolLook:
    """How the calls of a tool are shown."""

    name: str
    dynamic: bool = False
    executor: Executor | None = None
    tool_id: str | None = None

    @property
    def metadata(self) -> dict[str, object] | None:
        """What the parts and chunks of a call carry; `None` for a tool that nobody knows."""
        if self.executor is None:
            return None
        told: dict[str, object] = {"executor": self.executor}
        if self.tool_id is not None:
            told["toolId"] = self.tool_id
        return {RESERVED_KEY: told}


class ToolBook:
    """The tools of a mock.

    Args:
        contract: what values are checked by; `None` lets everything go.
        manifest: the manifest that was given, or that of the contract.
        registered: tools beside it; they win.
    """

    def __init__(
        self,
        contract: AgentContract | None,
        manifest: AgentManifest | None,
        registered: Mapping[str, RegisteredTool],
    ) -> None:
        self.contract = contract
        self._looks: dict[str, ToolLook] = {}
        self._is_closed = manifest is not None and (contract is None or contract.tools is not None)
        for tool in () if manifest is None else manifest.tools:
            self._looks[tool.name] = ToolLook(tool.name, tool.tool_id is None, tool.executor, tool.tool_id)
        for name, each in registered.items():
            self._looks[name] = ToolLook(name, each.tool_id is None, each.executor, each.tool_id)

    def look(self, name: str, where: str) -> ToolLook:
        """Return how the calls of a tool are shown.

        Raises:
            UnknownToolError: nobody knows the tool, though contract or manifest say which there are.
        """
        known = self._looks.get(name)
        if known is not None:
            return known
        if self._is_closed:
            raise UnknownToolError(tool_name=name, where=where, known=list(self._looks))
        return ToolLook(name)

    # Values -------------------------------------------------------------------------------------------------------

    def check_input(self, name: str, value: object, where: str) -> None:
        """Refuse an input that the tool would not take."""
        tool = self._contract_of(name)
        if tool is not None:
            self.check(tool.input, value, where, "input")

    def check_output(self, name: str, value: object, where: str) -> None:
        """Refuse an output that the tool would not give."""
        tool = self._contract_of(name)
        if tool is not None and tool.output is not None:
            self.check(tool.output, value, where, "output")

    def check_action(self, name: str, action: SeedAction, where: str) -> None:
        """Refuse a question that the tool does not ask, or one that it asks otherwise."""
        tool = self._contract_of(name)
        if tool is None:
            return
        if action.is_implicit:
            if tool.executor != "client":
                raise ScriptError(
                    f"{where}: tool {name!r} runs on the server, so nobody waits for its output; "
                    f"its questions: {', '.join(tool.suspends) or 'none'}"
                )
            return
        suspend = tool.suspends.get(action.name)
        if suspend is None:
            raise ScriptError(
                f"{where}: tool {name!r} asks no question called {action.name!r}; {nearest(action.name, tool.suspends)}"
            )
        self._check_question(suspend, action, where)

    def check_data(self, name: str, value: object, where: str, *, tool_name: str | None = None) -> None:
        """Refuse data that the agent does not send, or a value that does not fit it.

        Args:
            name: the data's name, without `data-`.
            value: the data.
            where: the builder call, for the message.
            tool_name: the tool beside whose call it is written, if it is.
        """
        contract = self.contract
        channels = None if contract is None else contract.data_parts
        if tool_name is not None:
            tool = self._contract_of(tool_name)
            of_tool = None if tool is None else tool.data
            if of_tool is not None:
                channels = {**(channels or {}), **of_tool}
        if channels is None:
            return
        if name not in channels:
            raise ScriptError(f"{where}: the agent sends no data called {name!r}; {nearest(name, channels)}")
        self.check(channels[name], value, where, "value")

    def check(self, wanted: ValueContract, value: object, where: str, root: str) -> None:
        """Refuse a value that does not fit, naming the builder call, the path and the value.

        Raises:
            ScriptError: it does not fit.
        """
        problem = wanted.problem(value, root)
        if problem is not None:
            raise ScriptError(f"{where}({problem.field}): {problem.text}; it is {problem.value!r:.200}")

    def _check_question(self, suspend: SuspendContract, action: SeedAction, where: str) -> None:
        asked = None if action.input is UNSET else action.input
        self.check(suspend.input, asked, where, "action.input")

    def _contract_of(self, name: str) -> ToolContract | None:
        contract = self.contract
        return None if contract is None or contract.tools is None else contract.tools.get(name)
