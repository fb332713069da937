"""Queries as YAML."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from skyband.errors import QueryError
from skyband.lang.question import described
from skyband.lang.statement import Statement
from skyband.query import TopK


def to_yaml(query: TopK | Statement | Sequence[TopK]) -> str:
    """A query as the `query:` part of a pipeline file; a list of queries as its `queries:`.

    `sb.parse` reads it back: `sb.parse(sb.to_yaml(query)).query == query`.

    Examples
    --------
    >>> import skyband as sb
    >>> window = sb.Sliding("10 minutes", "1 minute")
    >>> print(sb.to_yaml(sb.TopK(k=10, by="price * volume", window=window, time="ts", per="symbol")))
    k: 10
    by: price * volume
    window: {size: 10 minutes, slide: 1 minute}
    time: ts
    per: [symbol]
    """
    if isinstance(query, Statement):
        if query.pattern is not None or query.columns is not None:
            msg = "this text says more than a query: keep it, under sql: or rspql: of a pipeline file"
            raise QueryError(msg)
        shown = described(replace(query.query, join=None) if query.remote is not None else query.query)
        if query.remote is not None:
            remote = query.remote
            columns = dict(remote.properties) or list(remote.columns)
            shown["join"] = {"service": remote.service, "on": remote.on, "columns": columns, **dict(remote.options)}
        return _written(shown)
    return _written(described(query) if isinstance(query, TopK) else [described(one) for one in query])


def _written(shown: Any) -> str:
    import yaml

    class Dumper(yaml.SafeDumper):
        def represent_str(self, text: str) -> yaml.ScalarNode:
            # line ends and other signs that cannot be seen as escapes: folded, some of them are lost
            style = None if text.isprintable() else '"'
            return self.represent_scalar("tag:yaml.org,2002:str", text, style)

    Dumper.add_representer(str, Dumper.represent_str)
    return str(
        yaml.dump(shown, Dumper=Dumper, sort_keys=False, default_flow_style=None, width=1000, allow_unicode=True)
    )
