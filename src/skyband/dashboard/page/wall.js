// The wall: every board as a card; those on the screen are live.

import { digits, edge, fixed, parts, title } from "./format.js";
import { make, moved, put, Rows } from "./rows.js";
import { sparkline } from "./spark.js";
import { Virtual } from "./virtual.js";

const ROW = 26;
const LEAST = 5; // rows of a card

export const link = (key) => `#/board/${encodeURIComponent(JSON.stringify(key))}`;

export class Wall {
  /** @param changed called when other boards are on the screen */
  constructor(catalogue, changed) {
    this.catalogue = catalogue;
    this.cards = new Map(); // by id
    this.latest = new Map(); // what was told of boards seen lately
    this.list = new Virtual(document.getElementById("cards"), {
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
    const node = make("article", "card board-card");
    node.setAttribute("role", "listitem");
    const name = make("a", "name");
    const group = make("span", "group");
    const when = make("span", "when soft num");
    const spark = sparkline(84, 30);
    const table = make("table");
    const caption = make("caption", "hidden");
    const head = make("thead", "hidden");
    const line = make("tr");
    for (const text of ["rank", "move", "row", "score"]) {
      const cell = make("th", "", text);
      cell.scope = "col";
      line.append(cell);
    }
    head.append(line);
    const body = make("tbody");
    const widths = make("colgroup");
    for (const name of ["rank", "move", "label", "score"]) widths.append(make("col", name));
    table.append(caption, widths, head, body);
    const top = make("div", "card-head");
    const words = make("div", "words");
    const below = make("div", "below");
    below.append(group, when);
    words.append(name, below);
    top.append(words, spark.node);
    node.append(top, table);
    const card = { node, name, group, when, spark, caption, id: "", key: null, top: 1, digits: 0 };
    card.rows = new Rows(body, row, (entry, data) => fill(entry, data, card), ROW);
    return card;
  }

  show(card, index) {
    const key = this.catalogue.at(index) ?? null;
    const id = key ? JSON.stringify(key) : "";
    if (card.id === id && id) return;
    this.hide(card);
    Object.assign(card, { id, key });
    card.node.classList.toggle("loading", true);
    if (!key) return;
    this.cards.set(id, card);
    put(card.name, key[0]);
    card.name.href = link(key);
    card.name.title = title(key);
    put(card.group, parts(key).join(" · "));
    put(card.caption, title(key));
    const known = this.latest.get(id);
    if (known) this.fill(card, known, true);
  }

  hide(card) {
    if (this.cards.get(card.id) === card) this.cards.delete(card.id);
    Object.assign(card, { id: "", key: null });
    put(card.name, "");
    put(card.group, "");
    put(card.when, "");
    card.spark.draw([]);
    card.rows.clear();
  }

  /** Take what was told of a board. */
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
    card.rows.update(data.rows.slice(0, LEAST), still);
    put(card.when, edge(data.end, data.timed));
    card.spark.draw(data.trend);
  }
}

/** What makes the best score a full bar, and the others parts of it. */
export function scale(scores) {
  const numbers = scores.filter((score) => typeof score === "number");
  const low = Math.min(0, ...numbers);
  const high = Math.max(0, ...numbers);
  return (score) => (typeof score === "number" && high > low ? (score - low) / (high - low) : 0);
}

function row() {
  const node = make("tr");
  const rank = make("td", "rank num");
  const move = make("td", "move num");
  const label = make("td", "label");
  const score = make("td", "score num");
  const bar = make("i", "meter");
  const text = make("span");
  score.append(bar, text);
  node.append(rank, move, label, score);
  return { node, rank, move, label, text, bar, index: 0 };
}

function fill(entry, data, card) {
  const [sign, style, words] = moved(data.move);
  put(entry.rank, String(data.rank));
  put(entry.move, sign);
  if (entry.style !== style) entry.move.className = `move num ${(entry.style = style)}`;
  if (entry.words !== words) entry.move.setAttribute("aria-label", (entry.words = words));
  put(entry.label, data.label);
  put(entry.text, typeof data.score === "number" ? fixed(data.score, card.digits) : String(data.score));
  const part = card.top(data.score).toFixed(3);
  if (entry.part !== part) entry.bar.style.transform = `scaleX(${(entry.part = part)})`;
}
