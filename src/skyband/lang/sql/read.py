"""SQL to statements: the tree that sqlglot finds, held against the shapes that ask for the k best rows or keys.

Every clause of the text is read or refused: `allow` names what may stand at a node, and refuses the rest.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from skyband.errors import ParseError, QueryError, nearest
from skyband.lang.numbers import whole
from skyband.lang.sql.clauses import calls, condition, order_keys
from skyband.lang.sql.tables import Windowed, windowed
from skyband.lang.sql.text import Text, start
from skyband.lang.statement import Statement
from skyband.query import TopK
from skyband.query import expression as scores
from skyband.query.aggregate import parse_total
from skyband.query.expression import Expression, parse
from skyband.query.trees import dialect

if TYPE_CHECKING:
    from sqlglot.expressions import Expr

    from skyband.lang.place import Place

STREAM = "_w"  # stands for the window table function while sqlglot reads the rest
_SHAPE = (
    "SELECT * FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end ORDER BY price DESC) AS rn "
    "FROM TABLE(...)) WHERE rn <= 10"
)
_BOARD = (
    "SELECT window_start, window_end, product, COUNT(*) AS c FROM TABLE(...) GROUP BY window_start, window_end, product"
)
_WINDOW = ("window_start", "window_end")
_TOTALS = {"Count": "count", "Sum": "sum", "Avg": "avg", "Min": "min", "Max": "max"}
_HINTS = {
    "joins": ("JOIN", "a stream is joined through sb.Join: rank its own columns here"),
    "group": ("GROUP_BY", "totals of keys are computed below the ranking: group in the SELECT that reads the window"),
    "having": ("HAVING", "keys cannot be left out by their totals: leave it out, and pick from the answer"),
    "order": ("ORDER_BY", "the order is that of ROW_NUMBER(): leave this out, the answer has its rank"),
    "limit": ("LIMIT", "k is the limit on ROW_NUMBER(): write WHERE rn <= 10"),
    "offset": ("OFFSET", "an answer begins at the first row: leave this out"),
    "distinct": ("DISTINCT", "rows stay apart even if they are equal: leave this out"),
    "laterals": ("LATERAL", "only the window is read: leave this out"),
    "qualify": ("QUALIFY", "it stands beside ROW_NUMBER(): write WHERE here"),
    "with": ("WITH", "it stands before the first SELECT: write it there"),
}


def read_sql(text: str, begin: Place) -> Statement:
    """Read the statement in an SQL text that begins at `begin`."""
    whole = Text.of(text, begin)
    stream = windowed(whole)
    tree = whole.parsed(stream.span, STREAM)
    try:
        return _Reader(whole, stream).read(tree)
    except RecursionError:
        raise begin.error("this is nested too deeply: write it with fewer brackets") from None


@dataclass(frozen=True)
class _Board:
    """SELECT ... GROUP BY: the columns of its keys and its total, by the names that it gives them."""

    select: Expr
    named: dict[str, str]
    keys: tuple[str, ...]
    total: str | None  # the name of the total; None where it stands in ORDER BY itself


@dataclass(frozen=True)
class _Rank:
    """ROW_NUMBER() OVER (...): the query but for its k."""

    by: Expression
    ascending: bool
    per: tuple[str, ...]
    of: tuple[str, ...]
    id: str | None
    score: Expr


class _Reader:
    """Holds a tree against the shapes, and says what does not fit and where."""

    def __init__(self, text: Text, stream: Windowed) -> None:
        self.text = text
        self.stream = stream
        self.common: dict[str, Expr] = {}

    def read(self, tree: Expr) -> Statement:
        if type(tree).__name__ != "Select":
            raise self.text.refuse(self.text.tokens[0], f"this is no SELECT: write {_SHAPE}")
        self.declare(tree)
        ranking, name = (None, None) if self.windows(tree) else self.below(tree)
        if ranking is None:
            ranking = tree
            self.only(tree, "expressions", "where", "group", "qualify")
        else:
            self.only(tree, "expressions", "where")
            self.only(ranking, "expressions", "where", "group")
        window = self.window(ranking, tree)
        board = self.board(ranking)
        for unused in self.common.values():
            raise self.text.refuse(unused, "this SELECT of a WITH is not read from: leave it out")
        rank = self.rank(window, board)
        outputs = self.outputs(ranking, window, rank, board)
        limit = tree.args.get("qualify") if ranking is tree else tree.args.get("where")
        if limit is None:
            what = "QUALIFY" if ranking is tree else "WHERE"
            raise self.text.refuse(len(self.text.text), f"there is no limit: write {what} rn <= 10")
        k = self.limit(limit.this, outputs)
        columns = self.columns(tree, outputs) if ranking is not tree else outputs.shown()
        try:
            query = TopK(
                k=k,
                by=rank.by,
                window=self.stream.window,
                time=self.stream.time,
                per=rank.per,
                id=rank.id,
                name=name,
                ascending=rank.ascending,
                of=rank.of,
            )
        except ParseError:
            raise
        except QueryError as error:
            raise self.text.refuse(window, str(error)) from None
        return Statement(query, source=self.stream.table, columns=columns)

    # ------------------------------------------------------------ what stands where

    def allow(self, node: Expr, *names: str) -> None:
        """Refuse every part of a node but those named."""
        for part, value in node.args.items():
            name = part.rstrip("_")
            if not value or name in names:
                continue
            kind, hint = _HINTS.get(name, (name.upper(), f"leave it out, and write {_SHAPE}"))
            first = value[0] if isinstance(value, list) else value
            at = self.text.word(kind, before=start(first) if hasattr(first, "walk") else None)
            raise self.text.refuse(at or self.place(node), f"{kind.replace('_', ' ')} is not read: {hint}")

    def only(self, select: Expr, *clauses: str) -> None:
        self.allow(select, "from", *clauses)
        for clause in ("where", "qualify"):
            if select.args.get(clause) is not None:
                self.allow(select.args[clause], "this")

    def place(self, node: Any) -> Any:
        return node if start(node) is not None else self.text.tokens[0]

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
                raise self.text.refuse(one, f"WITH has {one.alias} twice: give each its own name")
            self.common[one.alias] = one.this

    def alias(self, node: Expr) -> str | None:
        """The name that a SELECT is given; its columns keep theirs."""
        found = node.args.get("alias")
        if found is None:
            return None
        if found.args.get("columns"):
            raise self.text.refuse(found, "columns cannot be renamed here: name them in the SELECT, with AS")
        return str(node.alias) or None

    def below(self, select: Expr) -> tuple[Expr | None, str | None]:
        """The SELECT that another reads from, and its name; None for the window."""
        source = select.args.get("from_") or select.args.get("from")
        if source is None:
            raise self.text.refuse(self.place(select), f"there is nothing to read from: write {_SHAPE}")
        self.allow(source, "this")
        origin = source.this
        kind = type(origin).__name__
        if kind == "Subquery":
            self.allow(origin, "this", "alias")
            found, name = origin.this, self.alias(origin)
        elif kind == "Table" and start(origin) == self.stream.span[0]:
            self.allow(origin, "this", "alias")
            self.alias(origin)
            return None, None
        elif kind == "Table" and origin.name in self.common and origin.args.get("db") is None:
            self.allow(origin, "this", "alias")
            found, name = self.common.pop(origin.name), self.alias(origin) or origin.name
        else:
            raise self.text.refuse(self.place(origin), f"this is not the window: write {_SHAPE}")
        if type(found).__name__ != "Select":
            raise self.text.refuse(self.place(found), f"this is no SELECT: write {_SHAPE}")
        return found, name

    def windows(self, select: Expr) -> list[Expr]:
        """What a SELECT itself says with OVER (...)."""
        return [node for node in select.find_all(_node("Window")) if self.select_of(node) is select]

    def window(self, ranking: Expr, tree: Expr) -> Expr:
        """The one ROW_NUMBER() OVER (...)."""
        own = self.windows(ranking)
        if not own:
            raise self.text.refuse(self.place(tree), f"nothing is ranked here: write {_SHAPE}")
        for more in [node for node in tree.find_all(_node("Window")) if node is not own[0]]:
            raise self.text.refuse(more, "this is a second OVER (...): a query has one")
        return own[0]

    # ------------------------------------------------------------ the ranking

    def rank(self, window: Expr, board: _Board | None) -> _Rank:
        """Read ROW_NUMBER() OVER (...)."""
        function = type(window.this).__name__
        if function != "RowNumber" or any(window.this.args.values()):
            why = "equal scores never share a rank: write ROW_NUMBER()"
            raise self.text.refuse(window, f"{window.this.sql()} does not number rows; {why}")
        if window.args.get("spec") is not None or window.args.get("first"):
            raise self.text.refuse(window, "a frame (ROWS or RANGE) says nothing of ROW_NUMBER(): leave it out")
        self.allow(window, "this", "partition_by", "order", "over")
        names = [self.name(node) for node in window.args.get("partition_by") or []]
        if board is not None and board.select is not window.find_ancestor(_node("Select")):
            names = [
                self.known(name, board, node) for name, node in zip(names, window.args["partition_by"], strict=True)
            ]
        for needed in _WINDOW:
            if needed not in names:
                why = f"without {needed} rows of different windows would be ranked together"
                raise self.text.refuse(window, f"{why}: write PARTITION BY window_start, window_end")
        order = window.args.get("order")
        if order is None:
            raise self.text.refuse(window, "nothing says which row is best: write ORDER BY price DESC in OVER (...)")
        self.allow(order, "expressions")
        keys = order.expressions
        for key in keys:
            self.allow(key, "this", "desc", "nulls_first")
        texts = order_keys(self.text)
        ascending = not keys[0].args.get("desc")
        per = tuple(name for name in names if name not in _WINDOW)
        if board is None:
            ties = self.ties(keys[1:])
            by = self.filtered(self.expression(texts[0], keys[0].this), self.select_of(window))
            return _Rank(by, ascending, per, (), ties, keys[0].this)
        for more in keys[1:]:
            raise self.text.refuse(more, "equal totals go by the larger key: leave out what follows the total")
        of = tuple(name for name in board.keys if name not in per)
        for name, node in zip(names, window.args["partition_by"], strict=True):
            if name not in (*_WINDOW, *board.keys):
                raise self.text.refuse(node, f"{name} is not in GROUP BY: {nearest(name, board.keys)}")
        if not of:
            raise self.text.refuse(
                window, "no key is left to be ranked: leave one column of GROUP BY out of PARTITION BY"
            )
        total = self.total_of(keys[0].this, board)
        return _Rank(self.totalled(total, board), ascending, per, of, None, keys[0].this)

    def ties(self, keys: list[Expr]) -> str | None:
        """The id of ORDER BY score DESC, time DESC, id DESC."""
        time = self.stream.time
        why = f"equal scores go by the later {time}, then by one id: write ORDER BY score DESC, {time} DESC, id DESC"
        for tie in keys:
            if not tie.args.get("desc") or type(tie.this).__name__ != "Column":
                raise self.text.refuse(tie, why)
        names = [self.name(tie.this) for tie in keys]
        if names and names[0] != time:
            raise self.text.refuse(keys[0], why)
        if len(names) > 2:
            raise self.text.refuse(keys[2], why)
        return names[1] if len(names) == 2 else None

    def name(self, node: Expr) -> str:
        """The name of a plain column."""
        if type(node).__name__ != "Column" or any(value for part, value in node.args.items() if part != "this"):
            says = f"{node.sql()} is no plain column"
            raise self.text.refuse(node, f"{says}: write the name of one, such as {node.name or 'symbol'}")
        return str(node.name)

    def expression(self, text: str, node: Expr) -> Expression:
        """A score as it was written, or an error at its place."""
        try:
            found, same = scores.read(node, text), parse(text)
        except QueryError as error:
            raise self.text.refuse(node, str(error)) from None
        if same.tree != found.tree:
            raise self.text.refuse(node, f"{text} can be read in two ways: put it in brackets")
        return found

    def select_of(self, node: Expr) -> Expr:
        found = node.find_ancestor(_node("Select"))
        assert found is not None
        return found

    def filtered(self, by: Expression, select: Expr) -> Expression:
        """The score, but NULL, which is never ranked, for the rows that WHERE leaves out."""
        where = self.where(select)
        if where is None:
            return by
        try:
            return parse(f"CASE WHEN {where} THEN {by} END")
        except QueryError as error:
            raise self.text.refuse(select.args["where"], f"WHERE: {error}") from None

    def where(self, select: Expr) -> str | None:
        """The condition of a SELECT as it was written."""
        found = select.args.get("where")
        if found is None:
            return None
        first = next(n for n, token in enumerate(self.text.tokens) if token.start >= (start(found) or 0))
        begin = max(n for n in range(first) if self.text.tokens[n].kind == "SELECT")
        text = condition(self.text, begin)
        try:
            tree, same = scores.condition(found.this, text), parse(f"CASE WHEN {text} THEN 1 END").tree
        except QueryError as error:
            raise self.text.refuse(found, f"WHERE: {error}") from None
        if same[1] != tree:
            raise self.text.refuse(found, f"WHERE {text} can be read in two ways: put it in brackets")
        return text

    # ------------------------------------------------------------ totals of keys

    def board(self, ranking: Expr) -> _Board | None:
        """SELECT keys and their total, GROUP BY the keys: below the ranking, or the SELECT that ranks itself."""
        select, _ = self.below(ranking)
        if select is None:
            return self.grouped(ranking) if ranking.args.get("group") is not None else None
        if ranking.args.get("group") is not None:
            raise self.text.refuse(self.text.word("GROUP_BY"), f"{_HINTS['group'][1]}: write {_BOARD}")
        if ranking.args.get("where") is not None:
            why = "a condition on totals is not read: leave it out, and pick from the answer"
            raise self.text.refuse(ranking.args["where"], why)
        self.only(select, "expressions", "where", "group")
        if self.below(select)[0] is not None:
            raise self.text.refuse(self.place(select), f"this SELECT reads no window: write {_BOARD}")
        if select.args.get("group") is None:
            why = "a SELECT below the one that ranks must group: write its columns and its WHERE beside ROW_NUMBER()"
            raise self.text.refuse(self.place(select), f"{why}, or {_BOARD}")
        return self.grouped(select, below=True)

    def grouped(self, select: Expr, *, below: bool = False) -> _Board:
        """Read GROUP BY, and what stands beside it."""
        group = select.args["group"]
        at = self.text.word("GROUP_BY", before=start(group)) or self.place(group)
        for part, value in group.args.items():
            if value and part != "expressions":
                raise self.text.refuse(at, f"GROUP BY {part.upper()} is not read: name the columns of the keys")
        names = [self.name(node) for node in group.expressions]
        example = "write GROUP BY window_start, window_end, product"
        for needed in _WINDOW:
            if needed not in names:
                why = f"without {needed} rows of different windows would be added up together"
                raise self.text.refuse(at, f"{why}: {example}")
        keys = tuple(dict.fromkeys(name for name in names if name not in _WINDOW))
        if not keys:
            raise self.text.refuse(at, f"GROUP BY names no key to be ranked: {example}")
        if not below:
            return _Board(select, {name: name for name in (*_WINDOW, *keys)}, keys, None)
        named, total = self.grouped_columns(select, names)
        if total is None:
            raise self.text.refuse(at, f"there is no total to rank keys by: write {_BOARD}")
        for key in (*_WINDOW, *keys):
            if key not in named.values():
                raise self.text.refuse(at, f"GROUP BY has {key}, and SELECT has not: add it")
        return _Board(select, named, keys, total)

    def grouped_columns(self, select: Expr, keys: list[str]) -> tuple[dict[str, str], str | None]:
        """The columns of a SELECT with GROUP BY, and the name of its total."""
        named: dict[str, str] = {}
        total: str | None = None
        for node in select.expressions:
            value = self.unaliased(node)
            if type(value).__name__ == "Column":
                what = self.name(value)
                if what not in keys:
                    raise self.text.refuse(node, f"{what} is not in GROUP BY: {nearest(what, keys)}")
                self.add(named, node, what)
            elif total is not None:
                raise self.text.refuse(self.place(node), f"keys are ranked by one total, here {total}: leave this out")
            elif not node.alias:
                raise self.text.refuse(self.place(node), f"the total has no name: write {value.sql()} AS c")
            else:
                total = str(node.alias)
        return named, total

    def known(self, name: str, board: _Board, node: Expr) -> str:
        """What a column of the grouping SELECT is."""
        if name not in board.named:
            raise self.text.refuse(node, f"the SELECT below has no column {name!r}: {nearest(name, board.named)}")
        return board.named[name]

    def total_of(self, key: Expr, board: _Board) -> Expr:
        """The total that ORDER BY ranks by."""
        if board.total is None:
            return key
        if type(key).__name__ != "Column" or self.name(key) != board.total:
            why = f"keys are ranked by their total as it is: write ORDER BY {board.total}"
            raise self.text.refuse(self.place(key), why)
        return next(self.unaliased(n) for n in board.select.expressions if n.alias == board.total)

    def totalled(self, node: Expr, board: _Board) -> Expression:
        """A total of the rows that WHERE leaves in."""
        function, inside = self.total(node)
        try:
            tree = parse_total(f"{function}({inside})").tree
            for call in calls(self.text, {function}):
                with suppress(QueryError):
                    if parse_total(call).tree == tree:  # as it was written
                        name, _, rest = call.partition("(")
                        function, inside = name.lower() if name.isupper() else name, rest[:-1]
                        break
            where = self.where(board.select)
            if where is not None:  # a key without a row that is left has no total, and is not ranked
                one = "1" if inside.strip() == "*" else f"CASE WHEN ({inside}) IS NULL THEN 0 ELSE 1 END"
                counts = function.lower() == "count"
                inside = f"CASE WHEN {where} THEN {one if counts else inside} END"
                function = "sum" if counts else function
            return parse_total(f"{function}({inside})")
        except ParseError:
            raise
        except QueryError as error:
            raise self.text.refuse(self.place(node), str(error)) from None

    def total(self, node: Expr) -> tuple[str, str]:
        """The function of a total, and what it is of."""
        function, argument = _TOTALS.get(type(node).__name__), node.args.get("this")
        known = {"this", "big_int"}
        if type(node).__name__ == "Anonymous" and str(node.name).lower() == "mean" and len(node.expressions) == 1:
            function, argument, known = "mean", node.expressions[0], {"this", "expressions"}
        if function is None or argument is None:
            why = "is no total that is kept: write COUNT(*), COUNT(x), SUM(x), AVG(x), MIN(x) or MAX(x)"
            raise self.text.refuse(self.place(node), f"{node.sql()} {why}")
        extra = [part.upper() for part, value in node.args.items() if value and part not in known]
        if extra or type(argument).__name__ == "Distinct":
            why = f"{extra[0] if extra else 'DISTINCT'} is not read: leave it out"
            raise self.text.refuse(self.place(node), f"{node.sql()}: {why}")
        if type(argument).__name__ == "Star":
            return function, "*"
        return function, str(argument.sql(dialect=dialect(), comments=False))

    def unaliased(self, node: Expr) -> Expr:
        if type(node).__name__ != "Alias":
            return node
        self.allow(node, "this", "alias")
        return node.this

    # ------------------------------------------------------------ the limit, and what goes out

    def limit(self, node: Expr, outputs: _Outputs) -> int:
        """k, from rn <= k."""
        kind = type(node).__name__
        sides: list[Any] = [node.args.get("this"), node.args.get("expression")]
        if kind in ("GTE", "GT"):
            kind, sides = {"GTE": "LTE", "GT": "LT"}[kind], sides[::-1]
        if kind == "Between" and node.args["low"].sql() == "1" and not node.args.get("symmetric"):
            kind, sides = "LTE", [node.this, node.args["high"]]
        if kind == "EQ" and sides[1].sql() == "1":
            kind = "LTE"
        rank = sides[0] is not None and (
            type(sides[0]).__name__ == "Window"
            or (type(sides[0]).__name__ == "Column" and outputs.named.get(self.name(sides[0])) == "rank")
        )
        number = sides[1]
        fits = kind in ("LTE", "LT") and rank and type(number).__name__ == "Literal" and not number.is_string
        if not fits or not str(number.this).isdigit():
            also = ": further conditions go into the WHERE of the inner SELECT" if kind == "And" else ""
            name = next((shown for shown, what in outputs.named.items() if what == "rank"), "rn")
            raise self.text.refuse(node, f"this is no limit on the rank: write {name} <= 10{also}")
        try:
            return whole(str(number.this)) - (kind == "LT")
        except QueryError as error:
            raise self.text.refuse(node, f"k {error}") from None

    def outputs(self, select: Expr, window: Expr, rank: _Rank, board: _Board | None) -> _Outputs:
        """What the SELECT that ranks gives out, by name."""
        named: dict[str, str] = {}
        star = False
        for node in select.expressions:
            value = self.unaliased(node)
            if type(value).__name__ == "Star":
                star = True
                if len(value.args) and any(value.args.values()):
                    raise self.text.refuse(node, "write * alone, or the names of the columns")
                continue
            if value is window:
                if not node.alias:
                    raise self.text.refuse(node, "the rank has no name: write ROW_NUMBER() OVER (...) AS rn")
                what = "rank"
            elif value == rank.score and (type(value).__name__ != "Column" or board is not None):
                what = "score"
            elif type(value).__name__ == "Column":
                what = self.name(value)
                if board is not None:
                    what = self.known(what, board, node)
            else:
                why = "only columns, the rank and the score go out"
                raise self.text.refuse(node, f"{value.sql()} is computed here: {why}; compute it from the answer")
            self.add(named, node, what)
        if star and board is not None:
            own = {name: what for name, what in board.named.items() if name != what}
            if board.total is None or own:
                raise self.text.refuse(self.place(select), "write the names of the columns here, not *")
            named = {**board.named, board.total: "score", **named}
            return _Outputs(named, star=True, known=True)
        return _Outputs(named, star=star)

    def add(self, named: dict[str, str], node: Expr, what: str) -> None:
        """Note a column of a SELECT; no two may have one name."""
        name = str(node.alias_or_name or node.sql())
        if name in named:
            raise self.text.refuse(self.place(node), f"two columns are called {name}: name one otherwise, with AS")
        named[name] = what

    def columns(self, select: Expr, outputs: _Outputs) -> tuple[tuple[str, str], ...] | None:
        """What the outer SELECT picks of them."""
        picked: dict[str, str] = {}
        for node in select.expressions:
            value = self.unaliased(node)
            if type(value).__name__ == "Star":
                if len(select.expressions) > 1 or any(value.args.values()):
                    raise self.text.refuse(node, "write * alone, or the names of the columns")
                return outputs.shown()
            name = self.name(value)
            if name not in outputs.named and (not outputs.star or outputs.known):
                there = nearest(name, outputs.named)
                raise self.text.refuse(node, f"the inner SELECT has no column {name!r}: {there}")
            self.add(picked, node, outputs.named.get(name, name))
        return tuple((what, shown) for shown, what in picked.items())


@dataclass(frozen=True)
class _Outputs:
    """Names of the columns that a SELECT gives out, and what they are in our answers."""

    named: dict[str, str]
    star: bool
    known: bool = False  # there are no others

    def shown(self) -> tuple[tuple[str, str], ...] | None:
        """As a statement keeps them; None for all."""
        return None if self.star else tuple((what, shown) for shown, what in self.named.items())


def _node(name: str) -> Any:
    from sqlglot import exp

    return getattr(exp, name)
