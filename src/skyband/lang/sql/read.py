"""SQL to statements: the tree that sqlglot finds, held against the one shape that asks for the k best."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from skyband.errors import ParseError, QueryError, nearest
from skyband.lang.sql.clauses import condition, order_keys
from skyband.lang.sql.tables import Windowed, windowed
from skyband.lang.sql.text import Text, start
from skyband.lang.statement import Statement
from skyband.query import TopK
from skyband.query.expression import Expression, parse

if TYPE_CHECKING:
    from sqlglot.expressions import Expr

    from skyband.lang.place import Place

STREAM = "_w"  # stands for the window table function while sqlglot reads the rest
_SHAPE = (
    "SELECT * FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end ORDER BY price DESC) AS rn "
    "FROM TABLE(...)) WHERE rn <= 10"
)
_KEPT = {"expressions", "from_", "where", "qualify", "with_"}
_HINTS = {
    "joins": ("JOIN", "a stream is joined through sb.Join: rank its own columns here"),
    "group": ("GROUP_BY", "rows are ranked, not groups: rank by a column of the stream"),
    "having": ("HAVING", "rows are ranked, not groups: write a WHERE inside"),
    "order": ("ORDER_BY", "the order is that of ROW_NUMBER(): leave this out, the answer has its rank"),
    "limit": ("LIMIT", "k is the limit on ROW_NUMBER(): write WHERE rn <= 10"),
    "offset": ("OFFSET", "an answer begins at the first row: leave this out"),
    "distinct": ("DISTINCT", "rows stay apart even if they are equal: leave this out"),
    "laterals": ("LATERAL", "only the window is read: leave this out"),
}


def read_sql(text: str, begin: Place) -> Statement:
    """The statement in an SQL text that begins at `begin`."""
    whole = Text.of(text, begin)
    stream = windowed(whole)
    tree = whole.parsed(stream.span, STREAM)
    return _Reader(whole, stream).read(tree)


@dataclass(frozen=True)
class _Rank:
    """ROW_NUMBER() OVER (...): the query but for its k."""

    by: Expression
    ascending: bool
    per: tuple[str, ...]
    id: str | None
    score: Expr


class _Reader:
    """Holds a tree against the shape, and says what does not fit and where."""

    def __init__(self, text: Text, stream: Windowed) -> None:
        self.text = text
        self.stream = stream

    def read(self, tree: Expr) -> Statement:
        if type(tree).__name__ != "Select":
            raise self.text.refuse(self.text.tokens[0], f"this is no SELECT: write {_SHAPE}")
        inner, name = self.inner(tree)
        window = next(iter(inner.find_all(_node("Window"))), None) or next(iter(tree.find_all(_node("Window"))), None)
        if window is None:
            raise self.text.refuse(tree, f"nothing is ranked here: write {_SHAPE}")
        rank = self.rank(window)
        outputs = self.outputs(inner, window, rank)
        limit = tree.args.get("qualify") if inner is tree else tree.args.get("where")
        if limit is None:
            what = "QUALIFY" if inner is tree else "WHERE"
            raise self.text.refuse(len(self.text.text), f"there is no limit: write {what} rn <= 10")
        k = self.limit(limit.this, outputs)
        columns = self.columns(tree, outputs) if inner is not tree else outputs.shown()
        try:
            query = TopK(
                k=k,
                by=self.filtered(rank),
                window=self.stream.window,
                time=self.stream.time,
                per=rank.per,
                id=rank.id,
                name=name,
                ascending=rank.ascending,
            )
        except ParseError:
            raise
        except QueryError as error:
            raise self.text.refuse(window, str(error)) from None
        return Statement(query, source=self.stream.table, columns=columns)

    def inner(self, tree: Expr) -> tuple[Expr, str | None]:
        """The SELECT that reads the window, and the name that it is given: a subquery, one WITH, or all there is."""
        self.only(tree)
        origin = self.origin(tree)
        common = tree.args.get("with_")
        if type(origin).__name__ == "Subquery":
            if common is not None:
                raise self.text.refuse(common, "WITH is not used here: leave it out")
            found, name = origin.this, origin.alias or None
        elif common is not None:
            if len(common.expressions) != 1 or origin.name != common.expressions[0].alias:
                raise self.text.refuse(common, "one WITH is read, and the SELECT reads from it: write a subquery")
            found, name = common.expressions[0].this, origin.alias or origin.name
        else:
            return tree, None
        if type(found).__name__ != "Select":
            raise self.text.refuse(found, f"this is no SELECT: write {_SHAPE}")
        if tree.args.get("qualify") is not None:
            raise self.text.refuse(self.text.word("QUALIFY"), "QUALIFY stands beside ROW_NUMBER(): write WHERE here")
        self.only(found, "with_", "qualify")
        self.origin(found)
        return found, name

    def only(self, select: Expr, *never: str) -> None:
        """Refuse the clauses that have no meaning here."""
        for clause, value in select.args.items():
            if not value or clause in _KEPT - set(never):
                continue
            kind, hint = _HINTS.get(clause, (clause.strip("_").upper(), f"leave it out, and write {_SHAPE}"))
            first = value[0] if isinstance(value, list) else value
            at = self.text.word(kind, before=start(first) if hasattr(first, "walk") else None)
            raise self.text.refuse(at or self.text.tokens[0], f"{kind.replace('_', ' ')} is not read: {hint}")

    def origin(self, select: Expr) -> Expr:
        """What a SELECT reads from."""
        origin = select.args.get("from_")
        if origin is None:
            raise self.text.refuse(select, f"there is nothing to read from: write {_SHAPE}")
        extra = [key for key, value in origin.this.args.items() if value and key not in ("this", "alias")]
        if extra:
            raise self.text.refuse(origin.this, f"{extra[0].upper()} is not read: leave it out")
        return origin.this

    def rank(self, window: Expr) -> _Rank:
        """What ROW_NUMBER() OVER (...) says."""
        function = type(window.this).__name__
        if function != "RowNumber":
            why = "equal scores never share a rank: write ROW_NUMBER()"
            raise self.text.refuse(window, f"{window.this.sql()} does not number rows; {why}")
        select: Any = window.find_ancestor(_node("Select"))
        for other in select.find_all(_node("Window")):
            if other is not window:
                raise self.text.refuse(other, "this is a second OVER (...): a query has one")
        if window.args.get("spec") is not None or window.args.get("first"):
            raise self.text.refuse(window, "a frame (ROWS or RANGE) says nothing of ROW_NUMBER(): leave it out")
        names = [self.name(node) for node in window.args.get("partition_by") or []]
        for needed in ("window_start", "window_end"):
            if needed not in names:
                why = f"without {needed} rows of different windows would be ranked together"
                raise self.text.refuse(window, f"{why}: write PARTITION BY window_start, window_end")
        order = window.args.get("order")
        if order is None:
            raise self.text.refuse(window, "nothing says which row is best: write ORDER BY price DESC in OVER (...)")
        texts, keys = order_keys(self.text), order.expressions
        by = self.expression(texts[0], keys[0])
        for tie in keys[1:]:
            if not tie.args.get("desc") or type(tie.this).__name__ != "Column":
                raise self.text.refuse(tie, self.ties())
        ties = [self.name(tie.this) for tie in keys[1:]]
        if ties and ties[0] != self.stream.time:
            raise self.text.refuse(keys[1], self.ties())
        if len(ties) > 2:
            raise self.text.refuse(keys[3], self.ties())
        per = tuple(name for name in names if name not in ("window_start", "window_end"))
        return _Rank(by, not keys[0].args.get("desc"), per, ties[1] if len(ties) == 2 else None, keys[0].this)

    def ties(self) -> str:
        time = self.stream.time
        return f"equal scores go by the later {time}, then by one id: write ORDER BY score DESC, {time} DESC, id DESC"

    def name(self, node: Expr) -> str:
        """The name of a plain column."""
        if type(node).__name__ != "Column" or node.args.get("table") is not None:
            says = f"{node.sql()} is no plain column"
            raise self.text.refuse(node, f"{says}: write the name of one, such as {node.name or 'symbol'}")
        return str(node.name)

    def expression(self, text: str, node: Expr) -> Expression:
        """A score, or an error at its place."""
        try:
            return parse(text)
        except QueryError as error:
            raise self.text.refuse(node, str(error)) from None

    def filtered(self, rank: _Rank) -> Expression:
        """The score, but NULL, which is never ranked, for the rows that WHERE leaves out."""
        found = condition(self.text)
        if found is None:
            return rank.by
        try:
            return parse(f"CASE WHEN {found[0]} THEN {rank.by} END")
        except QueryError as error:
            raise self.text.refuse(found[1], f"WHERE: {error}") from None

    def limit(self, node: Expr, outputs: _Outputs) -> int:
        """k, from rn <= k."""
        kind = type(node).__name__
        sides: list[Any] = [node.args.get("this"), node.args.get("expression")]
        if kind in ("GTE", "GT"):
            kind, sides = {"GTE": "LTE", "GT": "LT"}[kind], sides[::-1]
        if kind == "Between" and node.args["low"].sql() == "1":
            kind, sides = "LTE", [node.this, node.args["high"]]
        if kind == "EQ" and sides[1].sql() == "1":
            kind = "LTE"
        rank = sides[0] is not None and (
            type(sides[0]).__name__ == "Window" or outputs.named.get(getattr(sides[0], "name", "")) == "rank"
        )
        number = sides[1]
        fits = kind in ("LTE", "LT") and rank and type(number).__name__ == "Literal" and not number.is_string
        if not fits or not str(number.this).isdigit():
            also = ": further conditions go into the WHERE of the inner SELECT" if kind == "And" else ""
            name = next((shown for shown, what in outputs.named.items() if what == "rank"), "rn")
            raise self.text.refuse(node, f"this is no limit on the rank: write {name} <= 10{also}")
        return int(number.this) - (kind == "LT")

    def outputs(self, select: Expr, window: Expr, rank: _Rank) -> _Outputs:
        """What the SELECT that ranks gives out, by name."""
        named: dict[str, str] = {}
        star = False
        for node in select.expressions:
            value = node.this if type(node).__name__ == "Alias" else node
            if type(value).__name__ == "Star":
                star = True
                if len(value.args) and any(value.args.values()):
                    raise self.text.refuse(node, "write * alone, or the names of the columns")
                continue
            if value is window:
                if not node.alias:
                    raise self.text.refuse(node, "the rank has no name: write ROW_NUMBER() OVER (...) AS rn")
                what = "rank"
            elif value == rank.score and type(value).__name__ != "Column":
                what = "score"
            elif type(value).__name__ == "Column":
                what = self.name(value)
            else:
                why = "only columns, the rank and the score go out"
                raise self.text.refuse(node, f"{value.sql()} is computed here: {why}; compute it from the answer")
            named[node.alias_or_name or value.sql()] = what
        return _Outputs(named, star=star)

    def columns(self, select: Expr, outputs: _Outputs) -> tuple[tuple[str, str], ...] | None:
        """What the outer SELECT picks of them."""
        picked: dict[str, str] = {}
        for node in select.expressions:
            value = node.this if type(node).__name__ == "Alias" else node
            if type(value).__name__ == "Star":
                if len(select.expressions) > 1:
                    raise self.text.refuse(node, "write * alone, or the names of the columns")
                return outputs.shown()
            name = self.name(value)
            if name not in outputs.named and not outputs.star:
                there = nearest(name, outputs.named)
                raise self.text.refuse(node, f"the inner SELECT has no column {name!r}: {there}")
            picked[node.alias_or_name] = outputs.named.get(name, name)
        return tuple((what, shown) for shown, what in picked.items())


@dataclass(frozen=True)
class _Outputs:
    """Names of the columns that a SELECT gives out, and what they are in our answers."""

    named: dict[str, str]
    star: bool

    def shown(self) -> tuple[tuple[str, str], ...] | None:
        """As a statement keeps them; None for all."""
        return None if self.star else tuple((what, shown) for shown, what in self.named.items())


def _node(name: str) -> Any:
    from sqlglot import exp

    return getattr(exp, name)
