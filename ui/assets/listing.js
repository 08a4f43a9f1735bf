// A table of links, see ui/kit/listing.py. A refresh changes only the cells that differ: focus, scroll and selection stay.
const COLORS = new Set(["red", "orange", "yellow", "blue", "green", "violet", "gray"]);
const KEYS = [["/", "Search"], ["↓ ↑ or j k", "Next or previous row"], ["Enter", "Open the row"],
  ["n p", "Next or previous page"], ["?", "List the keys"], ["Esc", "Leave the search or this list"]];
const node = (tag, attributes = {}, ...children) => {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
};
const ago = at => {
  const s = Math.max(0, Date.now() / 1000 - at);
  return s < 60 ? `${Math.floor(s)} s` : s < 3600 ? `${Math.floor(s / 60)} min`
    : s < 86400 ? `${Math.floor(s / 3600)} h ${Math.floor(s % 3600 / 60)} min` : `${Math.floor(s / 86400)} d ${Math.floor(s % 86400 / 3600)} h`;
};
const trend = points => {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  svg.setAttribute("viewBox", "0 0 64 14");
  svg.setAttribute("aria-hidden", "true");
  const line = document.createElementNS("http://www.w3.org/2000/svg", "polyline");
  const step = 64 / Math.max(1, points.length - 1);
  line.setAttribute("points", points.map((y, i) => `${(i * step).toFixed(1)},${13 - y}`).join(" "));
  svg.append(line);
  return svg;
};
const cell = value => {
  const { text = "", href, pill, note, at, points } = typeof value === "object" && value ? value : { text: value };
  const parts = [];
  const away = /^https?:/.test(href || "") ? { target: "_blank", rel: "noreferrer" } : {};
  if (href) parts.push(node("a", { href, tabindex: "-1", ...away }, text));
  else if (pill && text) {
    const color = COLORS.has(pill) ? pill : "gray";
    const style = `color: var(--st-${color}-text-color); background: var(--st-${color}-background-color)`;
    parts.push(node("span", { class: "pill", style }, text));
  } else if (at) parts.push(node("time", { "data-at": at, title: new Date(at * 1000).toLocaleString() }, ago(at)));
  else parts.push(text);
  if (note) parts.push(node("small", {}, note));
  if (points && points.length > 1) parts.push(trend(points));
  return parts;
};

class Listing {
  constructor(root) {
    this.body = node("tbody", { role: "rowgroup" });
    this.head = node("tr", { role: "row" });
    this.table = node("table", { role: "table" }, node("thead", { role: "rowgroup" }, this.head), this.body);
    this.count = node("span", { "aria-live": "polite" });
    this.previous = node("button", { type: "button" }, "Previous");
    this.next = node("button", { type: "button" }, "Next");
    const keys = node("button", { type: "button", class: "keys", title: "Keyboard shortcuts" }, "Keys ?");
    this.help = node("dialog", { "aria-label": "Keyboard shortcuts" }, node("h2", {}, "Keyboard shortcuts"),
      node("dl", {}, ...KEYS.flatMap(([key, what]) => [node("dt", {}, node("kbd", {}, key)), node("dd", {}, what)])),
      node("form", { method: "dialog" }, node("button", {}, "Close")));
    this.nav = node("nav", { "aria-label": "Pages" }, this.count, this.previous, this.next, keys);
    root.append(node("div", { class: "box" }, this.table, this.nav, this.help));
    this.previous.onclick = () => this.turn(-1);
    this.next.onclick = () => this.turn(1);
    keys.onclick = () => this.help.showModal();
    this.body.onclick = event => this.clicked(event);
    this.body.onkeydown = event => event.key === "Enter" && this.open(event.target.closest("tr"));
    this.pressed = event => this.key(event);
    document.addEventListener("keydown", this.pressed);
    this.clock = setInterval(() => this.body.querySelectorAll("time").forEach(each => {
      const text = ago(+each.dataset.at);
      if (each.textContent !== text) each.textContent = text;
    }), 1000);
  }

  close() {
    document.removeEventListener("keydown", this.pressed);
    clearInterval(this.clock);
  }

  update(data) {
    this.data = data;
    this.table.setAttribute("aria-label", data.label);
    this.table.classList.toggle("still", !data.opens);
    this.nav.hidden = !data.opens;
    this.heads(data);
    const known = new Map([...this.body.rows].map(row => [row.dataset.id, row]));
    const focused = this.body.getRootNode().activeElement;
    data.rows.forEach((row, place) => {
      const kept = known.get(row.id);
      known.delete(row.id);
      const line = this.row(kept || node("tr", { role: "row", tabindex: "-1", "data-id": row.id }), row, data.columns);
      if (this.body.rows[place] !== line) this.body.insertBefore(line, this.body.rows[place] || null);
    });
    known.forEach(line => line.remove());
    if (!data.opens) this.body.querySelectorAll("a").forEach(link => { link.tabIndex = 0; });
    const first = this.body.rows[0];
    if (first && data.opens && !this.body.querySelector('tr[tabindex="0"]')) first.tabIndex = 0;
    if (focused && focused.isConnected && this.body.contains(focused)) focused.focus({ preventScroll: true });
    const { offset, total, limit } = data.page, last = offset + data.rows.length;
    const text = total > data.rows.length ? `${(offset + 1).toLocaleString("en")}–${last.toLocaleString("en")} of ${total.toLocaleString("en")}`
      : `${total.toLocaleString("en")} in all`;
    if (this.count.textContent !== text) this.count.textContent = text;
    this.previous.disabled = offset <= 0;
    this.next.disabled = last >= total;
    this.previous.hidden = this.next.hidden = total <= limit;
  }

  heads(data) {
    const text = JSON.stringify([data.columns, data.sort]);
    if (this.drawn === text) return;
    this.drawn = text;
    this.head.replaceChildren(...data.columns.map(column => {
      const way = data.sort.replace(/^-/, "") === column.sort && column.sort ? (data.sort[0] === "-" ? "descending" : "ascending") : "";
      const label = column.label + (way ? (way === "descending" ? " ↓" : " ↑") : "");
      const made = node("th", { role: "columnheader", scope: "col", class: column.style });
      if (way) made.setAttribute("aria-sort", way);
      if (!column.sort) made.append(label);
      else {
        const button = node("button", { type: "button" }, label);
        button.onclick = () => this.send("sort", column.sort);
        made.append(button);
      }
      return made;
    }));
  }

  row(line, row, columns) {
    row.cells.forEach((value, place) => {
      const text = JSON.stringify(value);
      let slot = line.cells[place];
      if (!slot) line.append(slot = node("td", { role: "cell" }));
      if (slot.className !== columns[place].style) slot.className = columns[place].style;
      if (slot.shown !== text) {
        slot.shown = text;
        slot.replaceChildren(...cell(value));
      }
    });
    while (line.cells.length > columns.length) line.lastChild.remove();
    return line;
  }

  clicked(event) {
    if (!this.data.opens || event.ctrlKey || event.metaKey || event.shiftKey || String(getSelection())) return;
    event.preventDefault();
    this.open(event.target.closest("tr"));
  }

  open(line) {
    if (!line || !this.data.opens) return;
    const link = line.querySelector("a[href]");
    if (!link || link.pathname === location.pathname) return this.send("open", line.dataset.id);
    // As in navigation.js: the timers of this page stop before it is left.
    history.pushState(null, "", link.href);
    window.dispatchEvent(new PopStateEvent("popstate"));
  }

  turn(by) {
    const { offset, limit, total } = this.data.page, place = offset + by * limit;
    if (place > -limit && place < total) this.send("page", Math.max(0, place));
  }

  move(by) {
    const rows = [...this.body.rows];
    if (!rows.length) return;
    const place = rows.indexOf(this.body.getRootNode().activeElement);
    const line = rows[Math.max(0, Math.min(rows.length - 1, place + by))] || rows[0];
    rows.forEach(row => { row.tabIndex = row === line ? 0 : -1; });
    line.focus();
  }

  key(event) {
    if (!this.data.opens || event.ctrlKey || event.metaKey || event.altKey || this.help.open) return;
    if (document.querySelector('[role="dialog"]')) return;
    const target = event.composedPath()[0];
    const search = document.querySelector('input[type="search"], [data-testid="stTextInput"] input');
    const typing = target.matches?.('input, textarea, select, [contenteditable="true"], [role="combobox"]');
    if (typing && !(target === search && (event.key === "ArrowDown" || event.key === "Escape"))) return;
    const step = { ArrowDown: 1, j: 1, ArrowUp: -1, k: -1 }[event.key];
    const page = { n: 1, p: -1 }[event.key];
    if (step) this.move(step);
    else if (page) this.turn(page);
    else if (event.key === "/" && search) search.focus();
    else if (event.key === "?") this.help.showModal();
    else if (event.key === "Escape" && typing) target.blur();
    else return;
    event.preventDefault();
  }
}

export default function ({ data, parentElement, setTriggerValue }) {
  const list = parentElement.listing || (parentElement.listing = new Listing(parentElement));
  list.send = setTriggerValue;
  list.update(data);
  return () => {
    list.close();
    delete parentElement.listing;
  };
}
