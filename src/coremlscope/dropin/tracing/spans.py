"""Sends the events of a recording as spans of OpenTelemetry, through its official SDK.

Spans carry the names of OpenTelemetry's semantic conventions where they exist (`code.file.path`,
`thread.name`, `process.pid`; source: opentelemetry.io/docs/specs/semconv), and `coreml.…` otherwise.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from coremlscope.base.errors import MissingDependencyError, how_to_install
from coremlscope.base.version import __version__
from coremlscope.results.events import EVENT_KINDS, FAILED, NESTED
from coremlscope.results.trace import Trace

__all__ = ["SpanSender", "otlp_provider"]


def otlp_provider() -> Any:
    """Returns a provider that sends spans by OTLP over HTTP; the SDK's own variables configure it.

    `OTEL_EXPORTER_OTLP_ENDPOINT` names the collector and `OTEL_SERVICE_NAME` the service.

    Raises:
        MissingDependencyError: The SDK is not installed.
    """
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError as error:
        raise MissingDependencyError(
            "the SDK of OpenTelemetry is not installed", how_to_install("otlp")
        ) from error
    provider = TracerProvider()
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    return provider


class SpanSender:
    """Sends what a recording contains while it grows, each event once.

    Args:
        read: Returns the recording so far.
        provider: A `TracerProvider` of the SDK.
        interval_s: The time between two reads, in seconds.
    """

    def __init__(self, read: Callable[[], Trace], provider: Any, interval_s: float = 2.0) -> None:
        self._read = read
        self._provider = provider
        self._tracer = provider.get_tracer("coremlscope", __version__)
        self._interval_s = interval_s
        self._sent: dict[tuple[int, int], int] = {}
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="coremlscope spans", daemon=True)

    def start(self) -> None:
        """Begins to send in a thread of its own."""
        self._thread.start()

    def stop(self) -> None:
        """Sends what is left."""
        self._stopped.set()
        self._thread.join()
        self.send(self._read())
        self._provider.force_flush()

    def _run(self) -> None:
        while not self._stopped.wait(self._interval_s):
            self.send(self._read())

    def send(self, trace: Trace) -> None:
        """Sends the events that were not sent before; inner calls wait for the end of the outermost one."""
        from opentelemetry import trace as api
        from opentelemetry.context import Context

        enclosing: dict[tuple[int, int], list[tuple[int, Any]]] = {}
        last: dict[tuple[int, int], int] = {}
        e = trace.events
        for index in range(len(e)):
            lane = (int(e.process[index]), int(e.thread[index]))
            start, end = int(e.start_ns[index]), int(e.end_ns[index])
            stack = enclosing.setdefault(lane, [])
            while stack and stack[-1][0] <= start:
                stack.pop()
            is_waiting = bool(e.flags[index] & NESTED) and not stack
            if is_waiting or start <= self._sent.get(lane, -1):
                continue
            parent = stack[-1][1] if stack else None
            context = api.set_span_in_context(parent) if parent is not None else Context()
            span = self._tracer.start_span(
                self._name(trace, index),
                context,
                attributes=_attributes(trace, index),
                start_time=trace.epoch_ns + start,
            )
            if e.flags[index] & FAILED:
                span.set_status(api.StatusCode.ERROR)
            span.end(trace.epoch_ns + end)
            stack.append((end, span))
            last[lane] = max(last.get(lane, -1), start)
        self._sent.update(last)

    @staticmethod
    def _name(trace: Trace, index: int) -> str:
        kind = EVENT_KINDS[trace.events.kind[index]].name
        model = int(trace.events.model[index])
        return f"{kind} {trace.models[model].name}" if model >= 0 else kind


def _attributes(trace: Trace, index: int) -> dict[str, Any]:
    e = trace.events
    site, model, thread = int(e.site[index]), int(e.model[index]), int(e.thread[index])
    detail, task = int(e.detail[index]), int(e.task[index])
    found: dict[str, Any] = {
        "coreml.lane": EVENT_KINDS[e.kind[index]].lane,
        "process.pid": trace.processes[int(e.process[index])].pid,
    }
    if site >= 0:
        place = trace.sites[site]
        found |= {
            "code.file.path": place.file,
            "code.line.number": place.line,
            "code.function.name": place.function,
        }
    if model >= 0:
        facts = trace.models[model]
        found |= {"coreml.model": facts.name, "coreml.runtime": facts.runtime}
        found |= {"coreml.compute_units": facts.compute_units} if facts.compute_units else {}
    if thread >= 0:
        found["thread.name"] = trace.threads[thread]
    if task >= 0:
        found["coreml.task"] = trace.tasks[task]
    if detail >= 0:
        found["coreml.detail"] = trace.details[detail]
    if e.bytes[index]:
        found["coreml.bytes"] = int(e.bytes[index])
    return found
