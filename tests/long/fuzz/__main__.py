"""Coverage-guided fuzzing of readers, lowering and importers, with Atheris.

`python -m tests.long.fuzz mlmodel -max_total_time=60` starts from the files of `tests.support.model_files`.
Anything but an error of this package is a crash, which libFuzzer reports with the input that causes it.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

import atheris

#: What is guided by its coverage; instrumenting the whole package takes a minute.
_GUIDED = ("formats", "importers", "recordings", "classical", "ops", "lower")

with atheris.instrument_imports(include=[f"coremlscope.{name}" for name in _GUIDED]):
    import coremlscope
    from coremlscope.api.imported import import_files
    from coremlscope.base.errors import CoremlscopeError
    from coremlscope.formats import container
    from coremlscope.model import ir
    from coremlscope.runtime.execution.lowering import lower_function

__all__ = ["TARGETS", "main"]


def _use(model: ir.Model) -> None:
    coremlscope.inspect(model)
    if not isinstance(model.content, ir.Pipeline):
        lower_function(model)


def _read_file(name: str) -> Callable[[bytes], None]:
    """Reads a model from a file of this name, and lowers it."""

    def use(data: bytes) -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, name)
            path.write_bytes(data)
            _use(container.read(path))

    return use


def _import_file(name: str) -> Callable[[bytes], None]:
    def use(data: bytes) -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, name)
            path.write_bytes(data)
            import_files([path])

    return use


#: By name of the target: what it does with the data, and the seeds whose first file it starts from.
TARGETS: Mapping[str, tuple[Callable[[bytes], None], tuple[str, ...]]] = {
    "mlmodel": (lambda data: _use(container.read(data)), ("mlmodel", "mlmodel of blocks", "neural network")),
    "classical": (
        lambda data: _use(container.read(data)),
        ("treeEnsembleClassifier", "supportVectorClassifier", "imputer", "oneHotEncoder", "glmClassifier"),
    ),
    "zip": (_read_file("m.zip"), ("zip, stored", "zip, deflated", "zip, lzma")),
    "mil": (_read_file("model.mil"), ("mlmodelc",)),
    "espresso": (_read_file("model.espresso.net"), ("espresso",)),
    "executorch": (_read_file("m.pte"), ("two_delegates.pte", "shared_functions.pte")),
    "json": (_import_file("report.json"), ("import report.json", "import dump.json", "import results.json")),
    "analytics": (_import_file("small.analytics.mil"), ("import small.analytics.mil",)),
    "xml": (_import_file("coreml.xml"), ("import coreml.xml", "import ane.xml")),
    "power": (_import_file("power.txt"), ("import power.txt", "import macmon.jsonl")),
}


def main() -> None:
    """Runs a target until libFuzzer's limits; its options follow the name of the target."""
    from tests.support.model_files import all_seeds  # after what it imports is instrumented

    name = sys.argv[1] if len(sys.argv) > 1 else ""
    if name not in TARGETS:
        raise SystemExit(f"name one of {', '.join(TARGETS)}")
    use, seeds = TARGETS[name]

    def once(data: bytes) -> None:
        try:
            use(data)
        except CoremlscopeError:
            return

    with tempfile.TemporaryDirectory() as corpus:
        files = all_seeds()
        for index, content in enumerate(data for seed in seeds for data in files[seed].values()):
            Path(corpus, str(index)).write_bytes(content)
        atheris.Setup([sys.argv[0], corpus, "-rss_limit_mb=4096", "-timeout=30", *sys.argv[2:]], once)
        atheris.Fuzz()


if __name__ == "__main__":
    main()
