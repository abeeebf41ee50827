"""What Core ML says in an error, in the forms in which coremltools passes it on."""

from __future__ import annotations

import subprocess
import sys

import pytest

from coremlscope.base.processes.endings import explain
from coremlscope.measure.coreml.failures import FAILURES, fallback_findings
from coremlscope.measure.coreml.messages import read_message

#: As `NSDictionary` describes itself, with an error below.
_LOAD = """{
    NSLocalizedDescription = "Unable to load model";
    NSUnderlyingError = \
"Error Domain=com.apple.CoreML Code=3 \\"Failed in conv:\\nno \\U201cx\\U201d\\" UserInfo={\
NSUnderlyingError=0x600 {Error Domain=com.apple.espresso Code=-1 \\"(null)\\"}}";
}"""
_ANE = (
    "E5RT encountered an STL exception. msg = MILCompilerForANE error: failed to compile ANE model using"
    " ANEF. Error=_ANECompiler : ANECCompile() FAILED."
)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            _LOAD,
            "Unable to load model: Failed in conv: no “x” (com.apple.CoreML 3): com.apple.espresso -1",
        ),
        ("{\n    NSLocalizedDescription = Failed;\n}", "Failed"),
        (
            '{\n    NSLocalizedDescription = "Failed to build";\n    NSMultipleUnderlyingErrorsKey =     ('
            '\n        "Error Domain=A Code=1 \\"one\\"",\n'
            '        "Error Domain=B Code=2 \\"two\\""\n    );\n}',
            "Failed to build: one (A 1): two (B 2)",
        ),
        ("Unsupported image type CMYK. ", "Unsupported image type CMYK"),
        ('compiler error: Error Domain=A Code=3 "bad" UserInfo={}', "compiler error: bad (A 3)"),
        ("{\n}", "Core ML gave no message"),
        ("", "Core ML gave no message"),
    ],
)
def test_a_message_is_one_line(text: str, message: str) -> None:
    assert read_message(text) == message


def _ended(code: str) -> tuple[str, str]:
    script = f"import os, sys; from coremlscope.measure.coreml.messages import end_with_error\n{code}"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, check=False)
    return explain(done.returncode, done.stderr.decode("utf-8", "replace"), FAILURES)


def test_the_reason_of_a_child_is_told_whatever_else_is_written() -> None:
    noise = "os.write(2, b'\\xff\\x00 }\\n'); "
    end = "import atexit; atexit.register(os.write, 2, b'objc[7]: late\\n')"
    text, _ = _ended(f"{end}\n{noise}end_with_error(RuntimeError({_LOAD!r}))")
    assert text.startswith("Unable to load model: Failed in conv")
    text, hint = _ended(f"os.write(2, {_ANE.encode()!r} + b'\\n'); end_with_error(RuntimeError('Odd'))")
    assert text.startswith("Odd (it had written before: E5RT")
    assert "Neural Engine" in hint
    assert _ended("end_with_error(MemoryError())")[0] == "MemoryError"


def test_no_message_is_without_letters() -> None:
    assert explain(1, "RuntimeError: {\n    NSLocalizedDescription = Odd;\n}\n", FAILURES)[0] != "}"


def test_a_compilation_that_failed_silently_is_a_warning() -> None:
    (finding,) = fallback_findings(f"a\n{_ANE}\nb", "cpu_and_ne")
    assert (finding.id, finding.severity) == ("compilation-fell-back", "warning")
    assert _ANE in finding.text
    assert fallback_findings("coremltools: a warning\n", "all") == ()


def test_the_source_line_of_a_warning_is_no_last_word() -> None:
    said = "/x/model.py:12: RuntimeWarning: no text\n  warnings.warn(message)\n"
    assert explain(-9, f"loading the model\n{said}", FAILURES)[0].endswith("RuntimeWarning: no text")
