from __future__ import annotations

import errno
import os
import sys
import threading
from collections import deque
from pathlib import Path
from typing import Any

import pytest

from coremlscope.base.errors import CoremlscopeError, EngineError, LimitError, UnsupportedModelError
from coremlscope.base.processes.child import Child, ChildLimits, Task
from coremlscope.base.processes.endings import Failures
from coremlscope.planning.rewrites.transforms import parse_transform
from coremlscope.results.variants import Variant
from coremlscope.studies.variants.evaluation import Question
from coremlscope.studies.variants.pool import VariantPool, _taken, worker_count
from coremlscope.studies.variants.worker import VariantJob

#: A child that answers by the name of the transform.
_SCRIPT = """
import os, pickle, sys, time
from coremlscope.base.processes.channel import open_channel, send
open_channel()
for line in sys.stdin:
    name = pickle.load(open(line.strip(), "rb")).transform.name
    if name == "int8":
        send(variant={"name": name, "title": name, "size_bytes": os.getpid()})
    elif name == "int4":
        send(error="UnsupportedModelError", message="coremltools cannot", hint="")
    elif name == "static":
        os.abort()
    else:
        time.sleep(60)
"""
CHILD = (sys.executable, "-c", _SCRIPT)


def made(*names: str, workers: int = 1, limits: ChildLimits | None = None) -> dict[int, Any]:
    question = Question(samples=Path(), sample_count=0, synthetic=0, outputs=Path())
    jobs = [
        VariantJob(model=Path("m"), is_network=False, transform=parse_transform(name), question=question)
        for name in names
    ]
    found: dict[int, Variant | CoremlscopeError] = {}
    VariantPool(workers, limits, CHILD).make(jobs, found.__setitem__)
    return found


def test_failures_do_not_stop_the_others() -> None:
    found = made("int8", "int4", "int8", "static", "int8")
    assert isinstance(found[1], UnsupportedModelError)
    assert isinstance(found[3], EngineError)
    assert "the variant failed" in found[3].message
    assert found[0].size_bytes == found[2].size_bytes, "one process makes several variants"
    assert found[2].size_bytes != found[4].size_bytes, "the process that aborted was replaced"


def test_one_process_imports_coremltools_while_others_make_the_rest() -> None:
    question = Question(samples=Path(), sample_count=0, synthetic=0, outputs=Path())
    int8 = parse_transform("int8")
    jobs = [
        VariantJob(
            model=Path("m"), is_network=False, transform=int8, needs_coremltools=one, question=question
        )
        for one in (False, True, False, True, True, False)
    ]
    found: dict[int, Any] = {}
    VariantPool(3, None, CHILD).make(jobs, found.__setitem__)
    assert sorted(found) == list(range(6))
    assert {one.name for one in found.values()} == {"int8"}
    own, others = deque("ab"), deque("c")
    assert list(_taken(own, others, 2)) == ["a", "b"]
    assert list(_taken(others, own)) == ["c"]


def test_a_variant_that_takes_too_long_is_given_up() -> None:
    found = made("enumerated", limits=ChildLimits(time_s=0.01))
    assert isinstance(found[0], LimitError)


def test_ctrl_c_ends_all_processes() -> None:
    question = Question(samples=Path(), sample_count=0, synthetic=0, outputs=Path())
    jobs = [
        VariantJob(model=Path("m"), is_network=False, transform=parse_transform(name), question=question)
        for name in ("int8", "enumerated", "enumerated")
    ]
    pool = VariantPool(2, None, CHILD)

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        pool.make(jobs, interrupt)
    assert not pool._children


def test_the_number_of_processes_fits_the_memory() -> None:
    assert worker_count(1 << 30, 8 << 30) == 1
    assert worker_count(1 << 30, 8 << 30, 5) == 5
    assert worker_count(0, 1 << 45) >= 1


def test_threads_may_end_the_same_child_at_once() -> None:
    failures: list[BaseException] = []

    def close(child: Child, barrier: threading.Barrier) -> None:
        barrier.wait()
        try:
            child.close()
        except BaseException as error:
            failures.append(error)

    for _ in range(20):
        child = Child(("/bin/sh", "-c", "echo last words >&2; cat"), is_attached=True)
        barrier = threading.Barrier(3)
        threads = [threading.Thread(target=close, args=(child, barrier)) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert not failures


def test_a_process_that_left_another_one_behind_has_ended() -> None:
    child = Child(("/bin/sh", "-c", "echo '{\"found\": 1}'; sleep 60 & exit 0"))
    try:
        assert list(child.messages(ChildLimits(silence_s=30), Task("it", "", Failures("it")))) == [
            {"found": 1}
        ]
    finally:
        child.close()


def test_a_full_temporary_folder_fails_each_job(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("tempfile.mkdtemp", full)
    found = made("int8", "int8", "int8", workers=2)
    assert [type(found[index]) for index in range(3)] == [EngineError] * 3
