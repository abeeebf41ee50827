"""Printed programs are read again as the same programs."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import Phase, given, settings

from coremlscope.formats import container
from coremlscope.formats.miltext import parse_program, print_program
from coremlscope.model import ir
from tests.support.mil_programs import blob_opener, comparable, programs

_TEXTS = sorted(Path(__file__).parents[4].glob("shared/corpus/models/*/*.mlmodelc/**/model.mil"))
_PACKAGES = sorted(Path(__file__).parents[4].glob("shared/corpus/models/*/*.mlpackage"))


@settings(max_examples=80, phases=[Phase.generate])
@given(programs())
def test_generated_programs(program: ir.Program) -> None:
    text = print_program(program)
    read = parse_program(text, blob_opener())
    assert comparable(read) == comparable(program)
    assert print_program(read) == text


@pytest.mark.corpus
@pytest.mark.parametrize("path", _TEXTS, ids=lambda path: path.parent.name)
def test_texts_of_compiled_models(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    program = parse_program(text, blob_opener())
    printed = print_program(program)
    assert printed.splitlines() == text.splitlines()
    assert comparable(parse_program(printed, blob_opener())) == comparable(program)


@pytest.mark.corpus
@pytest.mark.parametrize("path", _PACKAGES, ids=lambda path: path.name)
def test_programs_of_packages(path: Path) -> None:
    program = container.read(path).content
    if not isinstance(program, ir.Program) or program.is_network:
        pytest.skip("not an ML Program")
    assert comparable(parse_program(print_program(program), blob_opener())) == comparable(program)
