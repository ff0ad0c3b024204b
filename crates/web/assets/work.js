// Sweeps and explorations: the list, and one with its servers, its plot and its results. Folders are read again while the page is seen.

Web.WORK_STATES = { running: "active", over: "completed", stopped: "drained", cancelled: "queued", completed: "completed", failed: "failed", submitted: "active", waiting: "queued", "not-started": "failed" };
Web.workState = (state) => Web.node("span", { class: `state ${Web.WORK_STATES[state] ?? "queued"}` }, state);

Web.workProgress = (work) => {
  if (work.kind === null) return "–";
  const done = `${Pliant.count(work.done)} of ${Pliant.count(work.total)}`;
  return work.optional_done === null ? done : `${done} mandatory, ${Pliant.count(work.optional_done)} optional`;
};

Web.works = () => {
  const table = Web.$("works");
  const show = ({ folders, left_out: leftOut }) => {
    if (folders.length === 0) Web.empty(table, "There is no sweep and no exploration yet.");
    else Web.rows(table, folders.map((work) => Web.row(work.id, [
      { text: work.name, head: true, className: "name", title: work.folder, node: () => Web.node("a", { href: `/work/${work.id}` }, work.name) },
      { text: work.problem ?? work.kind, className: "name", title: work.problem ?? undefined }, { text: work.runs, className: "name" },
      { text: work.kind === null ? "unreadable" : work.state, node: () => work.kind === null ? Web.node("span", { class: "state failed" }, "unreadable") : Web.workState(work.state) },
      { text: Web.workProgress(work), sort: work.kind === null ? null : work.done / Math.max(1, work.total) }, Web.number(work.failed), Web.number(work.submitted),
      work.deadline_s === null ? "–" : Web.timeCell(work.deadline_s), work.written_s === null ? "–" : Web.timeCell(work.written_s),
    ])));
    if (leftOut > 0) Web.$("works-note").textContent = `${Web.counted(leftOut, "older folder")} are left out.`;
    document.body.dataset.rendered = `works:${folders.length}`;
  };
  const showShares = ({ servers, together }) => {
    Web.$("shares-section").hidden = servers.length === 0;
    if (servers.length === 0) return;
    const all = servers.length > 1 ? [...servers, together] : servers;
    Web.rows(Web.$("shares"), all.map((share) => {
      const part = share.fair_share_s > 0 ? Math.round(100 * share.usage_s / share.fair_share_s) : null;
      return Web.row(share.server ?? "", [
        { text: share.server ?? "together", head: true }, Web.number(share.cores),
        Web.number(share.usage_s, Web.seconds(share.usage_s)), Web.number(share.fair_share_s, Web.seconds(share.fair_share_s)),
        { text: part === null ? "–" : `${part} %`, sort: part, node: () => part === null ? Web.node("span", {}, "–") : Web.meter(Math.min(part, 100), `${part} %`) },
        Web.number(share.requests), Web.number(share.completed), Web.number(share.killed),
      ]);
    }));
  };
  // Sweeps by their jobs; those of folders on this machine are listed above.
  let own = new Set();
  const showSweeps = ({ sweeps, left_out: leftOut, complete }) => {
    const others = sweeps.filter((sweep) => !own.has(sweep.group.value));
    Web.$("sweeps-section").hidden = table !== null && others.length === 0;
    if (others.length === 0) Web.empty(Web.$("sweeps"), "No sweep or array has more than one job yet.");
    else Web.rows(Web.$("sweeps"), others.map(({ group, name, owner, servers, submitted_s: submitted, ended_s: ended }) => {
      const over = group.completed + group.failed + group.canceled, count = (value) => Web.number(value);
      const places = servers.map((server) => `${server.value} ${Pliant.count(server.jobs)}`).join(", ");
      return Web.row(group.value, [
        { text: group.value, head: true, node: () => Web.node("a", { href: `/jobs?${Web.query({ sweep: group.value })}`, class: "mono" }, group.value.slice(0, 8)) },
        { text: name, className: "name places", title: name }, ...(document.body.hasAttribute("data-operator") ? [{ text: owner, className: "name" }] : []),
        { text: `${over} of ${group.jobs}`, sort: over / group.jobs, node: () => Web.meter(Math.floor(100 * over / group.jobs), `${Pliant.count(over)} of ${Pliant.count(group.jobs)}`) },
        count(group.waiting), count(group.running), count(group.failed), count(group.canceled),
        { text: places, className: "name places", title: places }, Web.timeCell(submitted), ended === null ? "–" : Web.timeCell(ended),
      ]);
    }));
    const notes = [];
    if (leftOut > 0) notes.push(`${Web.counted(leftOut, "older sweep")} are left out`);
    if (!complete) notes.push("older jobs are being read");
    Web.$("sweeps-note").textContent = notes.length === 0 ? "" : `${notes.join("; ")}.`;
    document.body.dataset.sweeps = `${others.length}`;
    if (table === null) document.body.dataset.rendered = `sweeps:${others.length}`;
  };
  const load = Web.throttled(1000, () => Web.attempt("works", async () => {
    if (table !== null) {
      const view = await Web.read("/work");
      own = new Set(view.folders.map((work) => work.sweep));
      show(view);
    }
    showSweeps(await Web.read("/sweeps"));
  }));
  const shares = Web.throttled(5000, () => Web.attempt("shares", async () => showShares(await Web.read("/shares"))));
  setInterval(() => { if (!document.hidden) load(); }, 2000);
  setInterval(() => { if (!document.hidden) shares(); }, 15_000);
  Web.live({ health: Web.showReach });
  load();
  shares();
};

Web.work = () => {
  const id = Web.$("work").dataset.work, path = `/work/${id}`;
  const wanted = { text: "", state: "", sort: "number", ascending: "true", page: 1, per_page: 50 };
  let detail = null, plotted = "", written = null;

  const show = () => {
    const { work, sweep, exploration } = detail;
    Web.$("kind").textContent = work.kind === "sweep" ? "Sweep" : "Exploration";
    Web.$("name").textContent = work.name;
    document.title = `${work.name} · Pliant`;
    Web.$("state").replaceWith(Object.assign(Web.workState(work.state), { id: "state" }));
    Web.$("state").setAttribute("role", "status");
    Web.$("summary").textContent = `${Web.workProgress(work)} completed${work.failed > 0 ? `, ${Pliant.count(work.failed)} failed` : ""}${work.not_started > 0 ? `, ${Pliant.count(work.not_started)} not started before the deadline` : ""}${work.submitted > 0 ? `, ${Pliant.count(work.submitted)} at servers` : ""}.`;
    showBar(work);
    const facts = [["runs", work.runs], ["arguments", detail.arguments || "none"], ["folder", work.folder]];
    if (work.written_s !== null) facts.push(["last change", `${Web.instant(work.written_s)} (${Web.distance(work.written_s)})`]);
    if (sweep) facts.push(["allocated by", sweep.strategy], ["jobs", `${Pliant.count(sweep.batches)}, ${Web.counted(sweep.retried, "instance")} run again`], ["retries", String(sweep.retries)]);
    if (sweep?.at_once) facts.push(["at a time", Pliant.count(sweep.at_once)]);
    if (exploration) {
      facts.push(["began", Web.instant(exploration.began_s)], ["deadline", `${Web.instant(exploration.deadline_s)} (${Web.distance(exploration.deadline_s)})`], ["requests at most", Pliant.count(exploration.most)]);
      const { mandatory_done_s: done, deadline_s: deadline } = exploration;
      if (done !== null) facts.push(["mandatory ones done", `${Web.instant(done)}, ${done <= deadline ? `${Pliant.span(deadline - done)} before the deadline` : `${Pliant.span(done - deadline)} late`}`]);
    }
    Web.$("facts").replaceChildren(Pliant.facts(facts));
    Web.$("command").hidden = work.state !== "stopped";
    // A folder is one word for a shell.
    const folder = /^[\w./+-]+$/.test(work.folder) ? work.folder : `'${work.folder.replaceAll("'", "'\\''")}'`;
    Web.$("command").textContent = work.kind === "sweep" ? `pliant sweep --resume ${folder}` : `pliant explore … --out ${folder}`;
    showServers();
    showColumns();
    document.body.dataset.rendered = `work:${work.state}:${work.done}`;
  };

  const showBar = (work) => {
    const all = Math.max(1, work.total), part = (count, name) => {
      const node = Web.node("i", { class: name });
      node.style.width = `${100 * Math.min(1, count / all)}%`;
      return node;
    };
    const submitted = work.optional_done === null ? work.submitted : 0;
    Web.$("bar").replaceChildren(part(work.done, "done"), part(work.optional_done === null ? work.failed : 0, "failed"), part(submitted, "open"));
    Web.$("bar").setAttribute("aria-label", Web.$("summary").textContent);
  };

  const showServers = () => {
    const { servers, sweep } = detail;
    Web.$("servers").classList.toggle("of-sweep", sweep !== null);
    if (servers.length === 0) return Web.empty(Web.$("servers"), "No server has had any yet.");
    const of = (server) => server.done + (server.optional ?? 0) + server.submitted, all = servers.reduce((sum, server) => sum + of(server), 0);
    const number = (value) => value === null ? { text: "–", number: true } : Web.number(value);
    Web.rows(Web.$("servers"), servers.map((server) => {
      const share = all === 0 ? 0 : Math.round(100 * of(server) / all), ends = server.done + server.failed;
      return Web.row(server.server, [
        { text: server.server, head: true }, { text: `${share} %`, sort: share, node: () => Web.meter(share) }, number(server.done), number(server.optional), number(server.failed), number(server.submitted),
        number(server.refused), { text: sweep && ends > 0 ? Web.seconds(server.elapsed_s / ends) : "–", number: true },
      ]);
    }));
  };

  const text = (key) => detail.columns.find((column) => column.key === key)?.text ?? key;
  const showColumns = () => {
    const head = Web.$("rows").tHead.rows[0], keys = detail.columns.map((column) => column.key).join("\n");
    if (head.dataset.keys === keys) return;
    head.dataset.keys = keys;
    head.replaceChildren(...detail.columns.map((column) => Web.node("th", { scope: "col", "data-sort": column.key, class: isNumber(column) ? "number" : undefined },
      Web.node("button", { type: "button", class: "sort", onclick: () => sort(column.key) }, column.text))));
    const numbers = detail.columns.filter((column) => column.number);
    for (const [select, fallback] of [[Web.$("plot-x"), numbers[1]?.key], [Web.$("plot-y"), "value"]]) {
      select.replaceChildren(...numbers.map((column) => Web.node("option", { value: column.key }, column.text)));
      select.value = fallback ?? "number";
    }
    showSort();
  };
  const isNumber = ({ key }) => ["number", "elapsed", "ended"].includes(key);
  const sort = (key) => change({ sort: key, ascending: wanted.sort === key ? (wanted.ascending ? "" : "true") : "true" });
  const showSort = () => {
    for (const head of Web.$("rows").querySelectorAll("[data-sort]")) {
      if (head.dataset.sort === wanted.sort) head.setAttribute("aria-sort", wanted.ascending ? "ascending" : "descending"); else head.removeAttribute("aria-sort");
    }
  };

  const chips = new Map(["completed", "failed", "submitted", "waiting", "not-started", "cancelled"].map((state) => {
    const count = Web.node("small");
    const chip = Web.node("button", { type: "button", class: "chip", "aria-pressed": "false", onclick: () => {
      const now = new Set(wanted.state === "" ? [] : wanted.state.split(","));
      if (!now.delete(state)) now.add(state);
      change({ state: [...now].join(",") });
    } }, state, count);
    Web.$("chips").append(chip);
    return [state, { chip, count }];
  }));

  let view = null;
  const showRows = () => {
    const pressed = wanted.state.split(",");
    for (const [state, { chip, count }] of chips) {
      chip.setAttribute("aria-pressed", String(pressed.includes(state)));
      const found = view.states.find((group) => group.value === state);
      count.textContent = found ? ` ${Pliant.count(found.jobs)}` : "";
    }
    if (view.rows.length === 0) Web.empty(Web.$("rows"), "No result matches.");
    else Web.rows(Web.$("rows"), view.rows.map((row) => {
      let value = 0;
      return Web.row(String(row.number), detail.columns.map(({ key }) => {
        if (key === "number") return { text: row.optional ? `${row.number} optional` : row.number, head: true, number: true };
        if (key.startsWith("arg:")) return { text: row.values[value++] ?? "", className: "name" };
        if (key === "state") return { text: row.state, title: row.how || undefined, node: () => Web.workState(row.state) };
        if (key === "server") return row.job_id === null ? row.server ?? "–" : { text: row.job_id, node: () => Web.jobLink(row.job_id) };
        if (key === "elapsed") return { text: row.elapsed_s === null ? "–" : row.elapsed_s.toFixed(3), number: true };
        if (key === "ended") return { text: row.ended_s === null ? "–" : row.ended_s.toFixed(3), number: true };
        const output = row.output || row.error || (row.state === "failed" ? row.how : "");
        return { text: output.split("\n")[0], title: output || undefined, className: "name mono" };
      }));
    }));
    const pages = Math.max(1, Math.ceil(view.matching / view.per_page)), first = (view.page - 1) * view.per_page;
    Web.$("place").textContent = view.rows.length === 0 ? "" : `${Pliant.count(first + 1)} to ${Pliant.count(first + view.rows.length)} of ${Pliant.count(view.matching)}`;
    Web.$("count").textContent = Web.counted(view.matching, "result");
    for (const button of document.querySelectorAll("[data-to]")) button.disabled = ["first", "previous"].includes(button.dataset.to) ? view.page <= 1 : view.page >= pages;
    document.body.dataset.rows = `${view.matching}`;
  };

  const rows = Web.throttled(500, () => Web.attempt("rows", async () => { view = await Web.read(`${path}/rows?${Web.query(wanted)}`); showRows(); }));
  const plot = new Web.Plot(Web.$("plot"), (number) => {
    change({ sort: "number", ascending: "true", text: "", state: "", page: Math.floor(number / wanted.per_page) + 1 });
    Web.$("results-title").scrollIntoView();
  });
  const points = Web.throttled(1000, () => Web.attempt("plot", async () => {
    const x = Web.$("plot-x").value, y = Web.$("plot-y").value;
    const found = await Web.read(`${path}/points?${Web.query({ x, y })}`), key = JSON.stringify([x, y, found]);
    if (key === plotted) return;
    plotted = key;
    plot.show(found.points, [text(x), text(y)]);
    const notes = [Web.counted(found.points.length, "result")];
    if (found.without > 0) notes.push(`${Pliant.count(found.without)} without these numbers`);
    if (found.left_out > 0) notes.push(`${Pliant.count(found.left_out)} more are not drawn`);
    Web.$("plot-note").textContent = `${notes.join(", ")}.`;
    document.body.dataset.plotted = `${found.points.length}`;
  }));
  const change = (changes) => { Object.assign(wanted, { page: 1 }, changes); Web.$("filter").elements.text.value = wanted.text; showSort(); rows(); };

  const load = Web.throttled(1000, () => Web.attempt("work", async () => {
    const first = detail === null;
    detail = await Web.read(path);
    const { work } = detail, now = JSON.stringify([work.written_s, work.done, work.failed, work.submitted, work.state]);
    show();
    if (first || now !== written) { rows(); points(); }
    written = now;
  }));
  let typing = 0;
  Web.$("filter").elements.text.addEventListener("input", (event) => { clearTimeout(typing); typing = setTimeout(() => change({ text: event.target.value }), 200); });
  Web.$("filter").addEventListener("submit", (event) => event.preventDefault());
  for (const select of [Web.$("plot-x"), Web.$("plot-y")]) select.addEventListener("change", points);
  for (const button of document.querySelectorAll("[data-to]")) button.addEventListener("click", () => {
    const pages = Math.max(1, Math.ceil(view.matching / view.per_page));
    change({ page: { first: 1, previous: view.page - 1, next: view.page + 1, last: pages }[button.dataset.to] });
  });
  setInterval(() => { if (!document.hidden) load(); }, 2000);
  Web.live({ health: Web.showReach });
  load();
};

Web.seconds = (seconds) => seconds < 10 ? `${seconds.toFixed(2)} s` : Pliant.span(seconds);
