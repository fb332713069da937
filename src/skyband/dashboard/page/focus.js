// One board, large: its rows, its past, who came and who went.

import { cell, count, day, digits, edge, fixed, parts, title } from "./format.js";
import { make, moved, put, Rows } from "./rows.js";
import { path } from "./spark.js";
import { boardPath, get } from "./stream.js";
import { Virtual } from "./virtual.js";
import { link, scale } from "./wall.js";

const ROW = 38;
const FEW = 3; // rows that are seen to move even five times a second
const PAD = 9; // half of the slider's thumb
const $ = (id) => document.getElementById(id);

export class Focus {
  constructor(catalogue, say) {
    Object.assign(this, { catalogue, say, key: null, id: "", newest: null, number: null, windows: [], form: "" });
    this.rows = new Rows($("board").tBodies[0], () => this.build(), (entry, row) => this.fill(entry, row), ROW, FEW, true);
    this.list = new Virtual($("names"), {
      scroller: $("scroll"), height: 34,
      build: () => this.name(),
      show: (item, index) => this.showName(item, index),
    });
    $("slider").addEventListener("input", () => this.look(Number($("slider").value)));
    $("older").addEventListener("click", () => this.step(-1));
    $("newer").addEventListener("click", () => this.step(1));
    $("live").addEventListener("click", () => this.live());
    this.size = [0, 0]; // of the chart: told, never asked for, since asking lays out the page
    new ResizeObserver(([{ contentRect }]) => {
      this.size = [Math.round(contentRect.width), Math.round(contentRect.height)];
      this.draw();
    }).observe($("chart"));
  }

  // ------------------------------------------------------------- which board

  open(key) {
    const id = JSON.stringify(key);
    if (id === this.id) return;
    Object.assign(this, { key, id, newest: null, number: null, windows: [], form: "", shown: null });
    this.rows.clear();
    put($("title"), key[0]);
    $("title").dataset.group = parts(key).join(" · ");
    put($("asked"), "");
    for (const name of ["window", "day", "kth", "in-count", "out-count"]) put($(name), "");
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
      put($("asked"), [best, about.window, group].filter(Boolean).join("  ·  "));
    }, () => {});
  }

  close() {
    Object.assign(this, { key: null, id: "" });
  }

  name() {
    const node = make("div", "entry");
    node.setAttribute("role", "listitem");
    const anchor = make("a");
    const label = make("span", "name");
    const group = make("span", "group soft");
    anchor.append(label, group);
    node.append(anchor);
    return { node, anchor, label, group };
  }

  showName(item, index) {
    const key = this.catalogue.at(index);
    put(item.label, key ? key[0] : "");
    put(item.group, key ? parts(key).join(" · ") : "");
    if (!key) return;
    item.anchor.href = link(key);
    item.anchor.title = title(key);
    if (JSON.stringify(key) === this.id) item.anchor.setAttribute("aria-current", "page");
    else item.anchor.removeAttribute("aria-current");
  }

  // ------------------------------------------------------------- which window

  /** Take the newest window of the board. */
  update(data) {
    if (JSON.stringify(data.board) !== this.id) return;
    const first = this.newest === null;
    this.newest = data;
    this.windows = data.windows;
    if (this.number === null) {
      this.show(data, first);
      this.announce(data);
    }
    requestAnimationFrame(() => this.draw()); // the rows have this frame, the rest has the next
  }

  get place() {
    const last = this.windows.length - 1;
    if (this.number === null) return last;
    const place = this.windows.findIndex(([number]) => number === this.number);
    return place < 0 ? 0 : place;
  }

  step(by) {
    if (!this.windows.length) return;
    this.look(Math.max(0, Math.min(this.windows.length - 1, this.place + by)));
  }

  live() {
    this.number = null;
    if (this.newest) this.show(this.newest);
    this.draw();
  }

  async look(place) {
    if (place >= this.windows.length - 1) return this.live();
    const [number] = this.windows[place];
    this.number = number;
    this.draw();
    try {
      const data = await get(boardPath(this.key, `/windows/${number}`));
      if (this.number !== number) return;
      this.show(data);
      this.tell(data);
    } catch {
      this.say("This window is no longer kept.");
      if (this.number === number) this.live();
    }
  }

  // ------------------------------------------------------------- on the screen

  show(data, still = false) {
    this.shown = data;
    $("waiting").hidden = true;
    $("board").hidden = false;
    const form = JSON.stringify(data.columns);
    if (form !== this.form) this.head(data, form);
    this.today = data.timed ? day(String(data.end)) : "";
    const scores = data.rows.map((row) => row.score);
    this.digits = digits(scores);
    this.scale = scale(scores);
    const widest = Math.max(1, ...scores.map((score) => this.scored(score).length));
    if (this.widest !== widest) $("board").style.setProperty("--digits", (this.widest = widest));
    this.places = this.order.map((i) => digits(data.rows.map((row) => row.cells[i])));
    const motion = this.rows.update(data.rows, still);
    if (this.motion !== motion) $("board").classList.toggle("moving", (this.motion = motion));
    put($("window"), `${edge(data.start, data.timed)} – ${edge(data.end, data.timed)}`);
    put($("day"), this.today);
    $("more").hidden = data.size <= data.rows.length;
    put($("more"), `The first ${count(data.rows.length)} of ${count(data.size)} rows.`);
  }

  /** Who came and who went. */
  tell(data) {
    if (this.heard === data) return;
    this.heard = data;
    const entered = data.rows.filter((row) => row.move === null);
    this.news("entered", "in-count", entered.map((row) => [row.label, `at ${row.rank}`]));
    this.news("left", "out-count", data.left.map((row) => [row.label, row.why || `was ${row.rank}`]));
  }

  head(data, form) {
    this.form = form;
    this.rows.clear();
    const text = data.columns.findIndex((column) => column.kind === "text");
    const first = Math.max(0, text);
    this.order = data.columns.map((_, i) => i).sort((a, b) => (b === first) - (a === first) || a - b);
    this.columns = this.order.map((i) => data.columns[i]);
    const line = $("board").tHead.rows[0];
    line.replaceChildren();
    const add = (name, style, hidden = false) => {
      const cell = make("th", style, hidden ? "" : name);
      if (hidden) cell.append(make("span", "hidden", name));
      cell.scope = "col";
      line.append(cell);
    };
    add("#", "rank");
    add("move", "move", true);
    if (this.columns.length) add(this.columns[0].name, this.columns[0].kind);
    add("score", "score number");
    for (const column of this.columns.slice(1)) add(column.name, column.kind);
    put($("board").caption, title(this.key));
  }

  build() {
    const node = make("tr");
    const rank = make("th", "rank num");
    rank.scope = "row";
    const move = make("td", "move num");
    const score = make("td", "score num number");
    const bar = make("i", "meter");
    const text = make("span");
    score.append(bar, text);
    const cells = this.columns.map((column, i) => make("td", i ? `${column.kind} num` : `${column.kind} first`));
    node.append(rank, move, ...cells.slice(0, 1), score, ...cells.slice(1));
    return { node, rank, move, text, bar, cells, index: 0 };
  }

  fill(entry, row) {
    const [sign, style, words] = moved(row.move);
    put(entry.rank, String(row.rank));
    put(entry.move, sign);
    if (entry.style !== style) entry.move.className = `move num ${(entry.style = style)}`;
    if (entry.words !== words) entry.move.setAttribute("aria-label", (entry.words = words));
    entry.node.classList.toggle("fresh", row.move === null);
    put(entry.text, this.scored(row.score));
    const part = this.scale(row.score).toFixed(3);
    if (entry.part !== part) entry.bar.style.transform = `scaleX(${(entry.part = part)})`;
    entry.cells.forEach((node, i) => {
      put(node, cell(row.cells[this.order[i]], this.columns[i].kind, this.places[i], this.today));
    });
  }

  scored(score) {
    return typeof score === "number" ? fixed(score, this.digits) : String(score);
  }

  news(list, number, lines) {
    put($(number), lines.length ? String(lines.length) : "");
    const node = $(list);
    while (node.children.length > Math.max(1, Math.min(12, lines.length))) node.lastChild.remove();
    const shown = lines.length ? lines.slice(0, 12) : [["nobody", ""]];
    shown.forEach(([name, why], i) => {
      let item = node.children[i];
      if (!item) {
        item = make("li");
        item.append(make("span", "who"), make("span", "soft num"));
        node.append(item);
      }
      item.classList.toggle("soft", !lines.length);
      put(item.children[0], name);
      put(item.children[1], why);
    });
  }

  draw() {
    if (this.shown) this.tell(this.shown);
    const chart = $("chart");
    const place = this.place;
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
    put(chart.querySelector(".high"), found.high === null ? "" : fixed(found.high, places));
    put(chart.querySelector(".low"), found.low === null || found.low === found.high ? "" : fixed(found.low, places));
    const window = this.windows[place];
    if (!window) return;
    const score = window[2] === null ? "–" : fixed(window[2], digits([window[2]]));
    put($("kth"), score);
    slider.setAttribute("aria-valuetext", `window that ends at ${edge(window[1], typeof window[1] === "string")}, last score ${score}`);
  }

  /** For those who hear the page: now and then, in one sentence. */
  announce(data) {
    const now = Date.now();
    if (now - (this.spoke ?? 0) < 10000 || !data.rows.length) return;
    this.spoke = now;
    const entered = data.rows.filter((row) => row.move === null).length;
    this.say(`Window until ${edge(data.end, data.timed)}: ${data.rows[0].label} is first, ${entered} entered, ${data.left.length} left.`);
  }
}
