// Table rows that keep their identity: a row moves to its new rank instead of being redrawn.

const reducedMotion = matchMedia("(prefers-reduced-motion: reduce)");
const MOVE = { duration: 280, easing: "cubic-bezier(.2,.8,.2,1)" };
const MIN_GAP = 400; // milliseconds between updates in which many rows are animated

/** Set the text of `node` if it differs. */
export function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

/** Create an element with a class and a text. */
export function create(tag, name = "", text = "") {
  const element = document.createElement(tag);
  if (name) element.className = name;
  if (text) element.textContent = text;
  return element;
}

/** Describe the move of a row: symbol, class and label. */
export function describeMove(move) {
  if (move === null) return ["new", "in", "new"];
  if (move > 0) return [`▲${move}`, "up", `up ${move}`];
  if (move < 0) return [`▼${-move}`, "down", `down ${-move}`];
  return ["·", "same", "unchanged"];
}

export class Rows {
  /**
   * @param body the tbody
   * @param build returns a row: {node, ...}
   * @param fill writes data into a row that `build` returned
   * @param height of a row in pixels: given, so that nothing has to be measured
   * @param few rows that may be animated even at fast updates: each animated row is a layer of its own, and all
   *   layers are drawn in every frame
   * @param fade whether new rows fade in
   */
  constructor(body, build, fill, height, few = 0, fade = false) {
    Object.assign(this, { body, build, fill, height, few, fade });
    this.shown = new Map();
    Object.assign(this, { since: -MIN_GAP, gap: MIN_GAP }); // the last update, and the time before it
  }

  /** Show `rows`, without animation if `still`. Returns whether moves were animated. */
  update(rows, still = false) {
    const before = this.shown;
    const now = new Map();
    const spare = [];
    const keys = new Set(rows.map((row) => row.key));
    for (const [key, entry] of before) if (!keys.has(key)) spare.push(entry);
    const gap = performance.now() - this.since;
    const quick = gap < MIN_GAP && this.gap < MIN_GAP; // two fast updates in a row
    this.since += gap;
    this.gap = gap;
    const moving = quick ? rows.filter((row, index) => (before.get(row.key)?.index ?? -1) !== index).length : 0;
    const motion = !still && !reducedMotion.matches && before.size > 0 && moving <= this.few;
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
