"""Messages of a process that has ended: they arrive, however late they are read."""

from __future__ import annotations

import sys
import time

import pytest

from coremlscope.base.processes import child
from coremlscope.base.processes.child import Child, ChildLimits, Task, run_child
from coremlscope.base.processes.endings import Failures

_TASK = Task(name="the child", hint="", failures=Failures("it"))
_SENDS = "import os; os.write(1, b'{\"value\": 1}\\n')"
#: Also starts a process that inherits the pipe and does not end.
_LEAVES = (
    "import subprocess, sys; "
    f"subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(20)']); {_SENDS}"
)


@pytest.mark.parametrize("waits", [False, True], ids=["before it reads", "after it read"])
def test_a_late_reader_loses_no_message(waits: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child, "_GRACE_S", 0.05)
    read, put = Child._read, child.queue.SimpleQueue.put
    if waits:

        class Late(child.queue.SimpleQueue):
            def put(self, item: bytes | None) -> None:
                time.sleep(1.0)
                put(self, item)

        monkeypatch.setattr(child.queue, "SimpleQueue", Late)
    else:
        monkeypatch.setattr(Child, "_read", lambda self: (time.sleep(1.0), read(self)))
    with run_child((sys.executable, "-c", _SENDS), ChildLimits(), _TASK) as messages:
        assert list(messages) == [{"value": 1}]


def test_a_process_that_holds_the_pipe_is_not_waited_for() -> None:
    with run_child((sys.executable, "-c", _LEAVES), ChildLimits(silence_s=50), _TASK) as messages:
        assert list(messages) == [{"value": 1}]
