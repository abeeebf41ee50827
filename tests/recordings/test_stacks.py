"""Call stacks that were pasted as text, as four tools write them."""

from __future__ import annotations

import pytest

from coremlscope.formats.recordings.stacks import is_frame, read_stacks

_LLDB = """\
* thread #1, queue = 'com.apple.main-thread', stop reason = signal SIGSTOP
  * frame #0: 0x00000001a2b3c4d5 libsystem_kernel.dylib`mach_msg2_trap + 8
    frame #1: 0x00000001b2b3c4d5 AppleNeuralEngine`-[_ANEClient evaluate:error:] + 404
    frame #2: 0x00000001c2b3c4d5 Espresso`Espresso::ANERuntimeEngine::forward() + 100
  thread #4, name = 'worker'
    frame #0: 0x00000001d2b3c4d5 libBNNS.dylib`BNNSFilterApply + 12
"""
_CRASH = """\
Process: app [123]

Thread 0 Crashed::  Dispatch queue: com.apple.main-thread
0   libsystem_kernel.dylib        \t0x18a2b3c4d mach_msg2_trap + 8
1   AppleNeuralEngine             \t0x19a2b3c4d -[_ANEClient evaluate:error:] + 12
2   Espresso                      \t0x10a2b3c4d Espresso::ANERuntimeEngine::forward() + 88

Thread 4 name:  worker
Thread 4:
0   libBNNS.dylib                 \t0x18a2b3c4d BNNSFilterApply + 8

Thread 5:
0   app                           \t0x18a2b3c4d main + 8
"""
_SAMPLE = """\
Call graph:
    230 Thread_1   DispatchQueue_1: com.apple.main-thread
    + 230 start  (in dyld) + 2236  [0x18f0]
    +   220 -[_ANEClient evaluate:error:]  (in AppleNeuralEngine) + 12  [0x10]
    +   ! 200 mach_msg2_trap  (in libsystem_kernel.dylib) + 8  [0x1b]
    +   10 other  (in app) + 8  [0x1]
    50 Thread_4   DispatchQueue_2: worker
    + 50 BNNSFilterApply  (in libBNNS.dylib) + 8  [0x1b]
"""
_INSTRUMENTS = """\
Weight\tSelf Weight\t\tSymbol Name
280.00 ms  100.0%\t0 s\t \tapp (123)
230.00 ms   80.0%\t0 s\t \t Main Thread 0x1
220.00 ms   70.0%\t20.00 ms\t \t  -[_ANEClient evaluate:error:]
200.00 ms   70.0%\t200.00 ms\t \t   mach_msg2_trap
50.00 ms   20.0%\t0 s\t \t Thread 0x4
50.00 ms   20.0%\t50.00 ms\t \t  BNNSFilterApply
"""


@pytest.mark.parametrize(
    ("text", "total", "engine", "cpu", "thread"),
    [
        (_LLDB, 2, 1, 1, "thread 1, com.apple.main-thread"),
        (_CRASH, 3, 1, 1, "thread 0, com.apple.main-thread"),
        (_SAMPLE, 280, 220, 50, "thread 1, com.apple.main-thread"),
        (_INSTRUMENTS, 280, 220, 50, "Main Thread 0x1"),
    ],
    ids=["lldb", "crash", "sample", "instruments"],
)
def test_stacks_tell_the_functions_of_each_unit(
    text: str, total: int, engine: int, cpu: int, thread: str
) -> None:
    stacks = read_stacks(text.splitlines())
    assert stacks.total == total
    assert (stacks.passing("neural_engine"), stacks.passing("cpu")) == (engine, cpu)
    functions = {
        (unit, name): count for (unit, name, _), count in stacks.frames.items() if unit != "Espresso"
    }
    assert functions == {
        ("neural_engine", "-[_ANEClient evaluate:error:]"): engine,
        ("cpu", "BNNSFilterApply"): cpu,
    }
    assert [owner for unit, _, owner in stacks.frames if unit == "neural_engine"] == [thread]


@pytest.mark.parametrize(
    "line", ["", "12 apples  (in a basket", "frame #", "1.0 s of 3", "GPU Power: 250 mW"]
)
def test_other_lines_are_no_frames(line: str) -> None:
    assert not is_frame(line)
    assert read_stacks([line]).total == 0


_VISION = """\
0   libsystem_kernel.dylib  0x18a2b3c4d mach_msg2_trap + 8
1   AppleNeuralEngine  0x19a2b3c4d -[_ANEClient evaluate:error:] + 12
2   Espresso  0x10a2b3c4d Espresso::ANERuntimeEngine::forward() + 88
3   CoreML  0x10a2b3c4d -[MLDelegateModel predictionFromFeatures:options:error:] + 8
4   Vision  0x10a2b3c4d -[VNCoreMLTransformer internalProcess] + 8
5   app  0x10a2b3c4d main + 8

0   vImage  0x10a2b3c4d vImageScale_ARGB8888 + 8
1   Vision  0x10a2b3c4d -[VNImageBuffer croppedBuffer] + 8
2   app  0x10a2b3c4d main + 8
"""


def test_stacks_tell_layers_and_what_converts_images() -> None:
    stacks = read_stacks(_VISION.splitlines())
    assert stacks.total == 2
    passed = {name: stacks.passing(name) for name in ("neural_engine", "Vision", "Core ML", "Espresso")}
    assert passed == {"neural_engine": 1, "Vision": 2, "Core ML": 1, "Espresso": 1}
    assert ("conversion of images", "vImageScale_ARGB8888") in {frame[:2] for frame in stacks.frames}


def test_the_compiler_of_the_neural_engine_is_its_software() -> None:
    stacks = read_stacks(["frame #0: 0x1951b6c6c Espresso`Espresso::ANECompilerEngine::is_valid(x) + 224"])
    assert stacks.passing("neural_engine") == 1
