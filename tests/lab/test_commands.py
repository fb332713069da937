"""The commands of the lab are found where it is installed; where it is not, they say what to install."""

import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

import skyband_lab
from skyband import cli
from skyband.cli import app

LAB = ("bench", "reproduce", "compare-policies")


@pytest.mark.parametrize("name", LAB)
def test_a_command_of_the_lab_is_found_and_listed(name):
    listed = CliRunner().invoke(app, ["--help"], env={"COLUMNS": "120"})
    assert f" {name} " in listed.stdout
    shown = CliRunner().invoke(app, [name, "--help"], env={"COLUMNS": "120"})
    assert shown.exit_code == 0, shown.output
    assert f"skyband {name}" in shown.stdout


@pytest.mark.parametrize("args", [["bench"], ["bench", "slide", "--quick"], ["reproduce", "--help"]])
def test_without_the_lab_its_commands_say_what_to_install(args, monkeypatch):
    monkeypatch.setattr(cli, "ENTRY_POINTS", "skyband.no.commands")
    done = CliRunner().invoke(app, args)
    assert done.exit_code == 5
    assert f"skyband {args[0]}" in done.stderr
    assert "skyband-lab" in done.stderr
    assert "pip install" in done.stderr


def test_without_the_lab_its_commands_are_not_listed_and_others_are_unknown(monkeypatch):
    monkeypatch.setattr(cli, "ENTRY_POINTS", "skyband.no.commands")
    assert "reproduce" not in CliRunner().invoke(app, ["--help"]).stdout
    unknown = CliRunner().invoke(app, ["benchmark"])
    assert unknown.exit_code == 2
    assert "benchmark" in unknown.stderr


def test_any_installed_package_can_add_a_command(tmp_path):
    info = tmp_path / "other-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: other\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[skyband.commands]\nother = other:app\n")
    code = "import typer\napp = typer.Typer()\n@app.command()\ndef other(x: int):\n    print(x + 1)\n"
    (tmp_path / "other.py").write_text(code)
    program = f"import sys; sys.path.append({str(tmp_path)!r}); from skyband.cli import main; main()"
    done = subprocess.run([sys.executable, "-c", program, "other", "4"], capture_output=True, text=True, check=True)
    assert done.stdout == "5\n"


def test_the_lab_is_no_part_of_skyband():
    assert "lab" in Path(skyband_lab.__file__).parts
    code = "import sys, skyband, skyband.cli; assert not any(name.startswith('skyband_lab') for name in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
