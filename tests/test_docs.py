"""What the documentation shows is what happens: every block runs, every table and picture is up to date."""

import doctest
import importlib.util
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

import skyband as sb
from skyband.cli import app

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]
BLOCK = re.compile(r"^```(?:python|pycon)[^\n]*\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def script(name):
    """A module of scripts/, which is no package."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "scripts" / f"{name}.py")
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def blocks(text):
    """The Python blocks of a page, each with the number of its first line."""
    return [(found.group(1), text.count("\n", 0, found.start(1))) for found in BLOCK.finditer(text)]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_block_runs_and_prints_what_it_says(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # pages may write files
    names = {"__name__": "__main__"}
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE, verbose=False)
    said = []
    for code, line in blocks(page.read_text(encoding="utf-8")):
        if ">>>" in code:
            test = doctest.DocTestParser().get_doctest(code, names, page.name, str(page), line)
            runner.run(test, out=said.append, clear_globs=False)
            names = test.globs  # get_doctest copies them
        else:
            exec(compile("\n" * line + code, str(page), "exec"), names)  # noqa: S102 - our own pages
    assert not runner.failures, "".join(said)


def commands(text):
    """The `skyband` commands that a text shows: in blocks and in lines that are set in."""
    lines = re.findall(r"^(?: {2,}|\$ )?(?:\.venv/bin/)?skyband ([a-z].*)$", text, re.MULTILINE)
    for line in lines:
        yield shlex.split(re.split(r" {2,}| +# | \| | >+ | && ", line)[0])  # without what it does, and where it goes on


def shown_commands():
    """Where commands are shown, and which: all pages, and the help of every command."""
    for page in PAGES:
        told = page.read_text(encoding="utf-8")
        fenced = "\n".join(re.findall(r"^```(?:text|sh|console)\n(.*?)^```$", told, re.DOTALL | re.MULTILINE))
        inset = "\n".join(re.findall(r"^ {4}.*$", told, re.MULTILINE))
        yield from ((page.name, command) for command in [*commands(fenced), *commands(inset)])
    for name, command in all_commands():
        yield from ((name, found) for found in commands(command.help or ""))


def all_commands(group=None, name="skyband"):
    group = group or typer.main.get_command(app)
    context = typer.Context(group)
    for each in group.list_commands(context):
        command = group.get_command(context, each)
        yield f"{name} {each}", command
        if hasattr(command, "commands"):
            yield from all_commands(command, f"{name} {each}")


def test_every_command_that_is_shown_can_be_given():
    """Its options and their values are read, as they would be; nothing is run."""
    seen = 0
    for where, args in shown_commands():
        command, rest, above = typer.main.get_command(app), args, None
        try:
            while hasattr(command, "commands"):
                above = command.make_context("skyband", [rest[0]], parent=above, allow_extra_args=True)
                command, rest = command.get_command(above, rest[0]), rest[1:]
            if "--help" not in rest:
                command.make_context(args[0], list(rest), parent=above)
        except Exception as error:
            raise AssertionError(f"{where} shows `skyband {shlex.join(args)}`: {error!r}") from error
        seen += 1
    assert seen > 60


def test_every_task_that_is_shown_is_in_the_makefile():
    tasks = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    for page in PAGES:
        named = re.findall(r"^(?:    )?make ([a-z-]+)", page.read_text(encoding="utf-8"), re.MULTILINE)
        assert set(named) <= tasks, page.name


def test_the_plan_of_a_view_is_the_one_on_the_page(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    page = (DOCS / "views.md").read_text(encoding="utf-8")
    command, said = re.search(r"^```console\n\$ skyband ([^\n]*)\n(.*?)^```$", page, re.DOTALL | re.MULTILINE).groups()
    found = CliRunner().invoke(app, shlex.split(command)).stdout
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    assert doctest.OutputChecker().check_output(said + "...\n", found, flags), found
    assert (tmp_path / "plan.svg").stat().st_size


def test_the_policies_are_those_on_the_page(real_data):
    page = (DOCS / "joins.md").read_text(encoding="utf-8")
    command, said = re.search(r"^```console\n\$ skyband ([^\n]*)\n(.*?)^```$", page, re.DOTALL | re.MULTILINE).groups()
    found = CliRunner().invoke(app, shlex.split(command), env={"SKYBAND_DATA": str(real_data)})
    assert found.exit_code == 0, found.output
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    assert doctest.OutputChecker().check_output(said, found.stdout, flags), found.stdout


def test_the_pipeline_file_of_the_page_is_sound(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    page = (DOCS / "pipeline-file.md").read_text(encoding="utf-8")
    shown = re.search(r"^```yaml\n(.*?)^```$", page, re.DOTALL | re.MULTILINE).group(1)
    Path("pipeline.yaml").write_text(shown, encoding="utf-8")
    for command in (["parse"], ["explain"], ["run", "--explain"]):
        found = CliRunner().invoke(app, [command[0], "pipeline.yaml", *command[1:]])
        assert found.exit_code == 0, found.output


def test_no_block_is_of_a_kind_that_nobody_runs():
    """Python here; `py`, which needs Spark, and `console` in tests of their own; the rest is no code of ours."""
    kinds = {"python", "pycon", "py", "yaml", "console", "text", "sh", "dockerfile"}
    for page in PAGES:
        told = page.read_text(encoding="utf-8")
        assert set(re.findall(r"^```(\w+)", told, re.MULTILINE)) <= kinds, page.name
    for kind, pages in {
        "py": {"spark.md", "views.md"},  # tests/spark
        "yaml": {"pipeline-file.md", "tutorial.md"},
        "console": {"tutorial.md", "joins.md", "views.md"},
    }.items():
        assert {page.name for page in PAGES if f"\n```{kind}\n" in page.read_text(encoding="utf-8")} == pages, kind


def section(page, name):
    """The text of a page from where it documents `name` to the next such place."""
    parts = re.split(r"^(?:::: skyband\.|## )(\w+)$", page, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True)).get(name)


@pytest.mark.parametrize("name", sb.__all__)
def test_every_public_name_is_explained_by_an_example(name):
    """In its docstring; for errors and for values, which have none of their own, on the reference page."""
    thing = getattr(sb, name)
    told = section((DOCS / "api.md").read_text(encoding="utf-8"), name)
    assert told is not None, f"docs/api.md does not document {name}"
    if isinstance(thing, type) or callable(thing):
        assert (thing.__doc__ or "").strip(), f"{name} has no docstring"
        assert not (thing.__doc__ or "").startswith(f"{name}("), f"{name} has only the docstring that a dataclass makes"
    elsewhere = not callable(thing) or (isinstance(thing, type) and issubclass(thing, Exception))
    assert ">>>" in (thing.__doc__ or "") or (elsewhere and ">>>" in told), f"{name} is shown by no example"


def test_the_reference_names_nothing_else():
    page = (DOCS / "api.md").read_text(encoding="utf-8")
    named = set(re.findall(r"^::: skyband\.(\w+)$", page, flags=re.MULTILINE))
    assert named <= set(sb.__all__)


def test_the_table_in_the_readme_is_the_registry():
    hooks = script("docs_hooks")
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    table = re.search(r"<!-- engines: begin -->\n(.*?)\n<!-- engines: end -->", readme, flags=re.DOTALL).group(1)
    columns = [cell.strip() for cell in table.splitlines()[0].strip("|").split("|")]
    assert table == hooks.engines_table(columns)


def test_the_table_on_the_page_is_made_when_it_is_built():
    hooks = script("docs_hooks")
    page = (DOCS / "engines.md").read_text(encoding="utf-8")
    assert page.count(hooks.MARKER) == 1
    for name in sb.ENGINES:
        assert f"`{name}`" in hooks.on_page_markdown(page)


@pytest.mark.parametrize("page", [DOCS / "architecture.md", ROOT / "CONTRIBUTING.md"], ids=lambda page: page.name)
def test_every_file_that_is_named_exists(page):
    named = set(re.findall(r"`(?!tests/)([\w/]+/\w+\.py)`", page.read_text(encoding="utf-8")))
    folders = (ROOT, ROOT / "src" / "skyband")
    assert len(named) > 5
    assert {path for path in named if not any((folder / path).is_file() for folder in folders)} == set()


def test_the_readme_is_short():
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) < 120


def test_mypy_accepts_the_code_of_the_readme(tmp_path):
    """As a user's own code: strict, with what the package says of its types."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    session = "".join(example.source for example in doctest.DocTestParser().get_examples(readme))
    spark = re.search(r"## On Spark\n.*?\n((?:    [^\n]+\n)+)", readme, flags=re.DOTALL).group(1)
    written = re.findall(r"^\| [^|]+ \| `((?:\w+=)?sb\.[^`]+)` \|", readme, flags=re.MULTILINE)
    assert len(written) >= 5
    code = (
        "from pyspark.sql import DataFrame\n"
        f"{session}\nq1 = q2 = q3 = query\ntable = sb.tables.open_table('sqlite://', 'stock', key='id')\n"
        + "\n".join(code.removeprefix("by=").removeprefix("join=") for code in written)
        + f"\ndef on_spark(trades: DataFrame) -> DataFrame:\n{spark}    return leaders\n"
    )
    (tmp_path / "readme.py").write_text(code, encoding="utf-8")
    command = [sys.executable, "-m", "mypy", "--config-file", str(ROOT / "pyproject.toml"), str(tmp_path / "readme.py")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_pictures_show_what_the_engines_hold():
    figures = script("docs_figures")
    for name, draw in figures.FIGURES.items():
        there = (figures.HERE / name).read_text(encoding="utf-8")
        assert there == draw().svg(), f"{name} is out of date: run scripts/docs_figures.py"


def test_the_drawn_example_is_that_of_the_paper():
    """Figure 5 of Yang et al. as printed: objects, marks and pointers, before and after the slide."""
    (_, before, points), _, (_, after, moved) = script("docs_figures").moments()
    assert before == [(1, 0, 0), (6, 0, 1), (14, 0, 3), (7, 1, 1), (15, 2, 3), (16, 2, 3)]
    assert points == {0: 14, 1: 7, 2: 16, 3: 16}
    assert after == [(17, 1, 4), (6, 1, 1), (14, 1, 3), (15, 2, 3), (18, 4, 4), (20, 4, 4)]
    assert moved == {1: 14, 2: 15, 3: 15, 4: 20}


def test_the_site_builds_without_a_warning_and_loads_nothing_from_elsewhere(tmp_path):
    pytest.importorskip("material", reason="the docs group is not installed")
    command = [
        sys.executable,
        "-m",
        "mkdocs",
        "build",
        "--strict",
        "--site-dir",
        str(tmp_path),
    ]  # --quiet hides warnings
    quiet = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}  # a notice of the theme, not of our pages
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, env=quiet)
    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stderr, done.stderr
    foreign = re.compile(r"<(?:script|link|img)\b[^>]*?(?:src|href)=\"?(https?://[^\" >]+)")
    for page in tmp_path.rglob("*.html"):
        loaded = foreign.findall(page.read_text(encoding="utf-8"))
        assert not loaded, f"{page.name} loads {loaded}"
