"""SQL to statements: the tree that sqlglot makes, compared with the shapes of queries for the k best rows or keys.

Every clause of the text is read or refused: `allow` names what may stand at a node, and refuses the rest.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from skyband.errors import QueryError, nearest
from skyband.lang.sql.tokens import SqlText, WindowFunction, find_window_function, first_character
from skyband.lang.statement import Statement
from skyband.lang.text import errors_at
from skyband.query import TopK
from skyband.query import expression as scores
from skyband.query.aggregate import parse_total
from skyband.query.expression import Expression, parse
from skyband.query.trees import dialect
from skyband.query.validation import parse_integer

if TYPE_CHECKING:
    from sqlglot.expressions import Expr

    from skyband.lang.text import Position

STREAM = "_w"  # stands for the window table function while sqlglot parses the rest
_SHAPE = (
    "SELECT * FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end ORDER BY price DESC) AS rn "
    "FROM TABLE(...)) WHERE rn <= 10"
)
_GROUPED = (
    "SELECT window_start, window_end, product, COUNT(*) AS c FROM TABLE(...) GROUP BY window_start, window_end, product"
)
_WINDOW = ("window_start", "window_end")
_TOTALS: dict[type[Expr], str] = {exp.Count: "count", exp.Sum: "sum", exp.Avg: "avg", exp.Min: "min", exp.Max: "max"}
_HINTS = {
    "joins": ("JOIN", "streams are joined by sb.Join"),
    "group": ("GROUP_BY", f"group in the SELECT that reads the window: {_GROUPED}"),
    "having": ("HAVING", "filter the answer instead"),
    "order": ("ORDER_BY", "rows are ordered by ROW_NUMBER(), which the answer has as rank"),
    "limit": ("LIMIT", "write WHERE rn <= 10"),
    "offset": ("OFFSET", "an answer begins with the first row"),
    "distinct": ("DISTINCT", "equal rows are ranked one by one"),
    "laterals": ("LATERAL", "only the window is read"),
    "qualify": ("QUALIFY", "it stands beside ROW_NUMBER(): write WHERE here"),
    "with": ("WITH", "write it before the first SELECT"),
}


def read_sql(text: str, start: Position) -> Statement:
    """Read the statement in an SQL text that begins at `start`."""
    whole = SqlText.of(text, start)
    function = find_window_function(whole)
    tree = whole.parse(function.span, STREAM)
    try:
        return _Reader(whole, function).read(tree)
    except RecursionError:
        raise start.error("this is nested too deeply: write it with fewer brackets") from None


@dataclass(frozen=True)
class _Grouping:
    """SELECT ... GROUP BY: what its columns are, by the names that it gives them."""

    select: Expr
    columns: dict[str, str]
    keys: tuple[str, ...]
    total: str | None = None  # the name of the total; None where it stands in ORDER BY itself


@dataclass(frozen=True)
class _Ranking:
    """ROW_NUMBER() OVER (...): fields of the query, and the node of the score."""

    fields: dict[str, Any]
    score: Expr


@dataclass
class _Outputs:
    """The columns of a SELECT: what they are in the answer, by the names that it gives them."""

    named: dict[str, str] = field(default_factory=dict)
    star: bool = False
    complete: bool = False  # there are no others, although there is a star

    def columns(self) -> tuple[tuple[str, str], ...] | None:
        """Return them as a statement has them; None for all."""
        return None if self.star else tuple((column, alias) for alias, column in self.named.items())


class _Reader:
    """Compares a tree with the shapes; an error says what does not fit, and where."""

    def __init__(self, text: SqlText, function: WindowFunction) -> None:
        self.text = text
        self.function = function
        self.common: dict[str, Expr] = {}  # SELECTs of WITH that have not been read from
        self.refuse = text.refuse

    def read(self, tree: Expr) -> Statement:
        if not isinstance(tree, exp.Select):
            raise self.refuse(self.text.tokens[0], f"this must be a SELECT: write {_SHAPE}")
        self.declare(tree)
        ranking, name = (None, None) if self.windows(tree) else self.below(tree)
        if ranking is None:
            ranking = tree
            self.only(tree, "expressions", "where", "group", "qualify")
        else:
            self.only(tree, "expressions", "where")
            self.only(ranking, "expressions", "where", "group")
        window = self.window(ranking, tree)
        grouping = self.grouping(ranking)
        for unused in self.common.values():
            raise self.refuse(unused, "this SELECT of a WITH is not used: leave it out")
        rank = self.rank(window, grouping)
        outputs = self.outputs(ranking, window, rank, grouping)
        limit = tree.args.get("qualify" if ranking is tree else "where")
        if limit is None:
            clause = "QUALIFY" if ranking is tree else "WHERE"
            raise self.refuse(len(self.text.text), f"there must be a limit: write {clause} rn <= 10")
        k = self.limit(limit.this, outputs)
        columns = outputs.columns() if ranking is tree else self.chosen(tree, outputs)
        with self.errors_at(window):
            query = TopK(k=k, window=self.function.window, time=self.function.time, name=name, **rank.fields)
        return Statement(query, source=self.function.table, columns=columns)

    def errors_at(self, node: Expr, prefix: str = "") -> AbstractContextManager[None]:
        return errors_at(lambda error: self.refuse(node, f"{prefix}{error}"))

    # ------------------------------------------------------------ clauses

    def allow(self, node: Expr, *names: str) -> None:
        """Refuse every part of a node but those named."""
        for part, value in node.args.items():
            name = part.rstrip("_")
            if value and name not in names:
                kind, hint = _HINTS.get(name, (name.upper(), f"write {_SHAPE}"))
                first = value[0] if isinstance(value, list) else value
                at = self.text.word(kind, before=first_character(first) if isinstance(first, exp.Expr) else None)
                raise self.refuse(at or node, f"{kind.replace('_', ' ')} is not supported here: {hint}")

    def only(self, select: Expr, *clauses: str) -> None:
        self.allow(select, "from", *clauses)
        for clause in ("where", "qualify"):
            if select.args.get(clause) is not None:
                self.allow(select.args[clause], "this")

    def declare(self, tree: Expr) -> None:
        """Take the SELECTs of WITH, by their names."""
        common = tree.args.pop("with_", None) or tree.args.pop("with", None)
        if common is None:
            return
        self.allow(common, "expressions")
        for one in common.expressions:
            self.allow(one, "this", "alias")
            self.alias(one)
            if one.alias in self.common:
                raise self.refuse(one, f"names of WITH must be distinct, got {one.alias} twice")
            self.common[one.alias] = one.this

    def alias(self, node: Expr) -> str | None:
        """Return the name that a SELECT is given; its columns keep theirs."""
        found = node.args.get("alias")
        if found is not None and found.args.get("columns"):
            raise self.refuse(found, "columns cannot be renamed here: name them in the SELECT, with AS")
        return None if found is None else str(node.alias) or None

    def below(self, select: Expr) -> tuple[Expr | None, str | None]:
        """Return the SELECT that another reads from, and its name; None for the window."""
        source = select.args.get("from_") or select.args.get("from")
        if source is None:
            raise self.refuse(select, f"there must be a FROM: write {_SHAPE}")
        self.allow(source, "this")
        origin = source.this
        named = isinstance(origin, exp.Table) and origin.name in self.common and origin.args.get("db") is None
        windowed = isinstance(origin, exp.Table) and first_character(origin) == self.function.span[0]
        if not isinstance(origin, exp.Subquery) and not named and not windowed:
            raise self.refuse(origin, f"this must be the window: write {_SHAPE}")
        self.allow(origin, "this", "alias")
        name = self.alias(origin)
        if windowed:
            return None, None
        found = self.common.pop(origin.name) if named else origin.this
        if not isinstance(found, exp.Select):
            raise self.refuse(found, f"this must be a SELECT: write {_SHAPE}")
        return found, name or (origin.name if named else None)

    def windows(self, select: Expr) -> list[Expr]:
        """Return the OVER (...) of a SELECT itself."""
        return [node for node in select.find_all(exp.Window) if node.find_ancestor(exp.Select) is select]

    def window(self, ranking: Expr, tree: Expr) -> Expr:
        """Return the one ROW_NUMBER() OVER (...)."""
        own = self.windows(ranking)
        if not own:
            raise self.refuse(tree, f"there must be a ROW_NUMBER() OVER (...): write {_SHAPE}")
        for more in tree.find_all(exp.Window):
            if more is not own[0]:
                raise self.refuse(more, "a query must have one OVER (...), got a second")
        return own[0]

    # ------------------------------------------------------------ the ranking

    def rank(self, window: Expr, grouping: _Grouping | None) -> _Ranking:
        """Read ROW_NUMBER() OVER (...)."""
        if not isinstance(window.this, exp.RowNumber) or any(window.this.args.values()):
            raise self.refuse(window, f"{window.this.sql()} is not supported: equal scores never share a rank, "
                              f"write ROW_NUMBER()")  # fmt: skip
        if window.args.get("spec") is not None or window.args.get("first"):
            raise self.refuse(window, "ROW_NUMBER() must have no frame: leave ROWS or RANGE out")
        self.allow(window, "this", "partition_by", "order", "over")
        parts = {self.name(node): node for node in window.args.get("partition_by") or []}
        if grouping is not None and grouping.select is not window.find_ancestor(exp.Select):
            parts = {self.known(name, grouping, node): node for name, node in parts.items()}
        for needed in _WINDOW:
            if needed not in parts:
                why = f"PARTITION BY must have {needed}, or rows of different windows would be ranked together"
                raise self.refuse(window, f"{why}: write PARTITION BY window_start, window_end")
        order = window.args.get("order")
        if order is None:
            raise self.refuse(window, "OVER (...) must have an ORDER BY: write ORDER BY price DESC in OVER (...)")
        self.allow(order, "expressions")
        keys = order.expressions
        for key in keys:
            self.allow(key, "this", "desc", "nulls_first")
        texts, score = self.text.order_keys(), keys[0].this
        per = tuple(name for name in parts if name not in _WINDOW)
        fields = {"per": per, "ascending": not keys[0].args.get("desc")}
        if grouping is None:
            by = self.filtered(self.expression(texts[0], score), window.find_ancestor(exp.Select))
            return _Ranking({**fields, "by": by, "id": self.tie(keys[1:])}, score)
        for more in keys[1:]:
            raise self.refuse(more, "ORDER BY must have the total alone: equal totals are ordered by the larger key")
        for name, node in parts.items():
            if name not in (*_WINDOW, *grouping.keys):
                raise self.refuse(node, f"{name} must be in GROUP BY: {nearest(name, grouping.keys)}")
        of = tuple(name for name in grouping.keys if name not in per)
        if not of:
            raise self.refuse(window, "PARTITION BY must leave out a column of GROUP BY, the key to rank")
        return _Ranking({**fields, "by": self.total(self.total_node(score, grouping), grouping), "of": of}, score)

    def tie(self, keys: list[Expr]) -> str | None:
        """Return the id of ORDER BY score DESC, time DESC, id DESC."""
        time = self.function.time
        why = f"ties must go by the later {time}, then by one id: write ORDER BY score DESC, {time} DESC, id DESC"
        for key in keys:
            if not key.args.get("desc") or not isinstance(key.this, exp.Column):
                raise self.refuse(key, why)
        names = [self.name(key.this) for key in keys]
        if names and (names[0] != time or len(names) > 2):
            raise self.refuse(keys[0 if names[0] != time else 2], why)
        return names[1] if len(names) == 2 else None

    def name(self, node: Expr) -> str:
        """Return the name of a plain column."""
        if not isinstance(node, exp.Column) or any(value for part, value in node.args.items() if part != "this"):
            raise self.refuse(node, f"{node.sql()} must be a plain column: write {node.name or 'symbol'}")
        return str(node.name)

    def expression(self, text: str, node: Expr) -> Expression:
        """Return a score as it was written."""
        with self.errors_at(node):
            found, same = scores.read(node, text), parse(text)
        if same.tree != found.tree:
            raise self.refuse(node, f"{text} is ambiguous: put it in brackets")
        return found

    def filtered(self, by: Expression, select: Any) -> Expression:
        """Return the score, or NULL, which is never ranked, for rows that WHERE leaves out."""
        where = self.condition(select)
        if where is None:
            return by
        with self.errors_at(select.args["where"], "WHERE: "):
            return parse(f"CASE WHEN {where} THEN {by} END")

    def condition(self, select: Expr) -> str | None:
        """Return the condition of a SELECT as it was written."""
        where = select.args.get("where")
        if where is None:
            return None
        text = self.text.condition(where)
        with self.errors_at(where, "WHERE: "):
            tree, same = scores.condition(where.this, text), parse(f"CASE WHEN {text} THEN 1 END").tree
        if same[1] != tree:
            raise self.refuse(where, f"WHERE {text} is ambiguous: put it in brackets")
        return text

    # ------------------------------------------------------------ leaderboards

    def grouping(self, ranking: Expr) -> _Grouping | None:
        """Read SELECT ... GROUP BY: below the ranking, or the SELECT that ranks itself."""
        select, _ = self.below(ranking)
        if select is None:
            return self.grouped(ranking) if ranking.args.get("group") is not None else None
        if ranking.args.get("group") is not None:
            raise self.refuse(self.text.word("GROUP_BY"), f"GROUP BY is not supported here: {_HINTS['group'][1]}")
        if ranking.args.get("where") is not None:
            raise self.refuse(ranking.args["where"], "a condition on totals is not supported: filter the answer")
        self.only(select, "expressions", "where", "group")
        if self.below(select)[0] is not None:
            raise self.refuse(select, f"this SELECT must read the window: write {_GROUPED}")
        if select.args.get("group") is None:
            why = "this SELECT must have GROUP BY: write its columns and its WHERE beside ROW_NUMBER()"
            raise self.refuse(select, f"{why}, or {_GROUPED}")
        return self.grouped(select, below=True)

    def grouped(self, select: Expr, *, below: bool = False) -> _Grouping:
        """Read GROUP BY, and the columns beside it."""
        group = select.args["group"]
        at = self.text.word("GROUP_BY", before=first_character(group)) or group
        for part, value in group.args.items():
            if value and part != "expressions":
                raise self.refuse(at, f"GROUP BY {part.upper()} is not supported: name the columns of the keys")
        names = [self.name(node) for node in group.expressions]
        keys = tuple(dict.fromkeys(name for name in names if name not in _WINDOW))
        for needed in _WINDOW:
            if needed not in names or not keys:
                why = f"GROUP BY must have {needed if keys else 'a key'}"
                raise self.refuse(at, f"{why}: write GROUP BY window_start, window_end, product")
        if not below:
            return _Grouping(select, {name: name for name in (*_WINDOW, *keys)}, keys)
        columns, total = self.grouped_columns(select, names)
        if total is None:
            raise self.refuse(at, f"there must be a total to rank keys by: write {_GROUPED}")
        for key in (*_WINDOW, *keys):
            if key not in columns.values():
                raise self.refuse(at, f"SELECT must have {key}, as GROUP BY has: add it")
        return _Grouping(select, columns, keys, total)

    def grouped_columns(self, select: Expr, keys: list[str]) -> tuple[dict[str, str], str | None]:
        """Return the columns of a SELECT with GROUP BY, and the name of its total."""
        columns: dict[str, str] = {}
        total: str | None = None
        for node in select.expressions:
            value = self.unaliased(node)
            if isinstance(value, exp.Column):
                what = self.name(value)
                if what not in keys:
                    raise self.refuse(node, f"{what} must be in GROUP BY: {nearest(what, keys)}")
                self.add(columns, node, what)
            elif total is not None:
                raise self.refuse(node, f"keys must be ranked by one total, here {total}: leave this out")
            elif not node.alias:
                raise self.refuse(node, f"the total must have a name: write {value.sql()} AS c")
            else:
                total = str(node.alias)
        return columns, total

    def known(self, name: str, grouping: _Grouping, node: Expr) -> str:
        """Return what a column of the grouping SELECT is."""
        if name not in grouping.columns:
            raise self.refuse(node, f"the SELECT below has no column {name!r}: {nearest(name, grouping.columns)}")
        return grouping.columns[name]

    def total_node(self, key: Expr, grouping: _Grouping) -> Expr:
        """Return the node of the total that ORDER BY ranks by."""
        if grouping.total is None:
            return key
        if not isinstance(key, exp.Column) or self.name(key) != grouping.total:
            raise self.refuse(key, f"keys must be ranked by their total: write ORDER BY {grouping.total}")
        return next(self.unaliased(n) for n in grouping.select.expressions if n.alias == grouping.total)

    def total(self, node: Expr, grouping: _Grouping) -> Expression:
        """Return a total of the rows that WHERE leaves in, as it was written."""
        function, inside = self.aggregate(node)
        with self.errors_at(node):
            tree = parse_total(f"{function}({inside})").tree
            for call in self.text.calls({function}):
                with suppress(QueryError):
                    if parse_total(call).tree == tree:
                        name, _, rest = call.partition("(")
                        function, inside = name.lower() if name.isupper() else name, rest[:-1]
                        break
            where = self.condition(grouping.select)
            if where is not None:  # a key without a row that is left has no total, and is not ranked
                if function.lower() == "count":
                    counted = "1" if inside.strip() == "*" else f"CASE WHEN ({inside}) IS NULL THEN 0 ELSE 1 END"
                    function, inside = "sum", counted
                inside = f"CASE WHEN {where} THEN {inside} END"
            return parse_total(f"{function}({inside})")

    def aggregate(self, node: Expr) -> tuple[str, str]:
        """Return the function of a total, and its argument."""
        function, argument = _TOTALS.get(type(node)), node.args.get("this")
        known = {"this", "big_int"}
        if isinstance(node, exp.Anonymous) and str(node.name).lower() == "mean" and len(node.expressions) == 1:
            function, argument, known = "mean", node.expressions[0], {"this", "expressions"}
        if function is None or argument is None:
            forms = "COUNT(*), COUNT(x), SUM(x), AVG(x), MIN(x) or MAX(x)"
            raise self.refuse(node, f"the total must be {forms}, got {node.sql()}")
        extra = [part.upper() for part, value in node.args.items() if value and part not in known]
        if extra or isinstance(argument, exp.Distinct):
            raise self.refuse(node, f"{node.sql()}: {extra[0] if extra else 'DISTINCT'} is not supported: leave it out")
        if isinstance(argument, exp.Star):
            return function, "*"
        return function, str(argument.sql(dialect=dialect(), comments=False))

    def unaliased(self, node: Expr) -> Any:
        if not isinstance(node, exp.Alias):
            return node
        self.allow(node, "this", "alias")
        return node.this

    # ------------------------------------------------------------ the limit, and the columns of the answer

    def limit(self, node: Expr, outputs: _Outputs) -> int:
        """Return k of rn <= k."""
        kind: type = type(node)
        rank, number = node.args.get("this"), node.args.get("expression")
        if kind in (exp.GTE, exp.GT):
            kind, rank, number = {exp.GTE: exp.LTE, exp.GT: exp.LT}[kind], number, rank
        if kind is exp.Between and node.args["low"].sql() == "1" and not node.args.get("symmetric"):
            kind, number = exp.LTE, node.args["high"]
        if kind is exp.EQ and number.sql() == "1":  # type: ignore[union-attr]
            kind = exp.LTE
        ranked = isinstance(rank, exp.Window) or (
            isinstance(rank, exp.Column) and outputs.named.get(self.name(rank)) == "rank"
        )
        whole = isinstance(number, exp.Literal) and not number.is_string and str(number.this).isdigit()
        if kind not in (exp.LTE, exp.LT) or not ranked or not whole:
            also = ": further conditions go into the WHERE of the inner SELECT" if kind is exp.And else ""
            name = next((alias for alias, column in outputs.named.items() if column == "rank"), "rn")
            raise self.refuse(node, f"this must be a limit on the rank: write {name} <= 10{also}")
        with self.errors_at(node):
            return parse_integer("k", str(number.this)) - (kind is exp.LT)  # type: ignore[union-attr]

    def outputs(self, select: Expr, window: Expr, rank: _Ranking, grouping: _Grouping | None) -> _Outputs:
        """Return what the SELECT that ranks has, by name."""
        outputs = _Outputs()
        for node in select.expressions:
            value = self.unaliased(node)
            if isinstance(value, exp.Star):
                outputs.star = True
                if any(value.args.values()):
                    raise self.refuse(node, "* must stand alone: write *, or the names of the columns")
                continue
            if value is window:
                if not node.alias:
                    raise self.refuse(node, "the rank must have a name: write ROW_NUMBER() OVER (...) AS rn")
                what = "rank"
            elif value == rank.score and (not isinstance(value, exp.Column) or grouping is not None):
                what = "score"
            elif isinstance(value, exp.Column):
                what = self.name(value) if grouping is None else self.known(self.name(value), grouping, node)
            else:
                raise self.refuse(node, f"this must be a column, the rank or the score, got {value.sql()}: compute it "
                                  f"from the answer")  # fmt: skip
            self.add(outputs.named, node, what)
        if outputs.star and grouping is not None:
            if grouping.total is None or any(name != what for name, what in grouping.columns.items()):
                raise self.refuse(select, "* is not supported here: write the names of the columns")
            outputs.named = {**grouping.columns, grouping.total: "score", **outputs.named}
            outputs.complete = True
        return outputs

    def add(self, named: dict[str, str], node: Expr, what: str) -> None:
        """Note a column of a SELECT."""
        name = str(node.alias_or_name or node.sql())
        if name in named:
            raise self.refuse(node, f"columns must have distinct names, got {name} twice: rename one with AS")
        named[name] = what

    def chosen(self, select: Expr, outputs: _Outputs) -> tuple[tuple[str, str], ...] | None:
        """Return what the outer SELECT picks of them."""
        picked = _Outputs()
        for node in select.expressions:
            value = self.unaliased(node)
            if isinstance(value, exp.Star):
                if len(select.expressions) > 1 or any(value.args.values()):
                    raise self.refuse(node, "* must stand alone: write *, or the names of the columns")
                return outputs.columns()
            name = self.name(value)
            if name not in outputs.named and (not outputs.star or outputs.complete):
                raise self.refuse(node, f"the inner SELECT has no column {name!r}: {nearest(name, outputs.named)}")
            self.add(picked.named, node, outputs.named.get(name, name))
        return picked.columns()
