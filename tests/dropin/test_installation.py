"""`install` and `uninstall`, each test in a process of its own.

Where coremltools is imported before `install`, the process is forked from one that has imported it.
"""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest

from tests.support.preloaded import preloaded_child

pytest.importorskip("coremltools")
pytestmark = pytest.mark.skipif(sys.platform == "darwin", reason="coremltools calls Core ML on a Mac")

_HEAD = """
    import sys, warnings
    # coremltools warns about the versions of other packages.
    warnings.simplefilter("ignore", DeprecationWarning)
    # coremltools imports these packages if they are installed, which is slow.
    sys.modules.update(dict.fromkeys(("torch", "sklearn", "tensorflow", "xgboost")))
    from coremlscope.dropin import install, is_installed, uninstall
"""

_STATE = """
    import coremltools as ct
    from coremltools import _deps
    from coremltools.models import _compiled_model, compute_device, compute_plan, model, utils
    from coremltools.models.ml_program.experimental import compute_plan_utils

    def captured():
        names = {
            "model": [model._MLModelProxy, model._MLModelAssetProxy],
            "compiled": [_compiled_model._MLModelProxy],
            "device": [compute_device._MLCPUComputeDeviceProxy, compute_device._MLGPUComputeDeviceProxy,
                       compute_device._MLNeuralEngineComputeDeviceProxy, compute_device._MLModelProxy],
            "plan": [compute_plan._MLModelProxy, compute_plan._MLComputePlanProxy],
            "remote": [getattr(compute_plan_utils, n) for n in vars(compute_plan_utils)
                       if n.startswith("_ML") and n.endswith("Proxy")],
        }
        assert len(names["remote"]) == 8
        return [value for group in names.values() for value in group]

    def reports_macos():
        answers = {utils._is_macos(), model._is_macos(), _deps._IS_MACOS, compute_plan_utils._IS_MACOS,
                   utils._macos_version() == (26, 0), _compiled_model._macos_version() == (26, 0),
                   hasattr(ct, "libcoremlpython"), "coremltools.libcoremlpython" in sys.modules}
        assert len(answers) == 1, answers
        return answers.pop()

    def is_bound():
        bound = {value is not None for value in captured()}
        assert len(bound) == 1, captured()
        return bound.pop()
"""


_REMOVED = """
    from coremltools.libmodelpackage import ModelPackage
    assert utils._ModelPackage is not ModelPackage and issubclass(utils._ModelPackage, ModelPackage)
    uninstall()
    assert not is_installed() and not reports_macos() and not is_bound()
    assert utils._ModelPackage is ModelPackage
    uninstall()
    install()
    assert is_installed() and reports_macos() and is_bound()
"""


def _run(*parts: str, interpreter: tuple[str, ...] = ()) -> str:
    return _output((sys.executable, *interpreter, "-c", _script(parts)))


def _run_after_the_import(*parts: str) -> None:
    _output(preloaded_child(_script(("import coremltools\n", *parts))))


def _script(parts: tuple[str, ...]) -> str:
    return "".join(map(textwrap.dedent, parts))


def _output(command: tuple[str, ...]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stderr


def test_install_before_the_import_is_silent_and_can_be_undone() -> None:
    noise = _run(
        _HEAD,
        "install()\nassert 'coremltools' not in sys.modules\n",
        _STATE,
        "assert is_installed() and reports_macos() and is_bound()\n",
        "assert len(compute_device.MLComputeDevice.get_all_compute_devices()) == 3\n",
        _REMOVED,
        interpreter=("-W", "error"),
    )
    assert "Failed to load" not in noise


@pytest.mark.usefixtures("_preloading")
def test_install_after_the_import_binds_all_proxies() -> None:
    _run_after_the_import(
        _HEAD,
        "assert 'coremltools' in sys.modules\n",
        _STATE,
        """
        from coremltools.models.utils import _macos_version as mine
        assert not is_installed() and not reports_macos() and not is_bound() and mine() == ()
        plan = compute_plan_utils.MLComputePlan.load_from_path_on_device
        install()
        assert is_installed() and reports_macos() and is_bound() and mine() == (26, 0)
        assert compute_plan_utils.MLComputePlan.load_from_path_on_device is plan
        remote = compute_plan_utils._MLNeuralEngineComputeDeviceRemoteProxy(total_core_count=3, device=None)
        assert compute_device.MLNeuralEngineComputeDevice(remote).__proxy__.total_core_count == 3
        """,
    )


@pytest.mark.usefixtures("_preloading")
def test_uninstall_restores_coremltools() -> None:
    _run_after_the_import(_HEAD, _STATE, "install()\ninstall()\n", _REMOVED)


@pytest.mark.usefixtures("_preloading")
def test_nothing_outside_coremltools_changes() -> None:
    _run_after_the_import(
        _HEAD,
        """
        import platform
        import coremltools
        mine = type(sys)("mine")
        mine._IS_MACOS, mine._MLModelProxy = False, None
        sys.modules["mine"] = mine
        finders, system = list(sys.meta_path), (sys.platform, platform.system(), platform.mac_ver())
        install()
        assert (mine._IS_MACOS, mine._MLModelProxy) == (False, None)
        assert system == (sys.platform, platform.system(), platform.mac_ver())
        uninstall()
        assert finders == sys.meta_path
        """,
    )


def test_a_missing_coremltools_names_the_extra() -> None:
    _run(
        _HEAD,
        """
        import importlib.util
        from coremlscope.base.errors import MissingDependencyError

        found = importlib.util.find_spec
        importlib.util.find_spec = lambda name, *rest: None if name == "coremltools" else found(name, *rest)
        try:
            install()
        except MissingDependencyError as error:
            assert "[coreml]'" in error.hint and error.exit_code == 7
        else:
            raise AssertionError("nothing was raised")
        assert not is_installed()
        """,
    )


def test_install_does_nothing_on_a_mac() -> None:
    _run(
        _HEAD,
        """
        sys.platform = "darwin"
        finders = list(sys.meta_path)
        install()
        assert not is_installed() and finders == sys.meta_path
        """,
    )
