"""Splits a message into its layers: who reports it, and the reason that each passes on.

``Error compiling model: "Error reading protobuf spec. validator error: X"`` has three layers around X.
"""

from __future__ import annotations

import re

#: The beginnings of messages that pass another one on, as Core ML, its compilers, Foundation, Swift, Python
#: and ONNX Runtime write them. What follows, up to the next of them, is the reason.
_LAYERS = re.compile(
    r"""^\d{4}-\d\d-\d\d\ [\d:.+-]{8,32}\ (?:\w{1,2}\ {1,4})?[\w.()-]{1,60}\[\d{1,8}(?::\w{1,16})?\]
    |(?<!\w)\[(?:coreml|espresso|client|com\.apple\.[\w:.]{1,60})\]
    |Error\ Domain=[\w.]{1,80}\ Code=-?\d{1,12}\ ?
    |NSLocalizedDescription\ ?=
    |NSLocalizedFailureReason\ ?=
    |NSUnderlyingError\ ?=\ ?(?:0x[0-9a-f]{1,16})?
    |UserInfo\ ?=\ ?\{
    |Underlying\ exception\ message\ was:
    |\bcoremlc(?:ompiler)?:\ (?:warning|error):
    |Error\ compiling\ model:
    |compiler\ error:
    |Error\ reading\ protobuf\ spec\.
    |validator\ error:
    |Failed\ to\ parse\ the\ model\ specification\.(?:\ Error:)?
    |Unable\ to\ parse\ ML\ Program:(?:\ at\ unknown\ location:)?
    |Error\ parsing\ MIL\ model:
    |\bat\ [^\s:]{1,400}:\d{1,9}:\d{1,9}:
    |\[?Espresso::handle_ex\w{0,20}\]?\ exception=
    |Espresso\ exception:\ (?:"[^"]{1,60}":)?
    |Failure\ translating\ MIL->EIR\ network:
    |MIL->EIR\ translation\ error\ at\ [^\s:]{1,400}(?::\d{1,9}){0,2}:
    |E5RT\ encountered\ an\ STL\ exception\.\ msg\ =
    |\bE5RT:(?!:)
    |MILCompile\w{0,10}ANE\ error:
    |ANECF\ error:
    |\bError=(?:_ANECompiler\ :)?
    |_ANECompiler\ :
    |Non-zero\ status\ code\ returned\ while\ running\ [^\n']{1,200}Name:\s?'[^']{1,400}'\ Status\ Message:
    |Status\ Message:
    |Error\ (?:executing|creating)\ (?:ml)?model:?
    |\[[VIWEF]:onnxruntime:[^\]]{0,200}\]
    |\[ONNXRuntimeError\]\ :\ \d{1,4}\ :\ \w{1,40}\ :
    |load\ failed\ with\ error
    |unexpectedly\ raised\ an\ error:
    |terminating\ (?:with|due\ to)\ uncaught\ exception\ of\ type\ [\w:]{1,80}:
    |\buncaught\ exception\ '\w{1,80}',\ reason:
    |Failed\ to\ read\ model\ package\ at\ \S{1,400}\ Error:
    |\b(?:Runtime|Value|Type|Key)?(?:Error|Exception|Warning):(?=\s)
    """,
    re.VERBOSE | re.IGNORECASE,
)
#: What surrounds a reason: quotation marks, brackets and separators of dictionaries.
_AROUND = " \t\\\"'{}();,>“”"
#: Other layers speak of the same error; the domain of the error below says more.
_BELOW = re.compile(r"NSUnderlyingError.{0,60}?Error Domain=", re.IGNORECASE | re.DOTALL)


def find_reason(text: str) -> str:
    """The innermost reason of a message: all of it if nothing surrounds it, "" if it names none."""
    below = [match.start() for match in _BELOW.finditer(text)]
    if below and (reasons := _reasons(text, below[-1])):
        return reasons[0]
    reasons = _reasons(text)
    return reasons[-1] if reasons else ""


def _reasons(text: str, start: int = 0) -> list[str]:
    matches = list(_LAYERS.finditer(text, start))
    if not matches:
        return [text.strip()]
    ends = [match.start() for match in matches[1:]] + [len(text)]
    found = (_bare(text[match.end() : end]) for match, end in zip(matches, ends, strict=True))
    return [reason for reason in found if reason not in ("", "null", ".")]


def _bare(reason: str) -> str:
    """A reason without the quotation marks, the brackets and the full stop of the sentence around it."""
    bare = re.sub(r"[\"”]\.$", "", reason.strip(_AROUND)).rstrip(_AROUND)
    return bare + ")" if bare.count("(") == bare.count(")") + 1 else bare
