// Numbers, times and names as text.

const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const formats = new Map();

/** A number with at most `digits` after the point. */
export function fixed(value, digits) {
  if (digits === 0) return whole.format(value);
  let format = formats.get(digits);
  if (!format) {
    format = new Intl.NumberFormat("en", { minimumFractionDigits: digits, maximumFractionDigits: digits });
    formats.set(digits, format);
  }
  return format.format(value);
}

/** How many digits after the point a column of numbers needs. */
export function digits(values) {
  let largest = 0;
  let broken = false;
  let cents = true; // nothing finer, as in prices
  for (const value of values) {
    if (typeof value !== "number") continue;
    if (!Number.isInteger(value)) broken = true;
    if (cents && Math.abs(value * 100 - Math.round(value * 100)) > 1e-6) cents = false;
    largest = Math.max(largest, Math.abs(value));
  }
  if (!broken) return 0;
  if (cents && largest < 10000) return 2;
  return largest >= 10000 ? 0 : largest >= 100 ? 1 : largest >= 10 ? 2 : largest >= 0.1 ? 3 : 6;
}

/** A count in few characters: 950, 83.2 K, 1.04 M. */
export function short(value) {
  const size = Math.abs(value);
  for (const [unit, letter] of [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "K"]]) {
    if (size >= 0.9995 * unit) return `${Number((value / unit).toPrecision(3))} ${letter}`;
  }
  return String(Number(value.toPrecision(3)));
}

/** A count, in full below 100,000. */
export const count = (value) => (Math.abs(value) < 100000 ? whole.format(value) : short(value));

/** Bytes: 1.2 MB. */
export const bytes = (value) => (value < 1000 ? `${whole.format(value)} B` : `${short(value)}B`);

/** A duration: 12 ms, 3.4 s, 2 min. */
export function duration(seconds) {
  if (seconds < 0.001) return `${Number((seconds * 1e6).toPrecision(2))} µs`;
  if (seconds < 1) return `${Number((seconds * 1e3).toPrecision(seconds < 0.01 ? 2 : 3))} ms`;
  if (seconds < 120) return `${Number(seconds.toPrecision(3))} s`;
  return seconds < 7200 ? `${Math.round(seconds / 60)} min` : `${Math.round(seconds / 3600)} h`;
}

/** The time of day of a UTC time such as 2024-01-02T09:30:00.5. */
export function clock(text) {
  const time = text.slice(11);
  return time.length > 12 ? time.slice(0, 12) : time || "00:00:00";
}

export const day = (text) => text.slice(0, 10);

/** A boundary of a window: a time or a number. */
export const edge = (value, timed) => (value === null ? "" : timed ? clock(String(value)) : count(Number(value)));

/** A cell as text. */
export function cell(value, kind, digits, today) {
  if (value === null || value === undefined) return "–";
  if (kind === "number" && typeof value === "number") return fixed(value, digits);
  if (kind === "time") return day(value) === today ? clock(value) : value.replace("T", " ");
  return String(value);
}

/** The values of a board's group. */
export const parts = (key) => key.slice(1).map((part) => (part === null ? "NULL" : part));

/** A board's name in one line. */
export const title = (key) => [key[0], ...parts(key)].join(" · ");
