"""A read-only installation and a home that cannot be written to, as executors in containers have them."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import skyband

RUN = """
import pkgutil, importlib, sys
import numpy as np
import skyband.kernels
assert skyband.kernels.__file__.startswith(sys.argv[1]), skyband.kernels.__file__
for module in pkgutil.walk_packages(skyband.kernels.__path__, "skyband.kernels."):
    importlib.import_module(module.name)
from skyband.kernels.columns import first_seen
print(first_seen(np.array([0, 1, 1]), 2)[1] == 1, sum(first_seen.dispatcher.stats.cache_hits.values()))
"""


def without_rights(command):
    """The command as a user who cannot write what is read-only, which root could."""
    if os.geteuid():
        return command
    if shutil.which("setpriv") is None:
        pytest.skip("root writes to read-only folders, and setpriv, which takes that right away, is not installed")
    return ["setpriv", "--bounding-set=-all", "--inh-caps=-all", *command]


@pytest.fixture
def installation(tmp_path):
    """A copy of the package that cannot be written to, a home likewise, and how to run Python there."""
    site, home, scratch = tmp_path / "site", tmp_path / "home", tmp_path / "scratch"
    ignored = shutil.ignore_patterns("__pycache__", "*.nb*")
    shutil.copytree(Path(skyband.__file__).parent, site / "skyband", ignore=ignored)
    home.mkdir()
    scratch.mkdir()
    folders = [home, site, *(path for path in site.rglob("*") if path.is_dir())]
    for folder in folders:
        folder.chmod(0o555)

    def run(*arguments, **env):
        inherited = {k: v for k, v in os.environ.items() if k not in ("XDG_CACHE_HOME", "NUMBA_CACHE_DIR")}
        inherited |= {
            "PYTHONPATH": str(site),
            "HOME": str(home),
            "TMPDIR": str(scratch),
            "PYTHONDONTWRITEBYTECODE": "1",
            "SKYBAND_KERNELS": "compiled",
        }
        done = subprocess.run(
            without_rights([sys.executable, *arguments]),
            env={**inherited, **env},
            cwd=site,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode in (0, 5), done.stderr[-2000:]  # 5: doctor finds something else wrong here
        return done.stdout

    yield run, site, scratch
    for folder in folders:
        folder.chmod(0o755)


def test_compiled_code_is_kept_in_a_temporary_folder(installation):
    run, site, scratch = installation
    assert run("-c", RUN, str(site)).split() == ["True", "0"]
    (folder,) = scratch.iterdir()
    assert folder.stat().st_mode & 0o077 == 0, "nobody else may put code there"
    assert list(folder.rglob("*.nbc"))
    assert run("-c", RUN, str(site)).split() == ["True", "1"], "the second process finds what the first compiled"


def test_a_temporary_folder_that_others_can_write_to_is_not_trusted(installation):
    run, site, scratch = installation
    planted = scratch / f"skyband-kernels-{os.getuid()}"
    planted.mkdir(mode=0o777)
    planted.chmod(0o777)
    assert run("-c", RUN, str(site)).split() == ["True", "0"]
    assert not list(planted.iterdir())
    assert list(scratch.rglob("*.nbc"))


def test_without_any_folder_kernels_are_compiled_and_not_kept(installation):
    run, site, _ = installation
    nowhere = "import tempfile; tempfile.gettempdir = lambda: '/nowhere at all'\n"
    assert run("-c", nowhere + RUN, str(site)).split() == ["True", "0"]


def test_doctor_says_where_compiled_code_is_kept(installation, tmp_path):
    run, _, scratch = installation
    told = {f["what"]: f for f in json.loads(run("-m", "skyband", "doctor", "--json"))}["kernels"]
    assert told["state"] == "care"
    assert str(scratch) in told["found"]
    assert "NUMBA_CACHE_DIR" in told["do"]
    told = json.loads(run("-m", "skyband", "doctor", "--json", NUMBA_CACHE_DIR=str(tmp_path / "kernels")))
    assert {f["what"]: f["state"] for f in told}["kernels"] == "ok"


def test_a_changed_kernel_is_compiled_again(tmp_path):
    package = tmp_path / "site" / "skyband"
    ignored = shutil.ignore_patterns("__pycache__", "*.nb*")
    shutil.copytree(Path(skyband.__file__).parent, package, ignore=ignored)
    called, caller = (package / "kernels" / f"{name}.py" for name in ("called", "caller"))
    decorator = "from skyband.kernels._jit import kernel\n"
    called.write_text(f"{decorator}@kernel\ndef one():\n    return 10\n")
    caller.write_text(f"{decorator}from skyband.kernels.called import one\n@kernel\ndef two():\n    return one()\n")
    program = "from skyband.kernels.caller import two; print(two())"

    def run():
        env = os.environ | {"PYTHONPATH": str(package.parent), "SKYBAND_KERNELS": "compiled"}
        env.pop("NUMBA_CACHE_DIR", None)
        command = [sys.executable, "-c", program]
        return subprocess.run(command, env=env, capture_output=True, text=True, check=True).stdout.strip()

    assert run() == "10"
    first = set(package.rglob("*.nb[ic]"))
    assert first
    called.write_text(called.read_text().replace("10", "110"))
    assert run() == "110", "the kernel that was compiled into another one has changed"
    second = set(package.rglob("*.nb[ic]"))
    assert second
    assert not first & second, "code of the older version is removed"
    assert run() == "110"
    assert set(package.rglob("*.nb[ic]")) == second
