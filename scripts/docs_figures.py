"""Draw the pictures of the documentation, from what the engines really hold.

`python scripts/docs_figures.py` writes docs/img/*.svg; `--check` only says whether they are up to date. All
streams are fixed or seeded, so the same code draws the same bytes.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import skyband as sb
from skyband.engines import Objects, QueryFamily, build

HERE = Path(__file__).resolve().parent.parent / "docs" / "img"

INK, SOFT, FAINT, PAPER = "#1f2933", "#7b8794", "#e4e7eb", "#ffffff"
BLUE, PALE, ORANGE = "#3949ab", "#c5cae9", "#d9480f"

SECOND = 1_000_000  # microseconds

# The 20 objects of the paper's figures 1 to 5, as in tests/papers/test_mintopk_figures.py: the order of those that
# are kept is stated there, the scores are filled in.
SCORES = [95, 30, 42, 12, 25, 90, 70, 33, 20, 37, 8, 28, 15, 80, 60, 50, 99, 48, 5, 40]
QUERY = sb.TopK(k=3, by="score", window=sb.Sliding("16 s", "4 s"), time="time")


@dataclass
class Drawing:
    """A picture that grows shape by shape."""

    width: float
    height: float
    title: str
    shapes: list[str] = field(default_factory=list)

    def add(self, tag: str, text: str = "", **attributes: Any) -> None:
        """One element; underscores in attribute names stand for dashes."""
        named = " ".join(f'{name.replace("_", "-")}="{_short(value)}"' for name, value in attributes.items())
        self.shapes.append(f"<{tag} {named}>{escape(text)}</{tag}>" if text else f"<{tag} {named}/>")

    def text(self, x: float, y: float, text: str, **attributes: Any) -> None:
        """A line of text; black and of size 13 unless told."""
        self.add("text", text, **{"x": x, "y": y, "font_size": 13, "fill": INK, **attributes})

    def line(self, x1: float, y1: float, x2: float, y2: float, **attributes: Any) -> None:
        """A thin grey line unless told."""
        self.add("line", **{"x1": x1, "y1": y1, "x2": x2, "y2": y2, "stroke": FAINT, **attributes})

    def box(self, x: float, y: float, width: float, height: float, **attributes: Any) -> None:
        """A rectangle with slightly round corners."""
        self.add("rect", **{"x": x, "y": y, "width": width, "height": height, "rx": 4, **attributes})

    def arrow(self, x1: float, y: float, x2: float, **attributes: Any) -> None:
        """A horizontal arrow from x1 to x2."""
        tip = 6 if x2 < x1 else -6
        self.line(x1, y, x2, y, **{"stroke": ORANGE, "stroke_width": 1.5, **attributes})
        self.add("path", d=f"M{x2} {y} l{tip} -4 v8 z", fill=attributes.get("stroke", ORANGE))

    def svg(self) -> str:
        """The whole picture as text."""
        head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_short(self.width)} {_short(self.height)}" '
            f'width="{_short(self.width)}" role="img" font-family="system-ui, -apple-system, sans-serif">'
        )
        card = (
            f'<rect x="0.5" y="0.5" width="{_short(self.width - 1)}" height="{_short(self.height - 1)}" rx="8" '
            f'fill="{PAPER}" stroke="{FAINT}"/>'
        )
        return "\n".join([head, f"<title>{escape(self.title)}</title>", card, *self.shapes, "</svg>", ""])


def _short(value: Any) -> str:
    return f"{value:.1f}".removesuffix(".0") if isinstance(value, float) else str(value)


# ---------------------------------------------------------------- the paper's example


def objects(first: int, last: int) -> Objects:
    """The paper's objects number `first` to `last`, one a second."""
    number = np.arange(first, last + 1)
    return Objects(np.array(SCORES[first - 1 : last], float), (number - 1) * SECOND, number)


def moments() -> list[tuple[str, list[tuple[int, int, int]], dict[int, int]]]:
    """The super-top-k list at three moments: marks (id, first, last window) and pointers {window: id}."""
    engine: Any = build("mintopk", QueryFamily.of(QUERY))
    told = []
    for caption, arrivals, until in (
        ("W0 is complete", objects(1, 16), 15.5),
        ("W0 has closed", objects(17, 16), 16),
        ("17 to 20 have come", objects(17, 20), 19.5),
    ):
        engine.advance(arrivals, int(until * SECOND))
        told.append((caption, engine.marks(), engine.bounds()))
    return told


def panes() -> Drawing:
    """Which of the first 16 objects are kept, in the plane of arrival and score."""
    d = Drawing(720, 380, "The 16 objects of window W0 by arrival and score; 6 of them are kept")
    left, right, top, bottom = 56, 700, 58, 330
    kept = {number: (first, last) for number, first, last in moments()[0][1]}
    step = (right - left) / 16

    def across(place: float) -> float:
        return left + place * step

    def up(score: float) -> float:
        return bottom - 12 - score / 100 * (bottom - 12 - top)

    for pane in range(4):
        if pane % 2 == 0:
            d.box(across(4 * pane), top - 8, 4 * step, bottom - top + 8, fill="#f5f7fa")
        d.text(across(4 * pane + 2), bottom + 18, f"pane {pane}", text_anchor="middle", fill=SOFT)
    for window in range(4):
        level = 14 + 9 * window
        d.line(
            across(4 * window), level, across(16), level, stroke=BLUE, stroke_width=3, stroke_opacity=1 - 0.2 * window
        )
        d.text(across(4 * window) - 6, level + 4, f"W{window}", text_anchor="end", fill=BLUE, font_size=11)
    d.line(left, bottom, right, bottom, stroke=SOFT)
    d.line(left, top - 8, left, bottom, stroke=SOFT)
    d.text(right, bottom + 36, "arrival", text_anchor="end", fill=SOFT)
    d.text(left - 10, top + 4, "score", text_anchor="end", fill=SOFT)
    for number in range(1, 17):
        x, y = across(number - 0.5), up(SCORES[number - 1])
        if number in kept:
            d.add("circle", cx=x, cy=y, r=13, fill=BLUE)
            d.text(x, y + 4.5, str(number), text_anchor="middle", fill=PAPER, font_weight=600)
        else:
            d.add("circle", cx=x, cy=y, r=13, fill=PAPER, stroke=SOFT, stroke_dasharray="3 3")
            d.text(x, y + 4.5, str(number), text_anchor="middle", fill=SOFT)
    d.text(left, bottom + 36, f"filled: kept ({len(kept)}).  dashed: dropped for good ({16 - len(kept)}).")
    return d


def predicted() -> Drawing:
    """PreTopk: a list of its own for every open window, before and after the slide."""
    d = Drawing(720, 196, "The predicted lists of every open window, before and after the slide")
    told = moments()
    for at, (caption, marks, _) in enumerate((told[0], told[2])):
        x0 = 24 + 352 * at
        d.text(x0, 30, caption, font_weight=600)
        windows = range(min(m[1] for m in marks), max(m[2] for m in marks) + 1)
        for place, window in enumerate(windows):
            x = x0 + 82 * place
            d.text(x + 35, 56, f"W{window}", text_anchor="middle", fill=BLUE, font_weight=600)
            members = [number for number, first, last in marks if first <= window <= last]
            for rank, number in enumerate(members):
                new = number > 16
                d.box(x, 66 + 34 * rank, 70, 28, fill=ORANGE if new else PALE, fill_opacity=0.25 if new else 1)
                d.text(x + 35, 85 + 34 * rank, str(number), text_anchor="middle")
    d.text(24, 184, "orange: came with the slide", fill=SOFT, font_size=12)
    return d


def super_list() -> Drawing:
    """The super-top-k list at three moments, with marks and pointers."""
    told = moments()
    rows = max(len(marks) for _, marks, _ in told)
    d = Drawing(
        744,
        110 + 44 * rows,
        "The super-top-k list before and after the slide, with window marks and pointers",
    )
    for at, (caption, marks, bounds) in enumerate(told):
        x = 24 + 236 * at
        d.text(x, 30, caption, font_weight=600)
        d.text(x, 50, "object", fill=SOFT, font_size=11)
        d.text(x + 52, 50, "first - last window", fill=SOFT, font_size=11)
        d.text(x + 160, 50, "points here", fill=ORANGE, font_size=11)
        for place, (number, first, last) in enumerate(marks):
            y = 60 + 44 * place
            new = number > 16
            d.box(x, y, 150, 34, fill=ORANGE if new else PALE, fill_opacity=0.25 if new else 1)
            d.text(x + 20, y + 22, str(number), text_anchor="middle", font_weight=600)
            d.line(x + 42, y, x + 42, y + 34, stroke=PAPER, stroke_width=2)
            d.text(x + 96, y + 22, f"W{first} - W{last}", text_anchor="middle")
            here = [f"W{window}" for window, pointed in bounds.items() if pointed == number]
            if here:
                d.arrow(x + 174, y + 17, x + 154)
                d.text(x + 178, y + 21.5, " ".join(here), fill=ORANGE, font_size=12)
    y = 60 + 44 * rows + 16
    d.text(
        24,
        y + 4,
        "best on top; of every window the pointer marks the k-th best (k = 3); orange: came with the slide",
        fill=SOFT,
        font_size=12,
    )
    return d


def waiting() -> Drawing:
    """Sweep on the same stream: the ranked band, and what waits behind it."""
    engine: Any = build("sweep", QueryFamily.of(QUERY))
    d = Drawing(720, 224, "What sweep keeps on the same stream: a ranked band, and rows that wait behind it")
    for at, (caption, arrivals, until) in enumerate(
        (
            ("W0 is complete", objects(1, 16), 15.5),
            ("W0 has closed", objects(17, 16), 16),
            ("17 to 20 have come", objects(17, 20), 19.5),
        )
    ):
        answers = engine.advance(arrivals, int(until * SECOND))
        saved = engine.snapshot()
        ranked = int(saved["ranked"][0])
        y = 24 + 58 * at
        d.text(24, y + 24, caption, font_weight=600)
        if at == 1:
            d.text(24, y + 41, f"answer: {' '.join(map(str, answers.id[-3:]))}", fill=BLUE, font_size=12)
        for place, number in enumerate(saved["id"].tolist()):
            x = 190 + 44 * place + (14 if place >= ranked else 0)
            if place < ranked:
                d.box(x, y + 4, 38, 32, fill=PALE)
            else:
                d.box(x, y + 4, 38, 32, fill=PAPER, stroke=ORANGE, stroke_dasharray="4 3")
            d.text(x + 19, y + 25, str(number), text_anchor="middle")
    d.text(
        24,
        208,
        "blue: the band, best first.  dashed: winners of their panes that wait, in the order in which they came.",
        fill=SOFT,
        font_size=12,
    )
    return d


# ---------------------------------------------------------------- the size of the minimal set

K, RATIOS, SLIDE = 50, (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000), 100


def measured() -> list[tuple[int, float]]:
    """How many rows are kept on average when a window is about to close, on random scores, in units of k."""
    rng = np.random.default_rng(20110321)
    told = []
    for ratio in RATIOS:
        window = sb.Sliding(f"{SLIDE * ratio} ms", f"{SLIDE} ms")  # one row a millisecond
        engine = build("sweep", QueryFamily.of(sb.TopK(k=K, by="x", window=window, time="t")))
        looks = max(8, 400 // ratio)
        sizes, at = [], 0
        for look in range(looks + 1):
            rows = SLIDE * ratio if look else 2 * SLIDE * ratio  # the first look only fills the window
            place = np.arange(at, at + rows)
            at += rows
            engine.advance(Objects(rng.random(rows), 1000 * place, place), 1000 * at - 1)
            sizes.append(len(engine.candidates().id))
        told.append((ratio, float(np.mean(sizes[1:])) / K))
    return told


def size() -> Drawing:
    """How many rows are kept: measured, k * H(win / slide), and the printed 2 k."""
    d = Drawing(720, 330, "The size of the minimal set grows as the harmonic number of win / slide, not as 2 k")
    left, right, top, bottom = 64, 690, 30, 276

    def across(ratio: float) -> float:
        return left + 16 + float(np.log10(ratio)) / 3 * (right - left - 32)

    def up(times: float) -> float:
        return bottom - times / 8 * (bottom - top)

    for mark in range(0, 9, 2):
        d.line(left, up(mark), right, up(mark))
        label = f"{mark} k" if mark else "0"
        d.text(left - 8, up(mark) + 4, label, text_anchor="end", fill=SOFT, font_size=12)
    for ratio in (1, 10, 100, 1000):
        d.text(across(ratio), bottom + 20, f"{ratio:,}", text_anchor="middle", fill=SOFT, font_size=12)
    d.text(right, bottom + 40, "slides in a window (win / slide)", text_anchor="end", fill=SOFT, font_size=12)
    harmonic = np.cumsum(1 / np.arange(1, 1001))
    path = " ".join(
        f"{_short(across(r))},{_short(up(float(harmonic[r - 1])))}" for r in (*range(1, 30), *range(30, 1001, 10))
    )
    d.add("polyline", points=path, fill="none", stroke=BLUE, stroke_width=2)
    d.line(across(1), up(2), across(1000), up(2), stroke=ORANGE, stroke_width=2, stroke_dasharray="6 4")
    for ratio, times in measured():
        d.add("circle", cx=across(ratio), cy=up(times), r=4.5, fill=PAPER, stroke=INK, stroke_width=2)
    d.text(across(150), up(7.1), "k * H(win / slide)", fill=BLUE, text_anchor="end")
    d.text(across(1000), up(2) + 18, "2 k, as printed", fill=ORANGE, text_anchor="end")
    d.add("circle", cx=left + 14, cy=bottom + 36, r=4.5, fill=PAPER, stroke=INK, stroke_width=2)
    d.text(left + 26, bottom + 40, f"kept by sweep on random scores, k = {K}", font_size=12)
    return d


# ---------------------------------------------------------------- the picture of the README


def trades() -> pa.Table:
    """Ten minutes of made-up trades."""
    rng = np.random.default_rng(7)
    rows = 420
    time = np.sort(rng.choice(600 * 1000, rows, replace=False))
    symbol = rng.choice(["ATLAS", "BORA", "CIRRUS", "DELTA", "EMBER", "FJORD"], rows)
    volume = np.round(rng.lognormal(4.2, 0.9, rows)).astype(np.int64)
    price = np.round(
        np.array([40 + 12 * "ABCDEF".index(s[0]) for s in symbol]) * (1 + 0.02 * rng.standard_normal(rows)), 2
    )
    stamp = np.datetime64("2024-03-04T09:30", "ms") + time
    return pa.table({"ts": stamp, "symbol": symbol, "price": price, "volume": volume})


BOARD: dict[str, Any] = {"k": 6, "by": "price * volume", "window": sb.Sliding("5 minutes", "1 minute"), "time": "ts"}
UNTIL = int(np.datetime64("2024-03-04T09:39", "us").astype(np.int64))
SPAN = 300 * SECOND


def board() -> Drawing:
    """A leaderboard, and the rows that are kept for the ones to come."""
    rows = trades()
    leaders = _of_last_window(sb.run(sb.TopK(**BOARD), rows))
    changes = _of_last_window(sb.run(sb.TopK(**BOARD, emit="changes"), rows))
    d = Drawing(860, 372, "A top 6 of trades: the stream with the rows that are kept, and the leaderboard")
    _plane(d, rows, {(r["ts"], r["score"]) for r in leaders})
    _list(d, leaders, changes)
    return d


def _of_last_window(table: pa.Table) -> list[dict[str, Any]]:
    end = table["window_end"].to_numpy().astype("datetime64[us]").astype(np.int64)
    chosen: list[dict[str, Any]] = table.take(pa.array(np.flatnonzero(end == UNTIL))).to_pylist()
    return chosen


def _plane(d: Drawing, rows: pa.Table, winners: set[tuple[Any, float]]) -> None:
    """The rows of the window by time and score: those in the list, those kept, and the rest."""
    left, right, top, bottom = 30, 420, 66, 330
    time = rows["ts"].to_numpy().astype("datetime64[us]").astype(np.int64)
    score = rows["price"].to_numpy() * rows["volume"].to_numpy()
    seen = np.flatnonzero(time < UNTIL)
    engine = build("sweep", QueryFamily.of(sb.TopK(**BOARD)))
    engine.advance(Objects(score[seen], time[seen], seen), UNTIL - 1)
    kept = set(engine.candidates().id.tolist())
    alive = seen[time[seen] >= UNTIL - SPAN]
    high = score[alive].max() * 1.08
    told = f"{len(alive)} rows; the {len(kept)} filled ones are kept, the rest is forgotten"
    d.text(left, 32, "The last 5 minutes of a stream", font_weight=600, font_size=15)
    d.text(left, 50, told, fill=SOFT, font_size=12)
    for minute in range(6):
        x = left + (right - left) * minute / 5
        d.line(x, top, x, bottom)
        d.text(x, bottom + 18, f"9:{34 + minute}", text_anchor="middle", fill=SOFT, font_size=11)
    d.line(left, bottom, right, bottom, stroke=SOFT)
    moment = rows["ts"].to_pylist()
    for place in alive.tolist():
        x = left + (right - left) * float(time[place] - UNTIL + SPAN) / SPAN
        y = bottom - (bottom - top) * float(score[place] / high)
        if (moment[place], score[place]) in winners:
            d.add("circle", cx=x, cy=y, r=6, fill=ORANGE)
        elif place in kept:
            d.add("circle", cx=x, cy=y, r=4.5, fill=BLUE)
        else:
            d.add("circle", cx=x, cy=y, r=2.5, fill="none", stroke=SOFT)


def _list(d: Drawing, leaders: list[dict[str, Any]], changes: list[dict[str, Any]]) -> None:
    """The ranked list, with what is new in it and what has left it."""
    left, top = 460, 76
    new = {(r["ts"], r["score"]) for r in changes if r["_change_type"] == "insert"}
    gone = ", ".join(f"{r['symbol']} {r['score']:,.0f}" for r in changes if r["_change_type"] == "delete")
    d.text(left, 32, f"The {len(leaders)} largest of them", font_weight=600, font_size=15)
    d.text(left, 50, "09:34 - 09:39, price * volume", fill=SOFT, font_size=12)
    for place, row in enumerate(leaders):
        y = top + 40 * place
        d.box(left, y, 370 * row["score"] / leaders[0]["score"], 30, fill=PALE, fill_opacity=0.7)
        d.text(left + 12, y + 20, str(row["rank"]), fill=SOFT, font_weight=600)
        d.text(left + 34, y + 20, row["symbol"], font_weight=600)
        d.text(left + 112, y + 20, f"{row['volume']} at {row['price']:.2f}")
        d.text(left + 362, y + 20, f"{row['score']:,.0f}", text_anchor="end", font_weight=600)
        if (row["ts"], row["score"]) in new:
            d.text(left + 230, y + 20, "new", fill=ORANGE, font_weight=600)
    d.text(left, top + 40 * len(leaders) + 20, f"left the list: {gone}", fill=SOFT, font_size=12)


FIGURES = {
    "board.svg": board,
    "panes.svg": panes,
    "predicted.svg": predicted,
    "super-list.svg": super_list,
    "waiting.svg": waiting,
    "size.svg": size,
}


def main(check: bool) -> int:
    """Write the pictures, or with `check` say which ones are out of date."""
    old = []
    for name, draw in FIGURES.items():
        path, drawn = HERE / name, draw().svg()
        if path.exists() and path.read_text(encoding="utf-8") == drawn:
            continue
        old.append(name)
        if not check:
            HERE.mkdir(parents=True, exist_ok=True)
            path.write_text(drawn, encoding="utf-8")
    print(f"{'out of date' if check else 'drawn'}: {', '.join(old) or 'nothing'}")
    return 1 if check and old else 0


if __name__ == "__main__":
    sys.exit(main(check="--check" in sys.argv))
