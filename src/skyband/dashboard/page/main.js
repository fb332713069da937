// The page: what is on the screen decides what is asked for.

import { Catalogue } from "./catalogue.js";
import { Figures } from "./figures.js";
import { Focus } from "./focus.js";
import { count } from "./format.js";
import { put } from "./rows.js";
import { get, Stream } from "./stream.js";
import { Wall } from "./wall.js";

const $ = (id) => document.getElementById(id);
const root = document.documentElement;
const dark = matchMedia("(prefers-color-scheme: dark)");

const say = (text) => put($("said"), text);
const catalogue = new Catalogue(listed);
const figures = new Figures($("figures"));
const focus = new Focus(catalogue, say);
const wall = new Wall(catalogue, follow);
const stream = new Stream(told, connection);

let link = "connecting"; // the connection
let run = { state: "running", error: "" };
let instance = null;
let queries = -1;
let route = null; // the key of the board that is open

// ------------------------------------------------------------- what comes in

const pending = new Map(); // boards told since they were last drawn; the newest word of each
const BUDGET = 4; // milliseconds of a frame: the rest waits for the next one
const FEW = 2; // boards of a frame: laying out and painting them costs more than writing them
const SPREAD = 8; // frames that many boards are spread over; there are twelve from one word of the server to the next

function told(name, data) {
  if (name === "board" || name === "brief") {
    if (!pending.size) requestAnimationFrame(drawn);
    pending.set(name + JSON.stringify(data.board), [name, data]);
  } else if (name === "status") {
    run = data;
    figures.update(data.figures);
    if (data.queries !== queries) {
      queries = data.queries;
      catalogue.find();
    }
    state();
  } else if (name === "hello") {
    if (instance !== null && instance !== data.instance) {
      queries = -1;
      catalogue.find();
      remember();
    }
    instance = data.instance;
  }
}

function drawn() {
  const until = performance.now() + BUDGET;
  let few = Math.max(FEW, Math.ceil(pending.size / SPREAD));
  for (const [id, [name, data]] of pending) {
    pending.delete(id);
    if (name === "brief") wall.update(data);
    else focus.update(data);
    few -= 1;
    if (!few || performance.now() > until) break;
  }
  if (pending.size) requestAnimationFrame(drawn);
}

async function remember() {
  try {
    const { recent } = await get("/api/progress");
    figures.begin(recent);
  } catch { /* the stream will tell */ }
}

// ------------------------------------------------------------- what is asked for

let asked = 0;

function follow() {
  clearTimeout(asked);
  asked = setTimeout(() => stream.want(route ? [route] : [], route ? [] : wall.keys), 60);
}

function listed() {
  const { total, search } = catalogue;
  put($("count"), total === null ? "Boards" : `${count(total)} ${total === 1 ? "board" : "boards"}`);
  $("nothing").hidden = total !== 0;
  put($("nothing"), search ? `No board matches “${search}”.` : "Waiting for the first window to close.");
  root.classList.toggle("single", total === 1 && !search);
  for (const list of [wall.list, focus.list]) {
    list.setTotal(total ?? 0);
    list.refresh();
  }
  if (total === 1 && !search && !route && !location.hash) open(catalogue.at(0));
}

function open(key) {
  route = key ?? null;
  $("wall").hidden = Boolean(key);
  $("focus").hidden = !key;
  if (key) {
    focus.open(key);
    focus.list.later();
  } else {
    focus.close();
    document.title = "skyband";
    wall.list.later();
  }
  follow();
}

function routed() {
  const found = /^#\/board\/(.+)$/.exec(location.hash);
  let key = null;
  try {
    key = found && JSON.parse(decodeURIComponent(found[1]));
  } catch { /* not ours */ }
  const whole = Array.isArray(key) && key.length > 0 && typeof key[0] === "string";
  if (!whole && catalogue.total === 1 && !catalogue.search) key = catalogue.at(0);
  open(whole || catalogue.total === 1 ? key : null);
  if (!key) scrollTo(0, 0);
}

// ------------------------------------------------------------- how it is

const STATES = {
  live: "Live", paused: "Paused", connecting: "Connecting", lost: "Reconnecting", locked: "Locked", failed: "Error", ended: "Ended",
};

function connection(now) {
  link = now;
  if (now === "locked") $("sign").showModal();
  state();
}

function state() {
  const over = run.state !== "running" && ["live", "connecting", "lost"].includes(link); // its server may be gone as well
  const now = over ? run.state : link;
  const pill = $("state");
  if (pill.dataset.state !== now) {
    pill.dataset.state = now;
    put(pill.querySelector("b"), STATES[now] ?? now);
  }
  const banner = $("banner");
  const text = run.state === "failed" ? run.error
    : link === "lost" && !over ? "The server does not answer. What you see is the last that was heard; trying again …" : "";
  banner.hidden = !text;
  put(banner, text);
  root.classList.toggle("stale", link === "lost" && !over);
}

// ------------------------------------------------------------- what one can do

let byHand = false;

function pause(paused) {
  byHand = paused;
  $("pause").setAttribute("aria-pressed", String(paused));
  put($("pause").querySelector("span"), paused ? "Resume" : "Pause");
  stream.pause(paused);
}

function theme() {
  const now = root.dataset.theme ?? (dark.matches ? "dark" : "light");
  root.dataset.theme = now === "dark" ? "light" : "dark";
  try {
    localStorage.setItem("skyband-theme", root.dataset.theme);
  } catch { /* until the page is closed */ }
}

async function sign(event) {
  event.preventDefault();
  const body = JSON.stringify({ token: $("token").value });
  const response = await fetch("/api/session", { method: "POST", body, headers: { "content-type": "application/json" } }).catch(() => null);
  $("token").value = "";
  if (!response?.ok) {
    put($("wrong"), response?.status === 401 ? "This is not the token." : "The server does not answer.");
    return;
  }
  put($("wrong"), "");
  $("sign").close();
  catalogue.find();
  remember();
  stream.open();
}

function search(event) {
  for (const input of [$("find"), $("pick")]) if (input !== event.target) input.value = event.target.value;
  clearTimeout(search.timer);
  search.timer = setTimeout(() => catalogue.find(event.target.value.trim()), 120);
}

for (const input of [$("find"), $("pick")]) {
  input.addEventListener("input", search);
  input.addEventListener("keydown", (event) => {
    if (event.key !== "ArrowDown" && event.key !== "Enter") return;
    const first = (input === $("find") ? $("cards") : $("names")).querySelector(":scope > :not([hidden]) a");
    if (!first) return;
    event.preventDefault();
    if (event.key === "Enter") first.click();
    else first.focus();
  });
}

const shortcuts = {
  "/": () => (route ? $("pick") : $("find")).focus(),
  p: () => pause(!byHand),
  t: theme,
  "?": () => $("keys").showModal(),
  l: () => route && focus.live(),
  "[": () => route && focus.step(-1),
  "]": () => route && focus.step(1),
};

addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
  const typing = event.target.closest?.("input:not([type=range])");
  if (event.key === "Escape") {
    if (typing) typing.blur();
    else if (route && !root.classList.contains("single")) location.hash = "#/";
  } else if (!typing && shortcuts[event.key]) {
    event.preventDefault();
    shortcuts[event.key]();
  }
});

$("pause").addEventListener("click", () => pause(!byHand));
$("theme").addEventListener("click", theme);
$("help").addEventListener("click", () => $("keys").showModal());
$("keys-close").addEventListener("click", () => $("keys").close());
$("enter").addEventListener("submit", sign);
$("sign").addEventListener("cancel", (event) => event.preventDefault());
addEventListener("hashchange", routed);
// A page that nobody sees asks for nothing.
document.addEventListener("visibilitychange", () => byHand || stream.pause(document.hidden));
setInterval(() => link === "live" && catalogue.find(), 5000); // groups come without a word

routed();
catalogue.find();
remember();
follow();
