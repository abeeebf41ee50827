"""The shape of the code: sizes, names, docstrings, and what an import costs."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import pytest

from tests.support.large_models import converted_program

# Allow-lists of present exceptions, as counts by file. A file may have no more than its count, and an entry
# that nothing needs any more is an error, so that the lists only shrink.

#: Statements that are kept from the formatter.
_UNFORMATTED: Mapping[str, int] = {}

#: Calls that create, replace or rename files outside `writing`. Each writes below a folder that nobody reads
#: yet, a draft or a temporary one, or renames folders of the cache.
_OTHER_WRITERS: Mapping[str, int] = {
    "src/coremlscope/cli/terminal.py": 1,  # the null device
    "src/coremlscope/cli/mcp.py": 1,  # a pipe in the place of standard input
    "src/coremlscope/studies/conversion/convert.py": 1,  # copies into a draft
    "src/coremlscope/dropin/compiled.py": 2,  # copies into a temporary folder
    "src/coremlscope/runtime/engines/onnxruntime.py": 1,  # a link to the null device
    "src/coremlscope/runtime/basic_pass/child.py": 2,  # a link, and zeros, in a temporary folder
    "src/coremlscope/runtime/execution/cache.py": 1,  # an entry that is being removed
    "src/coremlscope/runtime/execution/export.py": 1,  # a name in a draft
    "src/coremlscope/formats/bundles/trees.py": 2,  # copies into a temporary folder
    "src/coremlscope/formats/compiled/writing.py": 4,  # copies into a draft
    "src/coremlscope/base/processes/channel.py": 2,  # a pipe to the parent
    "src/coremlscope/base/processes/limits.py": 1,  # a setting of the kernel
    "src/coremlscope/measure/runner/request.py": 2,  # copies into a draft
    "src/coremlscope/studies/variants/study.py": 4,  # copies into a draft, and into a temporary folder
    "src/coremlscope/studies/variants/coremltools_steps.py": 1,  # moves below a temporary folder
    # A ring is a memory mapping, and its log must survive the process at every moment.
    "src/coremlscope/dropin/tracing/ring.py": 2,
}

_ROOT = Path(__file__).resolve().parents[1]
_PACKAGE = _ROOT / "src" / "coremlscope"
_MODULES = sorted(_PACKAGE.rglob("*.py"))
_TEXTS = [
    path for folder in ("src", "tests", "tools", "benchmarks") for path in (_ROOT / folder).rglob("*.py")
]

#: Names that say nothing about what is inside.
_EMPTY_NAMES = {"utils", "util", "helpers", "helper", "common", "manager", "misc"}

#: What only a verb that needs it may load: slow to import, or absent on some platforms.
_HEAVY = ("coremltools", "google.protobuf", "ml_dtypes", "onnx", "onnxruntime", "PIL", "rich", "torch")

_MAX_COMPLEXITY, _MAX_PARAMETERS = 20, 12


def _name(path: Path) -> str:
    return str(path.relative_to(_ROOT))


#: What adds a path through a function, by itself or with each of its further operands.
_BRANCHES = (
    ast.If,
    ast.IfExp,
    ast.For,
    ast.While,
    ast.ExceptHandler,
    ast.Assert,
    ast.comprehension,
    ast.match_case,
)


def _complexity(function: ast.AST) -> int:
    """McCabe's number of a function with those inside it: the number of independent paths."""
    nodes = list(ast.walk(function))
    operands = sum(len(node.values) - 1 for node in nodes if isinstance(node, ast.BoolOp))
    filters = sum(len(node.ifs) for node in nodes if isinstance(node, ast.comprehension))
    return 1 + sum(isinstance(node, _BRANCHES) for node in nodes) + operands + filters


@pytest.mark.parametrize("path", _MODULES, ids=_name)
def test_functions_are_simple(path: Path) -> None:
    nodes = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    functions = [node for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    found = {one.name: size for one in functions if (size := _complexity(one)) > _MAX_COMPLEXITY}
    assert found == {}
    given = {one.name: len(one.args.args + one.args.kwonlyargs) for one in functions}
    assert max(given.values(), default=0) <= _MAX_PARAMETERS, given


@pytest.mark.parametrize("path", _MODULES, ids=_name)
def test_every_module_has_a_docstring(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    assert ast.get_docstring(tree)


def test_no_module_has_an_empty_name() -> None:
    parts = {part for path in _MODULES for part in path.relative_to(_PACKAGE).with_suffix("").parts}
    assert not parts & _EMPTY_NAMES


def test_importing_the_package_loads_nothing_heavy() -> None:
    script = f"import sys, coremlscope; print([name for name in {_HEAVY!r} if name in sys.modules])"
    finished = subprocess.run(
        [sys.executable, "-W", "error", "-c", script], capture_output=True, text=True, check=False
    )
    assert (finished.stdout, finished.stderr) == ("[]\n", "")


def test_describing_a_program_imports_no_renderer_or_reader_of_others() -> None:
    script = """
import sys
from coremlscope import api
from coremlscope.describe import model
from coremlscope.reports.model import model_document
from coremlscope.reports.terminal.writer import write_terminal
print([name for name in sys.modules if name.startswith((
    "coremlscope.describe.comparison", "coremlscope.formats.aimodel.reader",
    "coremlscope.formats.espresso.network", "coremlscope.formats.neuralnetwork",
    "coremlscope.reports.page", "coremlscope.results.verification"))])
"""
    finished = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (finished.stdout, finished.stderr) == ("[]\n", "")


#: What no short command imports: engines, what measures, and what reads and plans models of other kinds.
_OF_OTHERS = (
    *("asyncio", "email", "google.protobuf.json_format", "hashlib", "importlib.metadata", "ml_dtypes"),
    *("multiprocessing", "onnx", "onnxruntime", "subprocess", "tempfile", "uvicorn"),
    *("zipfile", "coremlscope.api.sources", "coremlscope.describe.swift", "coremlscope.dropin"),
    *("coremlscope.formats.aimodel", "coremlscope.formats.archives", "coremlscope.formats.bundles"),
    *("coremlscope.formats.compiled.folder", "coremlscope.formats.expressions"),
    *("coremlscope.formats.miltext", "coremlscope.formats.neuralnetwork", "coremlscope.formats.onnx.reader"),
    *("coremlscope.formats.zipped_package", "coremlscope.interop"),
    *("coremlscope.measure.coreml", "coremlscope.measure.embedded", "coremlscope.measure.runner"),
    *("coremlscope.ops.classical.trees", "coremlscope.ops.lower", "coremlscope.planning.onnxruntime"),
    *("coremlscope.reports.page", "coremlscope.runtime.basic_pass", "coremlscope.runtime.execution.pipeline"),
    *("coremlscope.server", "coremlscope.studies", "coremlscope.verification"),
)
#: What else a command does not import.
_UNNEEDED: Mapping[str, tuple[str, ...]] = {
    "MODEL": ("coremlscope.describe.comparison",),
    "MODEL MODEL": (),
    "inspect MODEL": ("coremlscope.api.assemble", "coremlscope.planning.cost", "coremlscope.results.profile"),
    "plan MODEL --device m1": ("coremlscope.describe.comparison",),
    "estimate MODEL --device m1": ("coremlscope.describe.comparison",),
    "devices": ("numpy", "google.protobuf", "coremlscope.planning"),
    "ops": ("numpy", "google.protobuf", "tomllib"),
    "rules": ("numpy", "google.protobuf"),
}


@pytest.mark.parametrize("command", _UNNEEDED)
def test_short_commands_import_only_what_they_need(command: str, tmp_path: Path) -> None:
    path = tmp_path / "m.mlmodel"
    path.write_bytes(converted_program(8))
    run = f"""
import contextlib, io
from coremlscope.cli.main import main
with contextlib.redirect_stdout(io.StringIO()):
    assert main({command.replace("MODEL", str(path)).split()!r}) == 0
"""
    assert _imported(run, (*_OF_OTHERS, *_UNNEEDED[command])) == []


@pytest.mark.parametrize(
    ("modules", "unneeded"),
    [
        ("studies.sweep.run", ("importlib.metadata", "pyarrow", "coremlscope.planning.forecast")),
        ("studies.sweep.child", ("coremlscope.measure.coreml",)),
        ("api.sources, coremlscope.measure.embedded.isolated", ("coremlscope.runtime.execution.pipeline",)),
    ],
)
def test_processes_of_long_commands_import_only_what_they_need(
    modules: str, unneeded: tuple[str, ...]
) -> None:
    of_others = ("asyncio", "onnx", "onnxruntime", "coremlscope.interop.listing", "coremlscope.ops.lower")
    unneeded = (*unneeded, *of_others, "coremlscope.planning.onnxruntime", "coremlscope.studies.variants")
    assert _imported(f"import coremlscope.{modules}", unneeded) == []


def _imported(code: str, names: Sequence[str]) -> list[str]:
    """Returns which of these modules and packages a process has imported that runs code."""
    script = f"""
{code}
import sys
imported = {{".".join(name.split(".")[:end]) for name in sys.modules for end in range(1, 6)}}
print(*sorted(imported & {{*{tuple(names)!r}}}))
"""
    finished = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (finished.returncode, finished.stderr) == (0, "")
    return finished.stdout.split()


def _compare(found: Iterable[tuple[Path, int]], allowed: Mapping[str, int]) -> None:
    """Fails where a file has more than its entry allows, and where nothing needs an entry any more."""
    counts = {path.relative_to(_ROOT).as_posix(): count for path, count in found if count}
    assert {path: n for path, n in counts.items() if n > allowed.get(path, 0)} == {}
    assert sorted(allowed.keys() - counts.keys()) == [], "entries of the allow-list that nothing needs"


def test_nothing_is_kept_from_the_formatter() -> None:
    files = [*_MODULES, *sorted((_ROOT / "tests").rglob("*.py"))]
    pattern = re.compile(r"#\s*fmt:\s*(?:skip|off)")
    found = ((path, len(pattern.findall(path.read_text(encoding="utf-8")))) for path in files)
    _compare(found, _UNFORMATTED)


#: The beginning and the end of a call that creates, replaces or renames a file; both must match.
_WRITING = (
    (r"(.*\.)?open", r".*'(?=\w*[wxa+])[rwxabt+]+'.*"),
    (r"os\.open", r".*\bO_(WRONLY|RDWR|CREAT).*"),
    (r"os\.fdopen", r".*'w.*"),
    (r".*\.(write_text|write_bytes|touch|symlink_to|hardlink_to|tofile|to_csv)", r".*"),
    (r"os\.(replace|renames?|link|symlink)", r".*"),
    (r"(?!.*\bbuilder$).*\.(rename|replace)", r"[^,=]+"),  # of text it has two arguments
    (r"(np|numpy)\.save\w*", r"(?!file\b).*"),  # to a path, not to a stream
    (r"shutil\.(copy\w*|move)", r".*"),
)


def _writing_calls(path: Path) -> int:
    """Counts calls that may create, replace or rename a file, and copying functions that are handed on."""
    found = 0
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call):
            name = ast.unparse(node.func)
            if endings := [ending for beginning, ending in _WRITING if re.fullmatch(beginning, name)]:
                given = ", ".join(map(ast.unparse, [*node.args, *node.keywords]))
                found += any(re.fullmatch(ending, given, re.DOTALL) for ending in endings)
            found += any(
                ast.unparse(each) == "shutil.copyfile"
                for each in node.args
                if isinstance(each, ast.Attribute)
            )
    return found


def test_the_search_for_writers_finds_them(tmp_path: Path) -> None:
    writers = (
        *(
            "open(path, 'w')",
            "path.open('xb')",
            "path.open(mode='r+')",
            "os.fdopen(3, 'w')",
        ),
        *("path.write_text('')", "os.replace(a, b)", "a.rename(b)", "a.replace(b)", "shutil.copy2(a, b)"),
        *("compile(a, shutil.copyfile)", "os.open(a, os.O_WRONLY)", "np.save(path, 1)"),
    )
    readers = (
        *("open(path)", "path.open('rb')", "'a'.replace('b', 'c')", "replace(x, a=1)", "np.save(file, x)"),
        *("msgspec.structs.replace(x, y=1)", "os.fdopen(3, 'rb')", "model.save(path)"),
    )
    source = tmp_path / "source.py"
    for text, expected in [*((text, 1) for text in writers), *((text, 0) for text in readers)]:
        source.write_text(text)
        assert _writing_calls(source) == expected, text


def test_files_are_written_by_one_module() -> None:
    modules = [path for path in _MODULES if path != _PACKAGE / "base" / "writing.py"]
    _compare(((path, _writing_calls(path)) for path in modules), _OTHER_WRITERS)
