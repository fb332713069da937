"""Every promise names the test that shows it, and the test is there."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
NAMED = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")


def test_every_test_that_a_promise_names_is_there():
    text = (ROOT / "docs" / "promises.md").read_text(encoding="utf-8")
    named = NAMED.findall(text)
    assert len(named) > 20
    for path, name in named:
        tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
        assert name in {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}, f"{path}::{name}"


def test_every_row_of_a_promise_names_a_test():
    text = (ROOT / "docs" / "promises.md").read_text(encoding="utf-8")
    text = re.sub(r"<!-- measured: .*?<!-- end -->", "", text, flags=re.DOTALL)
    rows = [line for line in text.splitlines() if line.startswith("| ") and not line.startswith("| what |")]
    assert [row for row in rows if not NAMED.search(row)] == []
