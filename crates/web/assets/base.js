// The pages' own names, calls to the API, and messages. Texts become nodes, never markup.

const Web = {};

Web.$ = (id) => document.getElementById(id);
Web.meta = (name) => document.querySelector(`meta[name="${name}"]`)?.content ?? "";
Web.user = () => Web.meta("pliant-user");

// An element with attributes and children; texts are texts.
Web.node = (tag, attributes = {}, ...children) => {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? "" : String(value));
  }
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
};

// A call of the API; its problem document as an error.
Web.call = async (path, { method = "GET", body, signal } = {}) => {
  const headers = {};
  if (method !== "GET") headers["x-csrf-token"] = Web.meta("csrf-token");
  if (body !== undefined) headers["content-type"] = "application/json";
  let response;
  try {
    response = await fetch(`/api/v1${path}`, { method, headers, signal, body: body === undefined ? undefined : JSON.stringify(body) });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Web.Problem({ detail: "pliant web does not answer", hint: "it may have been stopped: start it again" }, 0);
  }
  if (response.ok) return response;
  throw new Web.Problem(await response.json().catch(() => ({ detail: response.statusText })), response.status);
};

Web.Problem = class extends Error {
  constructor(document, status) {
    super(document.detail ?? "something failed");
    this.status = status;
    this.hint = document.hint;
  }
};

Web.read = async (path, signal) => (await Web.call(path, { signal })).json();

Web.send = async (path, body) => (await Web.call(path, { method: "POST", body })).json();

// A query from the pairs that have a value.
Web.query = (pairs) => new URLSearchParams(Object.entries(pairs).filter(([, value]) => value !== "" && value !== undefined && value !== null && value !== false)).toString();

// Ends the session at a portal.
Web.logout = () => Web.$("logout")?.addEventListener("click", () => Web.attempt("logout", async () => {
  const response = await fetch("/logout", { method: "POST", headers: { "x-csrf-token": Web.meta("csrf-token") } });
  // The session may have ended already.
  if (!response.ok && response.status !== 401) throw new Web.Problem(await response.json().catch(() => ({ detail: response.statusText })), response.status);
  location.assign("/logged-out");
}));

// Shows a problem until the same place works again, or is closed.
Web.complain = (place, error) => {
  if (error?.name === "AbortError") return;
  Web.settle(place);
  const close = Web.node("button", { type: "button", "aria-label": "Close this message", onclick: () => Web.settle(place) }, "×");
  const text = Web.node("p", {}, error.message, error.hint ? Web.node("small", {}, ` ${error.hint}`) : null);
  Web.$("messages").append(Web.node("div", { class: "message", "data-place": place }, text, close));
};

Web.settle = (place) => {
  for (const node of Web.$("messages").children) if (node.dataset.place === place) node.remove();
};

// Does something for a place of the page: what fails is shown there.
Web.attempt = async (place, work) => {
  try {
    const result = await work();
    Web.settle(place);
    return result;
  } catch (error) {
    Web.complain(place, error);
    return undefined;
  }
};

// At most one run at a time, and at most one in `pause` milliseconds; a call meanwhile has it run again afterwards. `now` does not
// wait for the pause: for what a user asks for.
Web.throttled = (pause, work) => {
  let busy = false, again = false, hurry = false, wake = null;
  const rest = () => new Promise((done) => {
    const timer = setTimeout(done, pause);
    wake = () => { clearTimeout(timer); done(); };
  });
  const run = async () => {
    if (busy) { again = true; return; }
    busy = true;
    do {
      again = hurry = false;
      await work();
      if (!hurry) await rest();
      wake = null;
    } while (again);
    busy = false;
  };
  run.now = () => {
    hurry = true;
    wake?.();
    return run();
  };
  return run;
};

// Asks in a dialog, and resolves to the values of its fields, or to null if it was closed. A field has a label and the attributes of its input.
Web.ask = ({ title, text, fields = [], action, danger = false }) => new Promise((done) => {
  const inputs = fields.map(({ label, ...attributes }) => Web.node("label", { class: "field" }, label, Web.node("input", { autocomplete: "off", ...attributes })));
  const back = Web.node("button", { type: "button", onclick: () => dialog.close() }, "Back");
  const form = Web.node("form", {}, Web.node("h2", { id: "ask-title" }, title), text ? Web.node("p", {}, text) : null, ...inputs,
    Web.node("p", { class: "bar" }, Web.node("button", { type: "submit", class: danger ? "danger" : "primary" }, action), back));
  const dialog = Web.node("dialog", { "aria-labelledby": "ask-title" }, form);
  let values = null;
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    values = Object.fromEntries(new FormData(form));
    dialog.close();
  });
  dialog.addEventListener("close", () => { dialog.remove(); done(values); });
  document.body.append(dialog);
  dialog.showModal();
});

// Shows rows in a table, in the order that its user has chosen, and those that its user searches.
Web.rows = (table, rows) => {
  Web.given.set(table, rows);
  Web.arrange(table);
};

Web.given = new WeakMap();
Web.collator = new Intl.Collator(undefined, { numeric: true });

Web.arrange = (table) => {
  const { sort, search } = table.dataset;
  let rows = Web.given.get(table) ?? [];
  // A row that only says something has no cells.
  if (search) {
    rows = rows.filter(({ cells }) => !cells || cells.some((cell) => String(cell.text ?? cell).toLowerCase().includes(search)));
    if (rows.length === 0) rows = [Web.note(table, "No row matches.")];
  }
  if (sort && rows[0]?.cells) {
    const column = Math.abs(Number(sort)) - 1, sign = Math.sign(Number(sort));
    const compare = (one, other) => typeof one === "number" && typeof other === "number" ? one - other : Web.collator.compare(one, other);
    const found = rows.map((row) => [Web.value(row.cells[column]), row]);
    // Rows without a value are last in both orders.
    const known = found.filter(([value]) => value !== null), unknown = found.filter(([value]) => value === null);
    known.sort(([one], [other]) => sign * compare(one, other));
    rows = [...known, ...unknown].map(([, row]) => row);
  }
  Web.replace(table, rows);
};

// What a cell is sorted by; null if it has no value.
Web.value = (cell) => {
  if (cell.sort !== undefined) return cell.sort;
  const text = cell.text ?? cell;
  return text === "–" ? null : typeof text === "number" ? text : String(text);
};

// The columns of tables that are here as a whole are sorted by their heads: up, down, and as the table came.
Web.sorted = () => {
  for (const table of document.querySelectorAll("table[data-sorted]")) {
    const heads = [...table.tHead.rows[0].cells];
    const show = () => heads.forEach((head, index) => {
      const sort = Number(table.dataset.sort ?? 0);
      if (Math.abs(sort) === index + 1) head.setAttribute("aria-sort", sort > 0 ? "ascending" : "descending"); else head.removeAttribute("aria-sort");
    });
    heads.forEach((head, index) => {
      const column = index + 1;
      head.replaceChildren(Web.node("button", { type: "button", class: "sort", onclick: () => {
        const sort = Number(table.dataset.sort ?? 0);
        if (sort === -column) delete table.dataset.sort; else table.dataset.sort = sort === column ? -column : column;
        show();
        Web.arrange(table);
      } }, head.textContent));
    });
  }
  for (const input of document.querySelectorAll("input[data-search]")) {
    const table = Web.$(input.dataset.search);
    input.addEventListener("input", () => { table.dataset.search = input.value.trim().toLowerCase(); Web.arrange(table); });
  }
};

// Replaces the rows of a table by those of keys, and keeps nodes whose content is the same: focus and selection stay.
Web.replace = (table, rows) => {
  const body = table.tBodies[0], old = new Map([...body.children].map((row) => [row.dataset.key, row]));
  const wanted = rows.map(({ key, content, make }) => {
    const kept = old.get(key);
    if (kept && kept.dataset.content === content) return kept;
    const row = make();
    row.dataset.key = key;
    row.dataset.content = content;
    return row;
  });
  wanted.forEach((row, index) => { if (body.children[index] !== row) body.insertBefore(row, body.children[index] ?? null); });
  while (body.children.length > wanted.length) body.lastChild.remove();
  Web.scrollable();
};

Web.row = (key, cells, attributes = {}) => ({
  key,
  cells,
  content: JSON.stringify([cells.map((cell) => cell.text ?? cell), attributes.class]),
  make: () => Web.node("tr", attributes, ...cells.map((cell) => {
    const { text = cell, number, title, node, head, className } = typeof cell === "object" ? cell : {};
    const classes = [number && "number", className].filter(Boolean).join(" ") || undefined;
    return Web.node(head ? "th" : "td", { class: classes, title, scope: head ? "row" : undefined }, node ? node() : String(text));
  })),
});

// A cell with a number, sorted by it.
Web.number = (value, text = Pliant.count(value)) => ({ text, number: true, sort: value });

// One row that says that there is nothing.
Web.empty = (table, text) => Web.rows(table, [Web.note(table, text)]);

Web.note = (table, text) => {
  const columns = table.tHead.rows[0].cells.length;
  return { key: "", content: text, make: () => Web.node("tr", { class: "empty" }, Web.node("td", { colspan: columns }, text)) };
};

// A table that is wider than the page can be scrolled by keyboard.
Web.scrollable = () => {
  for (const node of document.querySelectorAll(".scroll")) {
    if (node.scrollWidth > node.clientWidth + 1) node.tabIndex = 0; else node.removeAttribute("tabindex");
  }
};
