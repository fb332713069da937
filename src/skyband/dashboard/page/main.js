// The page: subscribes to the boards that are visible.

import { BoardIndex } from "./boards.js";
import { MetricTiles } from "./tiles.js";
import { BoardView } from "./board.js";
import { count } from "./format.js";
import { setText } from "./rows.js";
import { get, Stream } from "./stream.js";
import { BoardGrid } from "./grid.js";

const $ = (id) => document.getElementById(id);
const root = document.documentElement;
const dark = matchMedia("(prefers-color-scheme: dark)");

const say = (text) => setText($("said"), text); // to screen readers
const boards = new BoardIndex(showBoards);
const tiles = new MetricTiles($("figures"));
const view = new BoardView(boards, say);
const grid = new BoardGrid(boards, subscribe);
const stream = new Stream(receive, showConnection);

let link = "connecting"; // the connection
let run = { state: "running", error: "" };
let instance = null;
let queries = -1;
let openKey = null; // the board that is open; null: all boards

// ------------------------------------------------------------- events

const pending = new Map(); // the newest event of each board that is to be drawn
const BUDGET = 4; // milliseconds of drawing per frame: the rest waits for the next one
const FEW = 2; // boards per frame: layout and paint cost more than updating them
const SPREAD = 8; // frames over which many boards are spread; the server sends every twelve frames

function receive(name, data) {
  if (name === "board" || name === "brief") {
    if (!pending.size) requestAnimationFrame(draw);
    pending.set(name + JSON.stringify(data.board), [name, data]);
  } else if (name === "status") {
    run = data;
    tiles.update(data.figures);
    if (data.queries !== queries) {
      queries = data.queries;
      boards.find();
    }
    showState();
  } else if (name === "hello") {
    if (instance !== null && instance !== data.instance) {
      queries = -1;
      boards.find();
      loadMetrics();
    }
    instance = data.instance;
  }
}

function draw() {
  const until = performance.now() + BUDGET;
  let few = Math.max(FEW, Math.ceil(pending.size / SPREAD));
  for (const [id, [name, data]] of pending) {
    pending.delete(id);
    if (name === "brief") grid.update(data);
    else view.update(data);
    few -= 1;
    if (!few || performance.now() > until) break;
  }
  if (pending.size) requestAnimationFrame(draw);
}

async function loadMetrics() {
  try {
    const { recent } = await get("/api/progress");
    tiles.begin(recent);
  } catch { /* the event stream reports the error */ }
}

// ------------------------------------------------------------- subscriptions

let subscribeTimer = 0;

function subscribe() {
  clearTimeout(subscribeTimer);
  subscribeTimer = setTimeout(() => stream.subscribe(openKey ? [openKey] : [], openKey ? [] : grid.keys), 60);
}

function showBoards() {
  const { total, search } = boards;
  setText($("count"), total === null ? "Boards" : `${count(total)} ${total === 1 ? "board" : "boards"}`);
  $("nothing").hidden = total !== 0;
  setText($("nothing"), search ? `No board matches “${search}”.` : "Waiting for the first window to close.");
  root.classList.toggle("single", total === 1 && !search);
  for (const list of [grid.list, view.list]) {
    list.setTotal(total ?? 0);
    list.refresh();
  }
  if (total === 1 && !search && !openKey && !location.hash) open(boards.at(0));
}

function open(key) {
  openKey = key ?? null;
  $("wall").hidden = Boolean(key);
  $("focus").hidden = !key;
  if (key) {
    view.open(key);
    view.list.schedule();
  } else {
    view.close();
    document.title = "skyband";
    grid.list.schedule();
  }
  subscribe();
}

function openFromUrl() {
  const found = /^#\/board\/(.+)$/.exec(location.hash);
  let key = null;
  try {
    key = found && JSON.parse(decodeURIComponent(found[1]));
  } catch { /* not a board */ }
  const whole = Array.isArray(key) && key.length > 0 && typeof key[0] === "string";
  if (!whole && boards.total === 1 && !boards.search) key = boards.at(0);
  open(whole || boards.total === 1 ? key : null);
  if (!key) scrollTo(0, 0);
}

// ------------------------------------------------------------- state

const STATES = {
  live: "Live", paused: "Paused", connecting: "Connecting", lost: "Reconnecting", locked: "Locked", failed: "Error", ended: "Ended",
};

function showConnection(now) {
  link = now;
  if (now === "locked") $("sign").showModal();
  showState();
}

function showState() {
  const over = run.state !== "running" && ["live", "connecting", "lost"].includes(link); // its server may have ended as well
  const now = over ? run.state : link;
  const pill = $("state");
  if (pill.dataset.state !== now) {
    pill.dataset.state = now;
    setText(pill.querySelector("b"), STATES[now] ?? now);
  }
  const banner = $("banner");
  const text = run.state === "failed" ? run.error
    : link === "lost" && !over ? "No connection to the server. The page shows the last state; reconnecting …" : "";
  banner.hidden = !text;
  setText(banner, text);
  root.classList.toggle("stale", link === "lost" && !over);
}

// ------------------------------------------------------------- controls

let pausedByUser = false;

function pause(paused) {
  pausedByUser = paused;
  $("pause").setAttribute("aria-pressed", String(paused));
  setText($("pause").querySelector("span"), paused ? "Resume" : "Pause");
  stream.pause(paused);
}

function toggleTheme() {
  const now = root.dataset.theme ?? (dark.matches ? "dark" : "light");
  root.dataset.theme = now === "dark" ? "light" : "dark";
  try {
    localStorage.setItem("skyband-theme", root.dataset.theme);
  } catch { /* the choice holds until the page is closed */ }
}

async function signIn(event) {
  event.preventDefault();
  const body = JSON.stringify({ token: $("token").value });
  const response = await fetch("/api/session", { method: "POST", body, headers: { "content-type": "application/json" } }).catch(() => null);
  $("token").value = "";
  if (!response?.ok) {
    setText($("wrong"), response?.status === 401 ? "The token is wrong." : "The server does not answer.");
    return;
  }
  setText($("wrong"), "");
  $("sign").close();
  boards.find();
  loadMetrics();
  stream.open();
}

function search(event) {
  for (const input of [$("find"), $("pick")]) if (input !== event.target) input.value = event.target.value;
  clearTimeout(search.timer);
  search.timer = setTimeout(() => boards.find(event.target.value.trim()), 120);
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
  "/": () => (openKey ? $("pick") : $("find")).focus(),
  p: () => pause(!pausedByUser),
  t: toggleTheme,
  "?": () => $("keys").showModal(),
  l: () => openKey && view.live(),
  "[": () => openKey && view.step(-1),
  "]": () => openKey && view.step(1),
};

addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
  const typing = event.target.closest?.("input:not([type=range])");
  if (event.key === "Escape") {
    if (typing) typing.blur();
    else if (openKey && !root.classList.contains("single")) location.hash = "#/";
  } else if (!typing && shortcuts[event.key]) {
    event.preventDefault();
    shortcuts[event.key]();
  }
});

$("pause").addEventListener("click", () => pause(!pausedByUser));
$("theme").addEventListener("click", toggleTheme);
$("help").addEventListener("click", () => $("keys").showModal());
$("keys-close").addEventListener("click", () => $("keys").close());
$("enter").addEventListener("submit", signIn);
$("sign").addEventListener("cancel", (event) => event.preventDefault());
addEventListener("hashchange", openFromUrl);
// A hidden page subscribes to nothing.
document.addEventListener("visibilitychange", () => pausedByUser || stream.pause(document.hidden));
setInterval(() => link === "live" && boards.find(), 5000); // new groups are not announced

openFromUrl();
boards.find();
loadMetrics();
subscribe();
