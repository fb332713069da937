// Rows of a table that keep their identity: they move to their new rank instead of being written anew.

const calm = matchMedia("(prefers-reduced-motion: reduce)");
const MOVE = { duration: 280, easing: "cubic-bezier(.2,.8,.2,1)" };
const FOLLOWED = 400; // milliseconds: no eye can follow many rows that move more often

/** Put `text` into `node`, as text, if it is not there already. */
export function put(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

/** A new element with a class and, perhaps, a text. */
export function make(tag, name = "", text = "") {
  const element = document.createElement(tag);
  if (name) element.className = name;
  if (text) element.textContent = text;
  return element;
}

/** How a row has moved, as a sign, a class and words. */
export function moved(move) {
  if (move === null) return ["new", "in", "new on the board"];
  if (move > 0) return [`▲${move}`, "up", `up ${move}`];
  if (move < 0) return [`▼${-move}`, "down", `down ${-move}`];
  return ["·", "same", "unchanged"];
}

export class Rows {
  /**
   * @param body the tbody
   * @param build makes a row: {node, ...} whose fields `fill` knows
   * @param fill writes a row's data into what `build` made
   * @param height of a row in pixels: known, so that nothing has to be measured while it moves
   * @param few rows that may move even when the board changes faster than an eye can follow: every row that moves is
   *   a layer of its own for a while, and all of them are drawn at every frame
   * @param fade whether new rows come in softly
   */
  constructor(body, build, fill, height, few = 0, fade = false) {
    Object.assign(this, { body, build, fill, height, few, fade });
    this.shown = new Map();
    Object.assign(this, { since: -FOLLOWED, gap: FOLLOWED }); // the last update, and how long after another it came
  }

  /** Show `rows`; `still` moves nothing. Says whether rows may move. */
  update(rows, still = false) {
    const before = this.shown;
    const now = new Map();
    const spare = [];
    const keys = new Set(rows.map((row) => row.key));
    for (const [key, entry] of before) if (!keys.has(key)) spare.push(entry);
    const gap = performance.now() - this.since;
    const quick = gap < FOLLOWED && this.gap < FOLLOWED; // once is no haste
    this.since += gap;
    this.gap = gap;
    const moving = quick ? rows.filter((row, index) => (before.get(row.key)?.index ?? -1) !== index).length : 0;
    const motion = !still && !calm.matches && before.size > 0 && moving <= this.few;
    rows.forEach((row, index) => {
      let entry = before.get(row.key);
      const known = entry !== undefined;
      if (!known) entry = spare.pop() ?? this.build();
      this.fill(entry, row);
      const from = entry.index;
      entry.index = index;
      now.set(row.key, entry);
      const there = this.body.children[index];
      if (there !== entry.node) this.body.insertBefore(entry.node, there ?? null);
      if (!motion) return;
      if (known && from !== index) {
        entry.node.animate([{ transform: `translateY(${(from - index) * this.height}px)` }, { transform: "none" }], MOVE);
      } else if (!known && this.fade) {
        entry.node.animate([{ opacity: 0.2, transform: "translateX(-6px)" }, { opacity: 1, transform: "none" }], MOVE);
      }
    });
    for (const entry of spare) entry.node.remove();
    this.shown = now;
    return motion;
  }

  clear() {
    this.shown.clear();
    this.body.replaceChildren();
  }
}
