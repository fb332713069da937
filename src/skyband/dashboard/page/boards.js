// The boards that match a search, fetched page by page when they come into view.

import { get } from "./stream.js";

const PAGE = 100;

export class BoardIndex {
  /** @param changed called when pages have been loaded */
  constructor(changed) {
    Object.assign(this, { changed, search: "", total: null, pages: new Map(), turn: 0 });
  }

  /** Search again, or reload the same search. */
  async find(search = this.search) {
    const other = search !== this.search;
    this.search = search;
    this.turn += 1;
    const turn = this.turn;
    const pages = other || this.total === null ? [0] : [...this.pages.keys()].slice(-4);
    const found = await Promise.all((pages.length ? pages : [0]).map(async (page) => [page, await this.load(page)]));
    if (turn !== this.turn || found.some(([, answer]) => !answer)) return;
    const same = !other && found.every(([page, answer]) => JSON.stringify(answer.boards) === JSON.stringify(this.pages.get(page)));
    if (same && this.total === found[0][1].total) return;
    this.pages = new Map(found.map(([page, answer]) => [page, answer.boards]));
    this.total = found[0][1].total;
    this.changed();
  }

  async load(page) {
    try {
      return await get(`/api/boards?${new URLSearchParams({ search: this.search, offset: page * PAGE, limit: PAGE })}`);
    } catch {
      return null;
    }
  }

  /** The key of the board at `index`, if its page has been loaded. */
  at(index) {
    const page = Math.floor(index / PAGE);
    const found = this.pages.get(page);
    if (found) return found[index % PAGE];
    this.pages.set(page, []);
    const turn = this.turn;
    this.load(page).then((answer) => {
      if (turn !== this.turn) return;
      if (answer) this.pages.set(page, answer.boards);
      else this.pages.delete(page);
      this.changed();
    });
    return undefined;
  }
}
