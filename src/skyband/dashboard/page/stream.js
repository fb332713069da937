// The connection to the server: subscriptions, and reconnection when it breaks.

const SILENCE = 10000; // milliseconds: the server sends a heartbeat every three seconds

export class Stream {
  /** @param received called with (event name, data); @param changed called with "live", "paused", "connecting", "lost", "locked" */
  constructor(received, changed) {
    Object.assign(this, { received, changed, source: null, url: "", paused: false, tries: 0, timer: 0, lastEvent: 0 });
    setInterval(() => {
      if (this.source && Date.now() - this.lastEvent > SILENCE) this.broken();
    }, 2000);
  }

  /** Subscribe to these boards, and no others. */
  subscribe(boards, briefs) {
    const query = new URLSearchParams();
    for (const key of boards) query.append("board", JSON.stringify(key));
    for (const key of briefs) query.append("brief", JSON.stringify(key));
    const url = `/api/stream?${query}`;
    if (url === this.url && (this.source || this.timer || this.paused)) return;
    this.url = url;
    if (!this.paused && !this.timer) this.open();
  }

  open() {
    this.source?.close();
    clearTimeout(this.timer);
    this.timer = 0;
    this.lastEvent = Date.now();
    const source = new EventSource(this.url);
    this.source = source;
    if (this.tries) this.changed("connecting");
    for (const name of ["hello", "status", "board", "brief", "gone", "beat"]) {
      source.addEventListener(name, (event) => {
        if (source !== this.source) return;
        this.lastEvent = Date.now();
        if (name === "hello") {
          this.tries = 0;
          this.changed("live");
        }
        this.received(name, JSON.parse(event.data));
      });
    }
    source.addEventListener("error", () => {
      if (source === this.source) this.broken();
    });
  }

  /** The connection is lost: find out why, and reconnect with increasing delays. */
  async broken() {
    this.source?.close();
    this.source = null;
    if (this.paused || this.timer) return;
    this.tries += 1;
    this.timer = setTimeout(() => this.open(), Math.min(5000, 250 * 2 ** Math.min(this.tries, 5)) * (0.75 + Math.random() / 2));
    let status = 0;
    try {
      status = (await fetch("/api/health", { cache: "no-store" })).status;
    } catch { /* no server */ }
    if (status === 401) {
      clearTimeout(this.timer);
      this.timer = 0;
      this.changed("locked");
    } else if (!this.source || this.tries > 1) {
      this.changed(status === 200 && this.tries < 3 ? "connecting" : "lost");
    }
  }

  pause(paused) {
    if (paused === this.paused) return;
    this.paused = paused;
    if (paused) {
      this.source?.close();
      this.source = null;
      clearTimeout(this.timer);
      this.timer = 0;
      this.changed("paused");
    } else {
      this.changed("connecting");
      this.open();
    }
  }
}

/** JSON from the API; an error carries the status. */
export async function get(path) {
  const response = await fetch(path, { cache: "no-store" });
  if (!response.ok) throw Object.assign(new Error(`${path}: ${response.status}`), { status: response.status });
  return response.json();
}

/** The path of a board in the API. */
export function boardPath(key, rest = "") {
  const group = new URLSearchParams(key.slice(1).map((part) => ["group", JSON.stringify(part)]));
  return `/api/boards/${encodeURIComponent(key[0])}${rest}${key.length > 1 ? `?${group}` : ""}`;
}
