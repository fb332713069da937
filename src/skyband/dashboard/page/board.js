// One board in full: its rows, its history, the rows that entered and left.

import { cell, count, day, digits, edge, fixed, parts, title } from "./format.js";
import { create, describeMove, setText, Rows } from "./rows.js";
import { path } from "./sparkline.js";
import { boardPath, get } from "./stream.js";
import { VirtualList } from "./virtual_list.js";
import { link, scale } from "./grid.js";

const ROW = 38;
const FEW = 3; // rows that are animated even at five updates per second
const PAD = 9; // half of the slider's thumb
const $ = (id) => document.getElementById(id);

export class BoardView {
  constructor(boards, say) {
    Object.assign(this, { boards, say, key: null, id: "", newest: null, number: null, windows: [], form: "" });
    this.rows = new Rows($("board").tBodies[0], () => this.build(), (entry, row) => this.fill(entry, row), ROW, FEW, true);
    this.list = new VirtualList($("names"), {
      scroller: $("scroll"), height: 34,
      build: () => this.buildEntry(),
      show: (item, index) => this.showEntry(item, index),
    });
    $("slider").addEventListener("input", () => this.select(Number($("slider").value)));
    $("older").addEventListener("click", () => this.step(-1));
    $("newer").addEventListener("click", () => this.step(1));
    $("live").addEventListener("click", () => this.live());
    this.size = [0, 0]; // of the chart: reported by an observer, since measuring forces a layout
    new ResizeObserver(([{ contentRect }]) => {
      this.size = [Math.round(contentRect.width), Math.round(contentRect.height)];
      this.draw();
    }).observe($("chart"));
  }

  // ------------------------------------------------------------- board

  open(key) {
    const id = JSON.stringify(key);
    if (id === this.id) return;
    Object.assign(this, { key, id, newest: null, number: null, windows: [], form: "", shown: null });
    this.rows.clear();
    setText($("title"), key[0]);
    $("title").dataset.group = parts(key).join(" · ");
    setText($("asked"), "");
    for (const name of ["window", "day", "kth", "in-count", "out-count"]) setText($(name), "");
    for (const name of ["entered", "left"]) $(name).replaceChildren();
    $("waiting").hidden = false;
    $("board").hidden = true;
    $("more").hidden = true;
    this.draw();
    this.list.refresh();
    document.title = `${title(key)} – skyband`;
    get(boardPath([key[0]], "/about")).then((about) => {
      if (id !== this.id) return;
      const order = about.ascending ? "smallest" : "largest";
      const best = about.k === null ? "" : `the ${about.k} with the ${order} ${about.by || "score"}`;
      const group = key.slice(1).map((part, i) => `${about.per[i]} ${part ?? "NULL"}`).join(", ");
      setText($("asked"), [best, about.window, group].filter(Boolean).join("  ·  "));
    }, () => {});
  }

  close() {
    Object.assign(this, { key: null, id: "" });
  }

  buildEntry() {
    const node = create("div", "entry");
    node.setAttribute("role", "listitem");
    const anchor = create("a");
    const label = create("span", "name");
    const group = create("span", "group soft");
    anchor.append(label, group);
    node.append(anchor);
    return { node, anchor, label, group };
  }

  showEntry(item, index) {
    const key = this.boards.at(index);
    setText(item.label, key ? key[0] : "");
    setText(item.group, key ? parts(key).join(" · ") : "");
    if (!key) return;
    item.anchor.href = link(key);
    item.anchor.title = title(key);
    if (JSON.stringify(key) === this.id) item.anchor.setAttribute("aria-current", "page");
    else item.anchor.removeAttribute("aria-current");
  }

  // ------------------------------------------------------------- window

  /** Show a new event of the board, unless an older window is selected. */
  update(data) {
    if (JSON.stringify(data.board) !== this.id) return;
    const first = this.newest === null;
    this.newest = data;
    this.windows = data.windows;
    if (this.number === null) {
      this.show(data, first);
      this.announce(data);
    }
    requestAnimationFrame(() => this.draw()); // the rows take this frame, the rest the next
  }

  get position() {
    const last = this.windows.length - 1;
    if (this.number === null) return last;
    const place = this.windows.findIndex(([number]) => number === this.number);
    return place < 0 ? 0 : place;
  }

  step(by) {
    if (!this.windows.length) return;
    this.select(Math.max(0, Math.min(this.windows.length - 1, this.position + by)));
  }

  live() {
    this.number = null;
    if (this.newest) this.show(this.newest);
    this.draw();
  }

  async select(place) {
    if (place >= this.windows.length - 1) return this.live();
    const [number] = this.windows[place];
    this.number = number;
    this.draw();
    try {
      const data = await get(boardPath(this.key, `/windows/${number}`));
      if (this.number !== number) return;
      this.show(data);
      this.showChanges(data);
    } catch {
      this.say("This window is no longer available.");
      if (this.number === number) this.live();
    }
  }

  // ------------------------------------------------------------- drawing

  show(data, still = false) {
    this.shown = data;
    $("waiting").hidden = true;
    $("board").hidden = false;
    const form = JSON.stringify(data.columns);
    if (form !== this.form) this.buildHead(data, form);
    this.today = data.timed ? day(String(data.end)) : "";
    const scores = data.rows.map((row) => row.score);
    this.digits = digits(scores);
    this.scale = scale(scores);
    const widest = Math.max(1, ...scores.map((score) => this.formatScore(score).length));
    if (this.widest !== widest) $("board").style.setProperty("--digits", (this.widest = widest));
    this.places = this.order.map((i) => digits(data.rows.map((row) => row.cells[i])));
    const motion = this.rows.update(data.rows, still);
    if (this.motion !== motion) $("board").classList.toggle("moving", (this.motion = motion));
    setText($("window"), `${edge(data.start, data.timed)} – ${edge(data.end, data.timed)}`);
    setText($("day"), this.today);
    $("more").hidden = data.size <= data.rows.length;
    setText($("more"), `The first ${count(data.rows.length)} of ${count(data.size)} rows.`);
  }

  /** List the rows that entered and left. */
  showChanges(data) {
    if (this.listed === data) return;
    this.listed = data;
    const entered = data.rows.filter((row) => row.move === null);
    this.listChanges("entered", "in-count", entered.map((row) => [row.label, `at ${row.rank}`]));
    this.listChanges("left", "out-count", data.left.map((row) => [row.label, row.why || `was ${row.rank}`]));
  }

  buildHead(data, form) {
    this.form = form;
    this.rows.clear();
    const text = data.columns.findIndex((column) => column.kind === "text");
    const first = Math.max(0, text);
    this.order = data.columns.map((_, i) => i).sort((a, b) => (b === first) - (a === first) || a - b);
    this.columns = this.order.map((i) => data.columns[i]);
    const line = $("board").tHead.rows[0];
    line.replaceChildren();
    const add = (name, style, hidden = false) => {
      const cell = create("th", style, hidden ? "" : name);
      if (hidden) cell.append(create("span", "hidden", name));
      cell.scope = "col";
      line.append(cell);
    };
    add("#", "rank");
    add("move", "move", true);
    if (this.columns.length) add(this.columns[0].name, this.columns[0].kind);
    add("score", "score number");
    for (const column of this.columns.slice(1)) add(column.name, column.kind);
    setText($("board").caption, title(this.key));
  }

  build() {
    const node = create("tr");
    const rank = create("th", "rank num");
    rank.scope = "row";
    const move = create("td", "move num");
    const score = create("td", "score num number");
    const bar = create("i", "meter");
    const text = create("span");
    score.append(bar, text);
    const cells = this.columns.map((column, i) => create("td", i ? `${column.kind} num` : `${column.kind} first`));
    node.append(rank, move, ...cells.slice(0, 1), score, ...cells.slice(1));
    return { node, rank, move, text, bar, cells, index: 0 };
  }

  fill(entry, row) {
    const [sign, style, words] = describeMove(row.move);
    setText(entry.rank, String(row.rank));
    setText(entry.move, sign);
    if (entry.style !== style) entry.move.className = `move num ${(entry.style = style)}`;
    if (entry.words !== words) entry.move.setAttribute("aria-label", (entry.words = words));
    entry.node.classList.toggle("fresh", row.move === null);
    setText(entry.text, this.formatScore(row.score));
    const part = this.scale(row.score).toFixed(3);
    if (entry.part !== part) entry.bar.style.transform = `scaleX(${(entry.part = part)})`;
    entry.cells.forEach((node, i) => {
      setText(node, cell(row.cells[this.order[i]], this.columns[i].kind, this.places[i], this.today));
    });
  }

  formatScore(score) {
    return typeof score === "number" ? fixed(score, this.digits) : String(score);
  }

  listChanges(list, number, lines) {
    setText($(number), lines.length ? String(lines.length) : "");
    const node = $(list);
    while (node.children.length > Math.max(1, Math.min(12, lines.length))) node.lastChild.remove();
    const shown = lines.length ? lines.slice(0, 12) : [["none", ""]];
    shown.forEach(([name, why], i) => {
      let item = node.children[i];
      if (!item) {
        item = create("li");
        item.append(create("span", "who"), create("span", "soft num"));
        node.append(item);
      }
      item.classList.toggle("soft", !lines.length);
      setText(item.children[0], name);
      setText(item.children[1], why);
    });
  }

  draw() {
    if (this.shown) this.showChanges(this.shown);
    const chart = $("chart");
    const place = this.position;
    const slider = $("slider");
    const last = Math.max(0, this.windows.length - 1);
    slider.max = last;
    slider.value = Math.max(0, place);
    slider.disabled = last === 0;
    $("older").disabled = place <= 0;
    $("newer").disabled = $("live").disabled = this.number === null;
    $("focus").classList.toggle("past", this.number !== null);
    const [width, height] = this.size;
    if (!width) return;
    const found = path(this.windows.map(([, , score]) => score), width, height, PAD);
    const svg = chart.querySelector("svg");
    svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    svg.querySelector(".line").setAttribute("d", found.line);
    svg.querySelector(".area").setAttribute("d", found.area);
    const places = digits([found.low, found.high]);
    setText(chart.querySelector(".high"), found.high === null ? "" : fixed(found.high, places));
    setText(chart.querySelector(".low"), found.low === null || found.low === found.high ? "" : fixed(found.low, places));
    const window = this.windows[place];
    if (!window) return;
    const score = window[2] === null ? "–" : fixed(window[2], digits([window[2]]));
    setText($("kth"), score);
    slider.setAttribute("aria-valuetext", `window that ends at ${edge(window[1], typeof window[1] === "string")}, last score ${score}`);
  }

  /** Announce the state to screen readers, at most every ten seconds. */
  announce(data) {
    const now = Date.now();
    if (now - (this.announced ?? 0) < 10000 || !data.rows.length) return;
    this.announced = now;
    const entered = data.rows.filter((row) => row.move === null).length;
    this.say(`Window until ${edge(data.end, data.timed)}: ${data.rows[0].label} is first, ${entered} entered, ${data.left.length} left.`);
  }
}
