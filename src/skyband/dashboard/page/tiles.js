// The metrics of the run: one tile for each that the server sends.

import { bytes, count, duration, short } from "./format.js";
import { create, setText } from "./rows.js";
import { sparkline } from "./sparkline.js";

const HISTORY = 60;

const TILES = [
  { name: "rows_per_second", label: "Throughput", text: (v) => short(v), unit: "rows/s", spark: true },
  { name: "batch_seconds", label: "Batch latency", text: duration, spark: true },
  { name: "candidates", label: "Candidates", text: count, spark: true, note: (f) => ratio(f) },
  { name: "state_bytes", label: "State", text: bytes, spark: true },
  { name: "late", label: "Late rows", text: count, note: (f) => (f.ahead ? `dropped, ${count(f.ahead)} from the future` : "dropped") },
  { name: "without_score", label: "Without score", text: count, note: (f) => (f.without_time ? `${count(f.without_time)} without time` : "NULL or NaN") },
  { name: "staleness_seconds", label: "Staleness", text: duration, spark: true, note: (f) => (f.refreshes === undefined ? "of joined values" : `${count(f.refreshes)} refreshes`) },
  { name: "refills", label: "Refills", text: count, note: () => "of views" },
  { name: "windows", label: "Windows", text: count, note: (f) => (f.rows === undefined ? "" : `from ${short(f.rows)} rows`) },
];
const WITHOUT_TILE = new Set(["rows", "ahead", "without_time", "window_rows", "refreshes", "answer_rows"]);

function ratio(figures) {
  if (!figures.window_rows) return "";
  const share = figures.window_rows / Math.max(1, figures.candidates);
  return share >= 2 ? `1 in ${short(Math.round(share))} of ${short(figures.window_rows)}` : `of ${short(figures.window_rows)} in the window`;
}

export class MetricTiles {
  constructor(host) {
    Object.assign(this, { host, tiles: new Map(), past: new Map() });
  }

  /** Start with the recent values of the server. */
  begin(recent) {
    this.past.clear();
    for (const { figures } of recent.slice(-HISTORY)) this.remember(figures);
  }

  remember(figures) {
    for (const [name, value] of Object.entries(figures)) {
      let values = this.past.get(name);
      if (!values) this.past.set(name, (values = []));
      values.push(value);
      if (values.length > HISTORY) values.shift();
    }
  }

  update(figures) {
    this.remember(figures);
    const others = Object.keys(figures)
      .filter((name) => !WITHOUT_TILE.has(name) && !TILES.some((tile) => tile.name === name))
      .map((name) => ({ name, label: name.replaceAll("_", " "), text: count }));
    for (const tile of [...TILES, ...others]) {
      if (figures[tile.name] === undefined) continue;
      const shown = this.tiles.get(tile.name) ?? this.build(tile);
      setText(shown.value, tile.text(figures[tile.name]));
      setText(shown.note, tile.note?.(figures) ?? "");
      shown.spark?.draw(this.past.get(tile.name));
    }
    this.host.hidden = this.tiles.size === 0;
  }

  build(tile) {
    const node = create("div", "tile");
    const value = create("strong", "num");
    const line = create("div", "value");
    line.append(value);
    if (tile.unit) line.append(create("span", "unit", tile.unit));
    const note = create("span", "note soft num");
    node.append(create("span", "label soft", tile.label), line, note);
    const spark = tile.spark ? sparkline(54, 20) : null;
    if (spark) node.append(spark.node);
    node.dataset.figure = tile.name;
    this.host.append(node);
    const shown = { value, note, spark };
    this.tiles.set(tile.name, shown);
    return shown;
  }
}
