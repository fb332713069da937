"""What the documentation shows is what happens: every block runs, every table and picture is up to date."""

import doctest
import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import skyband as sb

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


def test_the_readme_is_short():
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) < 120


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
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path)]
    quiet = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}  # a notice of the theme, not of our pages
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, env=quiet)
    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stderr, done.stderr
    foreign = re.compile(r"<(?:script|link|img)\b[^>]*?(?:src|href)=\"?(https?://[^\" >]+)")
    for page in tmp_path.rglob("*.html"):
        loaded = foreign.findall(page.read_text(encoding="utf-8"))
        assert not loaded, f"{page.name} loads {loaded}"
