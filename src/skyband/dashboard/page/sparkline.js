// Small line charts, drawn as paths.

/** The path of a line through `values` (null: a gap is bridged), within width x height. */
export function path(values, width, height, pad = 2) {
  let low = Infinity;
  let high = -Infinity;
  for (const value of values) {
    if (value === null) continue;
    if (value < low) low = value;
    if (value > high) high = value;
  }
  if (low > high) return { line: "", area: "", low: null, high: null, x: () => pad, y: () => height / 2 };
  const span = high - low;
  const step = values.length > 1 ? (width - 2 * pad) / (values.length - 1) : 0;
  const x = (i) => (values.length > 1 ? pad + i * step : width - pad);
  const y = (value) => (span ? height - pad - ((value - low) / span) * (height - 2 * pad) : height / 2);
  let line = "";
  let last = 0;
  let begun = null;
  for (let i = 0; i < values.length; i += 1) {
    if (values[i] === null) continue;
    if (begun === null) begun = i;
    line += `${line ? "L" : "M"}${x(i).toFixed(1)} ${y(values[i]).toFixed(1)}`;
    last = i;
  }
  const area = `${line}L${x(last).toFixed(1)} ${height}L${x(begun).toFixed(1)} ${height}Z`;
  return { line, area, low, high, x, y };
}

/** An svg element with attributes. */
export function svg(name, attributes = {}) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  return element;
}

/** A sparkline of fixed size: a node, and a function that draws values into it. */
export function sparkline(width, height) {
  const node = svg("svg", { width, height, viewBox: `0 0 ${width} ${height}`, class: "spark", "aria-hidden": "true" });
  const area = svg("path", { class: "area" });
  const line = svg("path", { class: "line" });
  const dot = svg("circle", { class: "end", r: 2.25 });
  node.append(area, line, dot);
  let drawn = "";
  return {
    node,
    draw(values) {
      const found = path(values, width, height, 3);
      if (found.line === drawn) return;
      drawn = found.line;
      line.setAttribute("d", found.line);
      area.setAttribute("d", found.area);
      const last = values.length - 1;
      const there = found.low !== null && values[last] !== null;
      dot.setAttribute("cx", there ? found.x(last).toFixed(1) : -9);
      dot.setAttribute("cy", there ? found.y(values[last]).toFixed(1) : -9);
    },
  };
}
