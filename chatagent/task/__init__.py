"""The run that a piece of code works in: its context, locals, metadata and streams."""

from chatagent.task.context import (
    AttemptInfo,
    EnvironmentInfo,
    MachineInfo,
    OrganizationInfo,
    ProjectInfo,
    QueueInfo,
    RunContext,
    RunInfo,
    TaskInfo,
    WorkerInfo,
    make_run_context,
    make_worker_info,
)
from chatagent.task.errors import StreamInputTimeoutError
from chatagent.task.input_streams import InputResult, InputStream, InputStreams
from chatagent.task.locals import LocalKey, Locals, LocalValues, locals
from chatagent.task.metadata import Metadata, RunMetadata, metadata
from chatagent.task.output_streams import OutputStream, OutputStreams, PipedOutput
from chatagent.task.run import TaskRun
from chatagent.task.surroundings import (
    Streams,
    TaskSurroundings,
    current_context,
    current_worker,
    is_warm_start,
    streams,
)

__all__ = [
    "AttemptInfo",
    "EnvironmentInfo",
    "InputResult",
    "InputStream",
    "InputStreams",
    "LocalKey",
    "LocalValues",
    "Locals",
    "MachineInfo",
    "Metadata",
    "OrganizationInfo",
    "OutputStream",
    "OutputStreams",
    "PipedOutput",
    "ProjectInfo",
    "QueueInfo",
    "RunContext",
    "RunInfo",
    "RunMetadata",
    "StreamInputTimeoutError",
    "Streams",
    "TaskInfo",
    "TaskRun",
    "TaskSurroundings",
    "WorkerInfo",
    "current_context",
    "current_worker",
    "is_warm_start",
    "locals",
    "make_run_context",
    "make_worker_info",
    "metadata",
    "streams",
]
