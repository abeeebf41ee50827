"""Records facts about Core ML on the Mac that this runs on, for questions that documentation does not answer.

python tools/mac_facts.py FOLDER

Writes text files into the folder: identity of the machine, conditions, what Core ML leaves in its caches,
whether it writes analytics.mil on the CPU alone, whether a plan has costs, how it logs. All commands have a
time limit; those that need root may fail. Models are loaded on the CPU only: others hang on virtual Macs.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

_LIMIT_S = 240.0
_MOST_BYTES = 2_000_000
#: Commands by the name of the file that keeps what they print.
COMMANDS: Mapping[str, Sequence[str]] = {
    "system": ("sw_vers",),
    "processor": ("sysctl", "machdep.cpu.brand_string", "hw.model", "hw.memsize", "hw.physicalcpu"),
    "power-settings": ("pmset", "-g"),
    "power-source": ("pmset", "-g", "ps"),
    "thermal-limits": ("pmset", "-g", "therm"),
    "thermal-level": ("notifyutil", "-g", "com.apple.system.thermalpressurelevel"),
    "graphics": ("system_profiler", "SPDisplaysDataType", "-json"),
    "xcode": ("xcodebuild", "-version"),
    "instruments-templates": ("xcrun", "xctrace", "list", "templates"),
    "instruments": ("xcrun", "xctrace", "list", "instruments"),
    "devices": ("xcrun", "devicectl", "list", "devices"),
    "powermetrics": (
        *("sudo", "-n", "powermetrics", "--samplers", "cpu_power,gpu_power,ane_power,thermal"),
        *("-i", "1000", "-n", "2", "-f", "plist"),
    ),
}
_LOG = (
    *("log", "show", "--last", "10m", "--style", "ndjson", "--info", "--debug", "--predicate"),
    'subsystem IN {"com.apple.coreml", "com.apple.CoreML", "com.apple.espresso", "com.apple.ane"}',
)
#: Loads a compiled model on the CPU, predicts, and asks for devices and for the plan; prints JSON.
_PROBE = """\
import json, sys
import coremltools as ct
from coremltools.models.compute_device import MLComputeDevice
from coremltools.models.compute_plan import MLComputePlan
compiled, = sys.argv[1:]
unit = ct.ComputeUnit.CPU_ONLY
model = ct.models.CompiledMLModel(compiled, unit)
plan = MLComputePlan.load_from_path(compiled, unit)
ops = [op for f in plan.model_structure.program.functions.values() for op in f.block.operations]
usages = [plan.get_compute_device_usage_for_mlprogram_operation(op) for op in ops]
costs = [plan.get_estimated_cost_for_mlprogram_operation(op) for op in ops]
print(json.dumps({
    "coremltools": ct.__version__,
    "load_ns": model._proxy.get_load_duration_in_nano_seconds(),
    "all_devices": [type(d).__name__ for d in MLComputeDevice.get_all_compute_devices()],
    "operations": len(ops),
    "constants": sum(op.operator_name.endswith("const") for op in ops),
    "with_usage": sum(usage is not None for usage in usages),
    "with_cost": sum(cost is not None for cost in costs),
    "preferred": sorted({type(u.preferred_compute_device).__name__ for u in usages if u is not None}),
}, indent=1))
"""


def record(command: Sequence[str], file: Path, environment: Mapping[str, str] | None = None) -> int:
    """Writes what a command prints, and how it ended, to a file.

    Args:
        command: The command.
        file: The file.
        environment: Variables that are added to those of this process.

    Returns:
        The exit status; 127 if the command does not exist, 124 if it took too long.
    """
    output, status = b"", 127
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=_LIMIT_S,
            env={**os.environ, **(environment or {})},
        )
        output, status = done.stdout, done.returncode
    except subprocess.TimeoutExpired as error:
        output, status = error.stdout or b"", 124
    except OSError as error:
        output = str(error).encode()
    heading = f"$ {' '.join(command)[:200]}\nexit status {status}\n\n".encode()
    file.write_bytes(heading + output[:_MOST_BYTES])
    return status


def list_files(folder: Path) -> str:
    """Returns the files below a folder with their sizes."""
    files = (path for path in sorted(folder.rglob("*")) if path.is_file() and not path.is_symlink())
    return "".join(f"{path.stat().st_size:>12} {path.relative_to(folder)}\n" for path in files)


def record_caches(compiled: Path, folder: Path) -> None:
    """Loads one compiled model in three ways, and lists what each leaves in Core ML's caches.

    A copy at another path tells whether the cache is keyed by path or by content, a second load from the same
    path what a warm load adds.
    """
    with tempfile.TemporaryDirectory() as name:
        home, elsewhere = Path(name, "home"), Path(name, "elsewhere", "copy.mlmodelc")
        home.mkdir()
        shutil.copytree(compiled, elsewhere)
        for step, path in (("first", compiled), ("again", compiled), ("copied", elsewhere)):
            command = [sys.executable, "-c", _PROBE, str(path)]
            record(command, folder / f"load-{step}.txt", {"CFFIXED_USER_HOME": str(home)})
            (folder / f"cache-{step}.txt").write_text(list_files(home), encoding="utf-8")
        for number, file in enumerate(sorted(home.rglob("analytics.mil"))):
            shutil.copyfile(file, folder / f"analytics-{number}.mil")


def main(arguments: Sequence[str]) -> int:
    """Records everything; what fails is recorded as such.

    Args:
        arguments: The folder.
    """
    folder = Path(arguments[0])
    folder.mkdir(parents=True, exist_ok=True)
    ended = {name: record(command, folder / f"{name}.txt") for name, command in COMMANDS.items()}
    with tempfile.TemporaryDirectory() as name:
        package, compiled = Path(name, "sample.mlpackage"), Path(name, "sample.mlmodelc")
        make = (
            "import sys; from coremlscope.formats.sample import write_sample; write_sample(sys.argv[1]);"
            " from coremltools.models.utils import compile_model; compile_model(*sys.argv[1:])"
        )
        command = [sys.executable, "-c", make, str(package), str(compiled)]
        ended["compile"] = record(command, folder / "compile.txt")
        if compiled.is_dir():
            record_caches(compiled, folder)
    ended["log"] = record(_LOG, folder / "log.txt")
    (folder / "summary.json").write_text(json.dumps(ended, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
