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

// At most one run at a time, and at most one in `pause` milliseconds; a call meanwhile has it run again afterwards.
Web.throttled = (pause, work) => {
  let busy = false, again = false;
  const run = async () => {
    if (busy) { again = true; return; }
    busy = true;
    do {
      again = false;
      await work();
      await new Promise((done) => setTimeout(done, pause));
    } while (again);
    busy = false;
  };
  return run;
};

// Replaces the rows of a table by those of keys, and keeps nodes whose content is the same: focus and selection stay.
Web.rows = (table, rows) => {
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
  content: JSON.stringify([cells.map((cell) => cell.text ?? cell), attributes.class]),
  make: () => Web.node("tr", attributes, ...cells.map((cell) => {
    const { text = cell, number, title, node, head, className } = typeof cell === "object" ? cell : {};
    const classes = [number && "number", className].filter(Boolean).join(" ") || undefined;
    return Web.node(head ? "th" : "td", { class: classes, title, scope: head ? "row" : undefined }, node ? node() : String(text));
  })),
});

// One row that says that there is nothing.
Web.empty = (table, text) => {
  const columns = table.tHead.rows[0].cells.length;
  Web.rows(table, [{ key: "", content: text, make: () => Web.node("tr", { class: "empty" }, Web.node("td", { colspan: columns }, text)) }]);
};

// A table that is wider than the page can be scrolled by keyboard.
Web.scrollable = () => {
  for (const node of document.querySelectorAll(".scroll")) {
    if (node.scrollWidth > node.clientWidth + 1) node.tabIndex = 0; else node.removeAttribute("tabindex");
  }
};
