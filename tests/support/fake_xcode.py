"""Stands in for `xcodebuild` and `xcrun devicectl`, with one phone, and for the app on it.

`install(folder, **scenario)` writes the commands into a folder for PATH. What goes wrong is in the scenario:

    version     what `xcodebuild -version` fails with
    xcode       the version of Xcode
    build       what the build fails with
    state       the state of the phone's connection; `disconnected` becomes `connected` when it is woken
    wakes       false: it does not
    launch      what a start of the app fails with
    is_silent   true: nothing that the app prints arrives
    crashes     settings in whose predictions the app crashes, each once
    hangs       settings in whose load the app says nothing more, each once
    truncated   how many copies of the results are cut short
    copy        what copying fails with
    identifier  the identifier of the phone's model
"""

from __future__ import annotations

import json
import shutil
import stat
import sys
import time
from pathlib import Path
from typing import Any

__all__ = ["PHONE", "calls", "install"]

PHONE = "11111111-2222"
_MARK = "coremlscope-runner "


def install(folder: Path, **scenario: Any) -> Path:
    """Writes the commands and the scenario; returns the folder for PATH."""
    commands = folder / "bin"
    commands.mkdir(parents=True)
    (folder / "scenario.json").write_text(json.dumps(scenario), encoding="utf-8")
    for name in ("xcodebuild", "xcrun"):
        command = commands / name
        command.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{__file__}" "{folder}" {name} "$@"\n')
        command.chmod(command.stat().st_mode | stat.S_IXUSR)
    return commands


def calls(folder: Path) -> list[str]:
    """How the commands were called, without the names of files."""
    return (folder / "calls").read_text(encoding="utf-8").splitlines()


class Phone:
    """The commands, and what they change."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.scenario: dict[str, Any] = json.loads((folder / "scenario.json").read_text(encoding="utf-8"))

    def run(self, name: str, arguments: list[str]) -> int:
        known = [argument for argument in arguments if not argument.startswith("/")]
        with (self.folder / "calls").open("a", encoding="utf-8") as log:
            log.write(f"{name} {' '.join(known)}\n")
        if name == "xcodebuild":
            return self.version() if "-version" in arguments else self.build(arguments)
        verb = " ".join(arguments[1:4])
        if verb.startswith("list devices"):
            return self.tell(arguments, {"devices": [self.device()]})
        if verb == "device info details":
            if self.scenario.get("wakes", True):
                (self.folder / "awake").touch()
            return self.tell(arguments, {})
        if verb == "device install app":
            app = next(Path(argument) for argument in arguments if argument.endswith(".app"))
            shutil.copytree(app, self.folder / "installed", dirs_exist_ok=True)
            return self.tell(arguments, {"installedApplications": []})
        if verb == "device process launch":
            return self.launch(arguments)
        if verb == "device copy from":
            return self.copy(arguments)
        raise AssertionError(arguments)

    def version(self) -> int:
        if "version" in self.scenario:
            print(self.scenario["version"], file=sys.stderr)
            return 1
        print(f"Xcode {self.scenario.get('xcode', '16.2')}\nBuild version 16C5032a")
        return 0

    def build(self, arguments: list[str]) -> int:
        if "build" in self.scenario:
            print(f"note: building\n/x/App.swift:3:5: error: {self.scenario['build']}\n** BUILD FAILED **")
            return 65
        project = Path(arguments[arguments.index("-project") + 1])
        products = Path(arguments[arguments.index("-derivedDataPath") + 1])
        app = products / "Build" / "Products" / "Release-iphoneos" / "CoreMLScopeRunner.app"
        shutil.copytree(project.parent / "Payload", app / "Payload")
        return 0

    def device(self) -> dict[str, Any]:
        state = self.scenario.get("state", "connected")
        if state == "disconnected" and (self.folder / "awake").exists():
            state = "connected"
        return {
            "identifier": PHONE,
            "hardwareProperties": {
                "udid": "00008130-1",
                "deviceType": "iPhone",
                "platform": "iOS",
                "marketingName": "iPhone 15 Pro",
                "reality": "physical",
            },
            "deviceProperties": {
                "name": "Ann’s iPhone",
                "osVersionNumber": "18.2",
                "developerModeStatus": "enabled",
            },
            "connectionProperties": {"tunnelState": state},
        }

    def tell(self, arguments: list[str], result: dict[str, Any], error: str = "") -> int:
        answer: dict[str, Any] = {"info": {"outcome": "failed" if error else "success"}, "result": result}
        if error:
            described = {"NSLocalizedDescription": {"string": error}}
            answer["error"] = {"code": 1, "domain": "com.apple.dt.CoreDeviceError", "userInfo": described}
        Path(arguments[arguments.index("--json-output") + 1]).write_text(json.dumps(answer), encoding="utf-8")
        return 1 if error else 0

    def copy(self, arguments: list[str]) -> int:
        if "copy" in self.scenario:
            return self.tell(arguments, {}, self.scenario["copy"])
        target = Path(arguments[arguments.index("--destination") + 1])
        results = self.folder / "results.json"
        if results.exists():
            content = results.read_bytes()
            copies = self.count("copies")
            target.write_bytes(
                content[: len(content) // 2] if copies <= self.scenario.get("truncated", 0) else content
            )
        return self.tell(arguments, {})

    def count(self, what: str) -> int:
        """How often something was done, this time included."""
        file = self.folder / what
        done = int(file.read_text()) + 1 if file.exists() else 1
        file.write_text(str(done))
        return done

    def launch(self, arguments: list[str]) -> int:
        assert arguments[-2:] == ["--", "--exit"], "else devicectl takes it for its own option"
        if "launch" in self.scenario:
            print(f"ERROR: {self.scenario['launch']}", file=sys.stderr)
            return 1
        print("Launched application with bundle identifier.", flush=True)
        return App(self).run()


class App:
    """The runner on the phone, with the order of its steps and its messages."""

    def __init__(self, phone: Phone) -> None:
        self.phone = phone
        payload = phone.folder / "installed" / "Payload"
        self.request = json.loads((payload / "request.json").read_text(encoding="utf-8"))
        self.file = phone.folder / "results.json"
        old = json.loads(self.file.read_text(encoding="utf-8")) if self.file.exists() else {}
        if old.get("id") != self.request["id"]:
            device = {"identifier": phone.scenario.get("identifier", "iPhone16,1")}
            device |= {"system": "iOS", "system_version": "18.2"}
            old = {"schema": "coremlscope.runner/1", "id": self.request["id"], "device": device}
            old |= {"launches": 0, "complete": False, "compilations": [], "results": []}
        self.record: dict[str, Any] = {**old, "launches": old["launches"] + 1}
        for result in self.record["results"]:
            if result["status"] == "running":
                failure = {"step": result["step"], "text": "the app ended during this step"}
                result |= {"status": "crashed", "failures": [failure]}

    def run(self) -> int:
        for mode in self.request["power_modes"] or ["normal"]:
            for model in self.request["models"]:
                for units in self.request["compute_units"]:
                    code = self.measure(model["name"], units, mode)
                    if code is not None:
                        return code
        self.record["complete"] = True
        self.save()
        self.say(kind="finished", text="finished")
        return 0

    def measure(self, model: str, units: str, mode: str) -> int | None:
        key = {"model": model, "function": "", "compute_units": units, "power_mode": mode}
        if any(key.items() <= result.items() for result in self.record["results"]):
            return None
        result: dict[str, Any] = {**key, "status": "running", "step": "load", "load_s": [0.05, 0.04]}
        self.record["results"].append(result)
        self.save()
        self.say(kind="progress", text=f"{model}, {units}", status="running", **key)
        if units in self.phone.scenario.get("hangs", ()):
            time.sleep(60)
        result["step"] = "predict"
        self.save()
        if units in self.phone.scenario.get("crashes", ()):
            return 1
        state = {"thermal_state": "nominal", "is_low_power": mode == "low power"}
        seconds = 0.004 if mode == "low power" else 0.002
        result |= {"status": "done", "step": "plan", "predict_s": [seconds] * self.request["iterations"]}
        result |= {"before": state, "after": state, "first_load_s": 0.5}
        self.save()
        self.say(kind="progress", text=f"{model}, {units}", status="done", **key)
        return None

    def save(self) -> None:
        self.file.write_text(json.dumps(self.record), encoding="utf-8")

    def say(self, **message: Any) -> None:
        # devicectl passes on what an app prints to a terminal only.
        if self.phone.scenario.get("is_silent") or not sys.stdout.isatty():
            return
        print(f"{_MARK}{json.dumps(message)}", flush=True)


if __name__ == "__main__":
    sys.exit(Phone(Path(sys.argv[1])).run(sys.argv[2], sys.argv[3:]))
