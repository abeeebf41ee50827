"""Events as spans of OpenTelemetry."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import coremlscope
from coremlscope.base.errors import MissingDependencyError
from coremlscope.dropin.tracing.spans import SpanSender

sdk = pytest.importorskip("opentelemetry.sdk.trace")


def test_events_become_spans_once_with_their_parents_times_and_lines(models: Path) -> None:
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    exporter = InMemorySpanExporter()
    provider = sdk.TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    with (
        coremlscope.record(exporter=provider) as recording,
        coremlscope.open(models / "net.mlpackage") as model,
    ):
        for _ in range(3):
            model.predict({"x": np.ones((1, 4, 16, 16), np.float32)})
    spans = exporter.get_finished_spans()
    trace = recording.trace
    assert len(spans) == len(trace.events)
    predictions = [span for span in spans if span.name == "predict net"]
    assert len(predictions) == 3
    first = predictions[1]  # The first one also prepares the engine.
    assert first.parent is None
    assert first.attributes["code.file.path"] == __file__
    assert first.attributes["coreml.model"] == "net"
    expected = trace.events.of("predict")
    assert first.start_time == trace.epoch_ns + expected.start_ns[1]
    assert first.end_time - first.start_time == expected.duration_ns[1]
    inner = [s for s in spans if s.parent is not None and s.parent.span_id == first.context.span_id]
    assert {span.name for span in inner} == {"convert input net", "run net", "convert output net"}
    # The second time nothing is left.
    sender = SpanSender(lambda: trace, provider)
    sender.send(trace)
    exporter.clear()
    sender.send(trace)
    assert not exporter.get_finished_spans()


def test_without_the_sdk_one_sentence_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "opentelemetry.exporter.otlp.proto.http.trace_exporter", None)
    with pytest.raises(MissingDependencyError, match="OpenTelemetry"):
        coremlscope.record(exporter="otlp")
