// All boards as a grid of cards; those on the screen are updated.

import { digits, edge, fixed, parts, title } from "./format.js";
import { create, describeMove, setText, Rows } from "./rows.js";
import { sparkline } from "./sparkline.js";
import { VirtualList } from "./virtual_list.js";

const ROW = 26;
const CARD_ROWS = 5;

export const link = (key) => `#/board/${encodeURIComponent(JSON.stringify(key))}`;

export class BoardGrid {
  /** @param changed called when other boards come into view */
  constructor(boards, changed) {
    this.boards = boards;
    this.cards = new Map(); // by id
    this.latest = new Map(); // last events of recently shown boards
    this.list = new VirtualList(document.getElementById("cards"), {
      scroller: null, width: 272, height: 210, gap: 14,
      build: () => this.build(),
      show: (card, index) => this.show(card, index),
      hide: (card) => this.hide(card),
      changed,
    });
  }

  get keys() {
    return [...this.cards.values()].map((card) => card.key);
  }

  build() {
    const node = create("article", "card board-card");
    node.setAttribute("role", "listitem");
    const name = create("a", "name");
    const group = create("span", "group");
    const when = create("span", "when soft num");
    const spark = sparkline(84, 30);
    const table = create("table");
    const caption = create("caption", "hidden");
    const head = create("thead", "hidden");
    const line = create("tr");
    for (const text of ["rank", "move", "row", "score"]) {
      const cell = create("th", "", text);
      cell.scope = "col";
      line.append(cell);
    }
    head.append(line);
    const body = create("tbody");
    const widths = create("colgroup");
    for (const name of ["rank", "move", "label", "score"]) widths.append(create("col", name));
    table.append(caption, widths, head, body);
    const top = create("div", "card-head");
    const words = create("div", "words");
    const below = create("div", "below");
    below.append(group, when);
    words.append(name, below);
    top.append(words, spark.node);
    node.append(top, table);
    const card = { node, name, group, when, spark, caption, id: "", key: null, top: 1, digits: 0 };
    card.rows = new Rows(body, row, (entry, data) => fill(entry, data, card), ROW);
    return card;
  }

  show(card, index) {
    const key = this.boards.at(index) ?? null;
    const id = key ? JSON.stringify(key) : "";
    if (card.id === id && id) return;
    this.hide(card);
    Object.assign(card, { id, key });
    card.node.classList.toggle("loading", true);
    if (!key) return;
    this.cards.set(id, card);
    setText(card.name, key[0]);
    card.name.href = link(key);
    card.name.title = title(key);
    setText(card.group, parts(key).join(" · "));
    setText(card.caption, title(key));
    const known = this.latest.get(id);
    if (known) this.fill(card, known, true);
  }

  hide(card) {
    if (this.cards.get(card.id) === card) this.cards.delete(card.id);
    Object.assign(card, { id: "", key: null });
    setText(card.name, "");
    setText(card.group, "");
    setText(card.when, "");
    card.spark.draw([]);
    card.rows.clear();
  }

  /** Show a new event of a board. */
  update(data) {
    const id = JSON.stringify(data.board);
    const first = !this.latest.has(id);
    this.latest.delete(id);
    this.latest.set(id, data);
    if (this.latest.size > 300) this.latest.delete(this.latest.keys().next().value);
    const card = this.cards.get(id);
    if (card) this.fill(card, data, first);
  }

  fill(card, data, still) {
    card.node.classList.toggle("loading", false);
    const scores = data.rows.map((each) => each.score);
    card.digits = digits(scores);
    card.top = scale(scores);
    card.rows.update(data.rows.slice(0, CARD_ROWS), still);
    setText(card.when, edge(data.end, data.timed));
    card.spark.draw(data.trend);
  }
}

/** Return a function from a score to the length of its bar: 1 for the best score. */
export function scale(scores) {
  const numbers = scores.filter((score) => typeof score === "number");
  const low = Math.min(0, ...numbers);
  const high = Math.max(0, ...numbers);
  return (score) => (typeof score === "number" && high > low ? (score - low) / (high - low) : 0);
}

function row() {
  const node = create("tr");
  const rank = create("td", "rank num");
  const move = create("td", "move num");
  const label = create("td", "label");
  const score = create("td", "score num");
  const bar = create("i", "meter");
  const text = create("span");
  score.append(bar, text);
  node.append(rank, move, label, score);
  return { node, rank, move, label, text, bar, index: 0 };
}

function fill(entry, data, card) {
  const [sign, style, words] = describeMove(data.move);
  setText(entry.rank, String(data.rank));
  setText(entry.move, sign);
  if (entry.style !== style) entry.move.className = `move num ${(entry.style = style)}`;
  if (entry.words !== words) entry.move.setAttribute("aria-label", (entry.words = words));
  setText(entry.label, data.label);
  setText(entry.text, typeof data.score === "number" ? fixed(data.score, card.digits) : String(data.score));
  const part = card.top(data.score).toFixed(3);
  if (entry.part !== part) entry.bar.style.transform = `scaleX(${(entry.part = part)})`;
}
