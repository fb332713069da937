// A long list of which only the visible items exist.

export class VirtualList {
  /**
   * @param host the element that contains the items; as high as all of them together
   * @param options scroller: what scrolls (null: the page); width: least width of an item (0: one column);
   *   height: of an item; gap; build(): an item {node}; show(item, index): fill it; hide(item); changed(): other items are visible
   */
  constructor(host, options) {
    Object.assign(this, { host, gap: 0, width: 0, hide() {}, changed() {} }, options);
    this.total = 0;
    this.columns = 1;
    this.items = new Map(); // by index
    this.spare = [];
    this.scheduled = false;
    (this.scroller ?? window).addEventListener("scroll", () => this.schedule(), { passive: true });
    new ResizeObserver(() => this.schedule()).observe(this.scroller ?? host);
    window.addEventListener("resize", () => this.schedule(), { passive: true });
    host.addEventListener("keydown", (event) => this.key(event));
  }

  setTotal(total) {
    this.total = total;
    this.schedule();
  }

  schedule() {
    if (this.scheduled) return;
    this.scheduled = true;
    requestAnimationFrame(() => {
      this.scheduled = false;
      this.layout();
    });
  }

  layout() {
    const box = this.host.getBoundingClientRect();
    if (!box.width) return; // not visible
    const view = this.scroller ? this.scroller.getBoundingClientRect() : { top: 0, height: innerHeight };
    this.columns = this.width ? Math.max(1, Math.floor((box.width + this.gap) / (this.width + this.gap))) : 1;
    const wide = (box.width - (this.columns - 1) * this.gap) / this.columns;
    const tall = this.height + this.gap;
    const lines = Math.ceil(this.total / this.columns);
    this.host.style.height = `${Math.max(0, lines * tall - this.gap)}px`;
    const above = view.top - box.top;
    const first = Math.max(0, Math.floor(above / tall)) * this.columns;
    const last = Math.min(this.total, Math.ceil((above + view.height) / tall) * this.columns);
    let other = false;
    for (const [index, item] of this.items) {
      if (index < first || index >= last) {
        this.items.delete(index);
        this.hide(item);
        item.node.hidden = true;
        this.spare.push(item);
        other = true;
      }
    }
    for (let index = first; index < last; index += 1) {
      let item = this.items.get(index);
      if (!item) {
        item = this.spare.pop() ?? this.build();
        if (!item.node.parentNode) this.host.append(item.node);
        item.node.hidden = false;
        this.items.set(index, item);
        this.show(item, index);
        other = true;
      }
      const x = Math.round((index % this.columns) * (wide + this.gap));
      const y = Math.floor(index / this.columns) * tall;
      const place = `translate(${x}px, ${y}px)`;
      if (item.place !== place) item.node.style.transform = item.place = place;
      if (item.wide !== wide) item.node.style.width = `${(item.wide = wide)}px`;
      item.node.setAttribute("aria-posinset", index + 1);
      item.node.setAttribute("aria-setsize", this.total);
    }
    if (other) this.changed();
  }

  /** Fill all items again, after the data has changed. */
  refresh() {
    for (const [index, item] of this.items) this.show(item, index);
    this.changed();
    this.schedule();
  }

  key(event) {
    const step = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: this.columns, ArrowUp: -this.columns }[event.key];
    const jump = { Home: 0, End: this.total - 1 }[event.key];
    if ((step === undefined && jump === undefined) || event.ctrlKey || event.metaKey || event.altKey) return;
    const here = [...this.items].find(([, item]) => item.node.contains(document.activeElement));
    if (!here) return;
    event.preventDefault();
    const index = Math.min(this.total - 1, Math.max(0, jump ?? here[0] + step));
    this.reveal(index);
    this.layout();
    this.items.get(index)?.node.querySelector("a")?.focus({ preventScroll: true });
  }

  /** Scroll the item with this index into view. */
  reveal(index) {
    const tall = this.height + this.gap;
    const top = Math.floor(index / this.columns) * tall;
    const box = this.host.getBoundingClientRect();
    if (this.scroller) {
      const view = this.scroller;
      if (top < view.scrollTop) view.scrollTop = top;
      else if (top + tall > view.scrollTop + view.clientHeight) view.scrollTop = top + tall - view.clientHeight;
      return;
    }
    const from = box.top + top;
    if (from < 80) scrollBy(0, from - 80);
    else if (from + tall > innerHeight) scrollBy(0, from + tall - innerHeight + 12);
  }
}
