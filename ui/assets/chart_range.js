// One cursor and one range for the charts of a page, see ui/query/chart_range.py. The lines lie above the page, not in
// the charts: these are replaced at each refresh.
const CLICK_PIXELS = 6;
// A second click within this time makes a double click.
const DOUBLE_CLICK_MS = 350;
const within = share => Math.min(1, Math.max(0, share));

class ChartRange {
  constructor() {
    this.drawn = [];
    this.layer = document.createElement("div");
    this.layer.setAttribute("aria-hidden", "true");
    this.layer.className = "chart-range";
    this.layer.style.cssText = "position: fixed; inset: 0; pointer-events: none; z-index: 50;";
    document.body.append(this.layer);
    // A chart that is replaced loses its tooltip, on a slow machine long after the refresh.
    this.replaced = new MutationObserver(changes => {
      const isChart = node => node.tagName === "CANVAS" || node.querySelector?.("canvas");
      if (this.last && changes.some(change => [...change.addedNodes].some(isChart))) this.remind([100]);
    });
    this.replaced.observe(document.body, { childList: true, subtree: true });
    this.listening = new AbortController();
    const on = (name, then, more) => document.addEventListener(name, then, { signal: this.listening.signal, ...more });
    on("pointerdown", event => this.pressed(event));
    on("pointermove", event => this.moved(event));
    on("pointerup", event => this.released(event));
    on("pointercancel", () => this.cancel());
    on("click", event => this.clicked(event));
    on("dblclick", event => this.at(event) && this.data.fixed && this.send("range", { back: true }));
    on("keydown", event => event.key === "Escape" && this.cancel());
    on("scroll", () => this.cancel(), { capture: true, passive: true });
    on("pointerleave", () => this.clear());
  }

  close() {
    clearTimeout(this.single);
    this.replaced.disconnect();
    this.listening.abort();
    this.layer.remove();
  }

  update(data) {
    this.data = data;
    this.remind([50, 300]);
  }

  // Report the pointer to the chart below it again.
  remind(waits) {
    const { last } = this;
    if (last) for (const wait of waits) setTimeout(() => last === this.last && this.point(last), wait);
  }

  point({ clientX, clientY }) {
    const target = document.elementFromPoint(clientX, clientY);
    if (target?.tagName === "CANVAS") target.dispatchEvent(new MouseEvent("mousemove", { clientX, clientY, bubbles: true }));
  }

  // The plot of each chart that is drawn: the canvas without its margins.
  plots() {
    return Object.entries(this.data.charts).flatMap(([key, { top, right, bottom, left }]) => {
      const canvas = document.querySelector(`.st-key-${key} canvas`);
      if (!canvas) return [];
      const box = canvas.getBoundingClientRect();
      const width = box.width - left - right, height = box.height - top - bottom;
      return [{ canvas, top: box.top + top, left: box.left + left, width, height }];
    });
  }

  // The plot under the pointer and the share of its width; nothing beside the plot or on the legend.
  at(event) {
    if (event.target.tagName !== "CANVAS" || !this.data) return null;
    const plot = this.plots().find(each => each.canvas === event.target);
    if (!plot || event.clientY < plot.top) return null;
    const share = (event.clientX - plot.left) / plot.width, close = CLICK_PIXELS / plot.width;
    return share >= -close && share <= 1 + close ? { plot, share: within(share) } : null;
  }

  pressed(event) {
    const found = event.button === 0 && event.pointerType !== "touch" && this.at(event);
    this.start = found ? { ...found, x: event.clientX } : null;
  }

  moved(event) {
    this.last = event;
    const { start } = this;
    if (start) {
      const share = within((event.clientX - start.plot.left) / start.plot.width);
      this.dragged = Math.abs(event.clientX - start.x) < CLICK_PIXELS ? null : [start.share, share].sort((a, b) => a - b);
      return this.show(this.dragged || [share, share], null);
    }
    const found = this.at(event);
    if (found) this.show([found.share, found.share], found.plot);
    else this.clear();
  }

  released() {
    const { dragged } = this;
    this.cancel();
    this.wasDragged = Boolean(dragged);
    if (dragged) this.send("range", { from: this.time(dragged[0]), to: this.time(dragged[1]) });
  }

  clicked(event) {
    clearTimeout(this.single);
    const found = !this.wasDragged && event.detail === 1 && this.at(event);
    this.wasDragged = false;
    if (found) this.single = setTimeout(() => this.open(this.time(found.share)), DOUBLE_CLICK_MS);
  }

  // The batch of that time is drawn below the charts, by the page's next run.
  open(moment) {
    this.send("moment", moment);
    const seen = document.querySelector(".st-key-batch");
    const look = tries => {
      const found = document.querySelector(".st-key-batch");
      if (found && (found !== seen || tries < 15)) found.scrollIntoView({ block: "center" });
      else if (tries) this.single = setTimeout(() => look(tries - 1), 200);
    };
    look(20);
  }

  time(share) {
    const [from, to] = this.data.window;
    return from + share * (to - from);
  }

  cancel() {
    this.start = this.dragged = this.last = null;
    this.clear();
  }

  clear() {
    if (this.layer.firstChild) this.layer.replaceChildren();
  }

  // A band, or a line of no width, in each plot except the one that has a cursor of its own.
  show([from, to], except) {
    this.layer.replaceChildren(...this.plots().filter(plot => plot.canvas !== except?.canvas).map(plot => {
      const band = document.createElement("div");
      const wide = to > from ? "background: #4c8dff33; border: solid #4c8dff; border-width: 0 1px;" : "border-left: 1px dashed #8b93a1;";
      band.style.cssText = `position: absolute; top: ${plot.top}px; height: ${plot.height}px;`
        + `left: ${plot.left + from * plot.width}px; width: ${(to - from) * plot.width}px; ${wide}`;
      return band;
    }));
  }
}

export default function ({ data, parentElement, setTriggerValue }) {
  const range = parentElement.chartRange || (parentElement.chartRange = new ChartRange());
  range.send = setTriggerValue;
  range.update(data);
  return () => {
    range.close();
    delete parentElement.chartRange;
  };
}
