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
