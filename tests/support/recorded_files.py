"""Files of recordings and readings of power, built to the published columns and keys: none is a capture."""

from __future__ import annotations

import json
import plistlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

__all__ = [
    "ANE_COLUMNS",
    "CORE_ML_COLUMNS",
    "FILES",
    "contents",
    "document",
    "node",
    "plist",
    "row",
    "write",
]

#: Mnemonic and engineering type of each column, as the notes on public parsers list them.
ANE_COLUMNS = (
    ("start", "start-time"),
    ("duration", "duration"),
    ("channel-name", "ane-event-name"),
    ("event-depth", "metal-nesting-level"),
    ("event-label", "formatted-label"),
    ("state", "gpu-state"),
    ("color", "render-buffer-depth"),
)
CORE_ML_COLUMNS = (
    ("start", "start-time"),
    ("duration", "duration"),
    ("model-name", "coreml-model-name"),
    ("event", "coreml-model-event"),
    ("level", "coreml-model-level"),
)


def row(*cells: str) -> str:
    """A row of cells."""
    return f"<row>{''.join(cells)}</row>\n"


def node(schema: str, columns: Sequence[tuple[str, str]], rows: Sequence[str]) -> str:
    """A table of an export."""
    named = "".join(
        f"<col><mnemonic>{mnemonic}</mnemonic><name>x</name><engineering-type>{type_}</engineering-type></col>"
        for mnemonic, type_ in columns
    )
    return f'<node xpath="x"><schema name="{schema}">{named}</schema>\n{"".join(rows)}</node>'


def document(*nodes: str) -> str:
    """An export."""
    return f'<?xml version="1.0"?>\n<trace-query-result>\n{"".join(nodes)}\n</trace-query-result>\n'


def contents(*tables: str, target: str = '<process type="attached" name="python3" pid="4711"/>') -> str:
    """A table of contents; device name and identifier must not be read."""
    listed = "".join(f'<table schema="{table}"/>' for table in tables)
    return (
        '<?xml version="1.0"?>\n<trace-toc><run number="1"><info><target>'
        '<device platform="macOS" model="MacBook Pro" os-version="27.0 (26A434)" name="SECRET"'
        ' uuid="SECRET"/>'
        f"{target}</target><summary><duration>15.0</duration><instruments-version>27.0</instruments-version>"
        "<template-name>Core ML</template-name></summary></info>"
        f"<data>{listed}</data></run></trace-toc>"
    )


def ane(ms: Sequence[tuple[float, float]], label: str = "Neural Engine Prediction") -> str:
    """Intervals of the Neural Engine: start and duration in milliseconds. Later rows refer to the first."""
    rows = []
    for index, (start, duration) in enumerate(ms):
        times = (
            f'<start-time id="{100 + 2 * index}" fmt="x">{round(start * 1e6)}</start-time>'
            f'<duration id="{101 + 2 * index}" fmt="x">{round(duration * 1e6)}</duration>'
        )
        if index:
            rest = (
                '<ane-event-name ref="3"/><metal-nesting-level ref="4"/><formatted-label ref="5"/>'
                '<gpu-state ref="7"/><render-buffer-depth ref="8"/>'
            )
        else:
            rest = (
                '<ane-event-name id="3" fmt="Apple Neural Engine">Apple Neural Engine</ane-event-name>'
                '<metal-nesting-level id="4" fmt="0">0</metal-nesting-level>'
                f'<formatted-label id="5" fmt="{label}"><string id="6" fmt="{label}">{label}</string>'
                '</formatted-label><gpu-state id="7" fmt="Active">Active</gpu-state>'
                '<render-buffer-depth id="8" fmt="0">0</render-buffer-depth>'
            )
        rows.append(row(times, rest))
    return node("ane-hw-intervals", ANE_COLUMNS, rows)


def core_ml(events: Sequence[tuple[float, float, str, str]]) -> str:
    """Events of Core ML: start and duration in milliseconds, model, event."""
    rows = [
        row(
            f"<start-time>{round(start * 1e6)}</start-time><duration>{round(duration * 1e6)}</duration>",
            f'<coreml-model-name fmt="{model}"/><coreml-model-event fmt="{event}"/>',
            '<coreml-model-level fmt="0">0</coreml-model-level>',
        )
        for start, duration, model, event in events
    ]
    return node("coreml-os-signpost", CORE_ML_COLUMNS, rows)


def plist(**changes: Any) -> bytes:
    """One sample of powermetrics: two seconds."""
    sample: dict[str, Any] = {
        "elapsed_ns": 2_000_000_000,
        "hw_model": "Mac16,10",
        "kern_osversion": "25F71",
        "thermal_pressure": "Nominal",
        "processor": {"cpu_energy": 4000, "ane_energy": 3000, "ane_power": 1500.0},
        "gpu": {"gpu_energy": 500, "freq_hz": 444},
    }
    return plistlib.dumps(sample | changes)


def _text() -> bytes:
    return (
        b"Machine model: Mac16,10\nOS version: 25F71\n\n"
        b"*** Sampled system activity (Fri Sep 12 10:00:00 2026 +0200) (2000.00ms elapsed) ***\n\n"
        b"**** Processor usage ****\n\nCPU Power: 2000 mW\nGPU Power: 250 mW\nANE Power: 1500 mW\n"
        b"Combined Power (CPU + GPU + ANE): 3750 mW\n\n**** Thermal pressure ****\n\n"
        b"Current pressure level: Nominal\n"
    )


def _macmon() -> bytes:
    lines = [
        json.dumps(
            {
                "timestamp": f"2026-09-01T10:00:{2 * index:02}.000000+00:00",
                "cpu_power": 2.0,
                "gpu_power": 0.25,
                "ane_power": 1.5,
                "all_power": 3.75,
                "sys_power": 9.5,
                "ram_power": 0.125,
            }
        )
        for index in range(3)
    ]
    return "\n".join(lines).encode()


def _mactop() -> bytes:
    sample = {
        "timestamp": "2026-09-01T10:00:00Z",
        "soc_metrics": {"CPUPower": 2.0, "GPUPower": 0.25, "ANEPower": 1.5, "TotalPower": 9.5},
        "thermal_state": "Normal",
    }
    return json.dumps([sample, sample | {"timestamp": "2026-09-01T10:00:02Z"}], indent=1).encode()


#: One of each form.
FILES: Mapping[str, Callable[[], bytes]] = {
    "ane.xml": lambda: document(ane([(500, 0.54), (501.23, 0.538)])).encode(),
    "coreml.xml": lambda: document(core_ml([(500, 1, "small-1", "Prediction")])).encode(),
    "toc.xml": lambda: contents("ane-hw-intervals", "coreml-os-signpost").encode(),
    "power.plist": lambda: b"\0".join([plist(), plist(thermal_pressure="Moderate")]) + b"\0",
    "power.txt": _text,
    "stacks.txt": lambda: b"Thread 0:\n0   libBNNS.dylib  0x18a2b3c4d BNNSFilterApply + 8\n",
    "macmon.jsonl": _macmon,
    "mactop.json": _mactop,
}


def write(folder: Path, name: str) -> Path:
    """Writes one of the files."""
    path = folder / name
    path.write_bytes(FILES[name]())
    return path
