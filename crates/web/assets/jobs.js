// The list of jobs: filtered, sorted and paged by the server, so that it is as quick with very many.

Web.jobs = () => {
  const form = Web.$("filter"), table = Web.$("jobs"), operator = document.body.hasAttribute("data-operator");
  const wanted = { state: "NEW,QUEUED,ACTIVE", server: "", owner: "", name: "", sweep: "", text: "", sort: "submitted", ascending: "", page: 1, per_page: 100, by: "" };
  const given = new URLSearchParams(location.search);
  for (const key of Object.keys(wanted)) if (given.has(key)) wanted[key] = given.get(key);
  if (given.size > 0 && !given.has("state")) wanted.state = "";
  const selected = new Set();
  let view = null;

  const filters = () => { const { state, server, owner, name, sweep, text } = wanted; return { state, server, owner, name, sweep, text }; };
  const remember = () => history.replaceState(null, "", `/jobs?${Web.query({ ...wanted, state: wanted.state || undefined })}`);

  // Chips of states: none pressed means all.
  const states = () => wanted.state === "" ? [] : wanted.state.split(",");
  const chips = new Map(Object.keys(Web.STATES).map((state) => {
    const count = Web.node("small");
    const chip = Web.node("button", { type: "button", class: "chip", "aria-pressed": "false", onclick: () => {
      const now = new Set(states());
      if (!now.delete(state)) now.add(state);
      change({ state: [...now].join(",") });
    } }, Web.stateWord(state), count);
    Web.$("chips").append(chip);
    return [state, { chip, count }];
  }));

  const showFilters = () => {
    for (const [state, { chip }] of chips) chip.setAttribute("aria-pressed", String(states().includes(state)));
    for (const head of table.querySelectorAll("[data-sort]")) {
      if (head.dataset.sort === wanted.sort) head.setAttribute("aria-sort", wanted.ascending ? "ascending" : "descending"); else head.removeAttribute("aria-sort");
    }
    const scope = [["server", "server"], ["owner", "user"], ["name", "name"], ["sweep", "sweep"]].filter(([key]) => wanted[key] !== "");
    Web.$("scope").hidden = scope.length === 0;
    Web.$("scope").replaceChildren(...scope.map(([key, word]) => Web.node("button", {
      type: "button", class: "chip", "aria-label": `Remove the filter ${word} ${wanted[key]}`, onclick: () => change({ [key]: "" }),
    }, `${word}: ${wanted[key]} ×`)));
    Web.$("list").hidden = wanted.by !== "";
    Web.$("pages").hidden = wanted.by !== "";
    Web.$("cancel-selected").hidden = wanted.by !== "";
    if (wanted.by !== "") Web.$("all-matching").hidden = true;
    Web.$("grouped").hidden = wanted.by === "";
  };

  // The states of jobs that can be cancelled and match.
  const open = () => ["NEW", "QUEUED", "ACTIVE"].filter((state) => states().length === 0 || states().includes(state));

  const showSelection = () => {
    const onPage = view ? view.jobs.filter((job) => !Web.isFinal(job.state)) : [];
    const matching = view ? view.states.filter(({ value }) => open().includes(value)).reduce((sum, { jobs }) => sum + jobs, 0) : 0;
    Web.$("all-matching").hidden = selected.size === 0 || matching <= onPage.length || selected.size >= matching;
    Web.$("all-matching").textContent = `Select all ${Pliant.count(matching)} that wait or run`;
    const button = Web.$("cancel-selected");
    button.disabled = selected.size === 0;
    button.textContent = selected.size === 0 ? "Cancel selected jobs" : `Cancel ${Web.counted(selected.size, "job")}`;
    Web.$("all").checked = onPage.length > 0 && onPage.every((job) => selected.has(job.job_id));
    Web.$("all").disabled = onPage.length === 0;
  };

  const check = (job) => {
    const box = Web.node("input", { type: "checkbox", "aria-label": `Select job ${job.job_id}` });
    box.disabled = Web.isFinal(job.state);
    box.checked = selected.has(job.job_id);
    box.addEventListener("change", () => { if (box.checked) selected.add(job.job_id); else selected.delete(job.job_id); showSelection(); });
    return box;
  };

  const row = (job) => Web.row(job.job_id, [
    { text: `${Web.isFinal(job.state)} ${selected.has(job.job_id)}`, className: "check", node: () => check(job) },
    { text: job.job_id, head: true, node: () => Web.jobLink(job.job_id) },
    { text: job.name, className: "name" },
    ...(operator ? [job.owner] : []),
    { text: job.state, node: () => Web.stateNode(job.state) },
    { text: job.exit?.text ?? "–", className: "name exit", title: job.exit?.text },
    job.server,
    Web.timeCell(job.submitted_s),
    Web.startCell(job),
    Web.isFinal(job.state) && job.ended_s === null ? "–" : Web.endCell(job),
    Web.number(job.procs),
    Web.number(job.walltime_s, Pliant.span(job.walltime_s)),
    Web.number(job.moves),
  ]);

  const showJobs = () => {
    for (const [state, { count }] of chips) {
      const found = view.states.find((group) => group.value === state);
      count.textContent = found ? ` ${Pliant.count(found.jobs)}` : "";
    }
    for (const job of view.jobs) if (Web.isFinal(job.state)) selected.delete(job.job_id);
    const isFiltered = Object.values({ ...filters(), state: "" }).some((value) => value !== "");
    const ended = view.states.reduce((sum, { jobs }) => sum + jobs, 0);
    if (view.jobs.length === 0) Web.empty(table, isFiltered ? "No job matches." : ended > 0 ? `No job is in these states; ${Web.counted(ended, "job")} in others.` : "There is no job yet. The page Submit makes one.");
    else Web.rows(table, view.jobs.map((job) => Web.later(job.job_id, () => row(job))));
    const pages = Math.max(1, Math.ceil(view.matching / view.per_page)), first = (view.page - 1) * view.per_page;
    Web.$("place").textContent = view.jobs.length === 0 ? "" : `${Pliant.count(first + 1)} to ${Pliant.count(first + view.jobs.length)} of ${Pliant.count(view.matching)}`;
    const notes = [Web.counted(view.matching, "job")];
    if (!view.complete) notes.push("older ones are being read");
    if (view.cut) notes.push("the oldest are left out");
    Web.$("count").textContent = notes.join(", ");
    for (const button of document.querySelectorAll("[data-to]")) {
      button.disabled = ["first", "previous"].includes(button.dataset.to) ? view.page <= 1 : view.page >= pages;
    }
    showSelection();
    document.body.dataset.rendered = `jobs:${view.jobs.length}`;
  };

  const showGroups = ({ groups, total }) => {
    if (groups.length === 0) return Web.empty(Web.$("groups"), "No job matches.");
    const open = (value) => { wanted.by = ""; form.elements.by.value = ""; change({ [group]: value }); };
    const group = wanted.by;
    Web.rows(Web.$("groups"), groups.map((one) => Web.row(one.value, [
      { text: one.value, head: true, node: () => Web.node("button", { type: "button", class: "link", onclick: () => open(one.value) }, group === "state" ? Web.stateWord(one.value) : one.value) },
      ...["jobs", "waiting", "running", "completed", "failed", "canceled"].map((key) => Web.number(one[key])),
    ])));
    Web.$("count").textContent = groups.length < total ? `the ${Pliant.count(groups.length)} largest of ${Web.counted(total, "group")}` : Web.counted(total, "group");
    document.body.dataset.rendered = `groups:${groups.length}`;
  };

  let reading = null;
  const load = Web.throttled(400, () => Web.attempt("jobs", async () => {
    reading = new AbortController();
    if (wanted.by !== "") return showGroups(await Web.read(`/jobs/groups?${Web.query({ ...filters(), by: wanted.by })}`, reading.signal));
    const { sort, ascending, page, per_page } = wanted;
    view = await Web.read(`/jobs?${Web.query({ ...filters(), sort, ascending, page, per_page })}`, reading.signal);
    // Jobs have gone since, and with them the page.
    if (view.jobs.length === 0 && view.matching > 0) { wanted.page = Math.ceil(view.matching / view.per_page); return load.now(); }
    showJobs();
    return undefined;
  }));
  const change = (changes) => {
    Object.assign(wanted, { page: 1 }, changes);
    remember();
    showFilters();
    reading?.abort();
    load.now();
  };

  let typing = 0;
  form.elements.text.value = wanted.text;
  form.elements.text.addEventListener("input", () => { clearTimeout(typing); typing = setTimeout(() => change({ text: form.elements.text.value }), 200); });
  form.addEventListener("submit", (event) => { event.preventDefault(); change({ text: form.elements.text.value }); });
  form.elements.by.value = wanted.by;
  form.elements.by.addEventListener("change", () => change({ by: form.elements.by.value }));
  Web.$("per-page").value = String(wanted.per_page);
  Web.$("per-page").addEventListener("change", () => change({ per_page: Web.$("per-page").value }));
  for (const head of table.querySelectorAll("[data-sort]")) head.querySelector("button").addEventListener("click", () => {
    const same = wanted.sort === head.dataset.sort;
    change({ sort: head.dataset.sort, ascending: same ? (wanted.ascending ? "" : "true") : (["submitted", "start", "end", "procs", "walltime", "moves"].includes(head.dataset.sort) ? "" : "true") });
  });
  for (const button of document.querySelectorAll("[data-to]")) button.addEventListener("click", () => {
    const pages = Math.max(1, Math.ceil(view.matching / view.per_page));
    change({ page: { first: 1, previous: view.page - 1, next: view.page + 1, last: pages }[button.dataset.to] });
  });
  Web.$("all").addEventListener("change", () => {
    for (const job of view.jobs) if (!Web.isFinal(job.state)) { if (Web.$("all").checked) selected.add(job.job_id); else selected.delete(job.job_id); }
    showJobs();
  });
  // Reads the IDs of all pages.
  const selectMatching = () => Web.attempt("jobs", async () => {
    Web.$("all-matching").disabled = true;
    const state = open().join(","), most = 1000;
    for (let page = 1, matching = 1; (page - 1) * most < matching; page += 1) {
      const found = await Web.read(`/jobs?${Web.query({ ...filters(), state, page, per_page: most })}`);
      matching = found.matching;
      for (const job of found.jobs) selected.add(job.job_id);
    }
    showJobs();
  }).finally(() => { Web.$("all-matching").disabled = false; });
  Web.$("all-matching").addEventListener("click", selectMatching);
  const cancel = async (jobs) => {
    const refused = [];
    for (let first = 0; first < jobs.length; first += 1000) {
      if (jobs.length > 1000) Web.$("count").textContent = `${Pliant.count(first)} of ${Web.counted(jobs.length, "job")} cancelled`;
      const { cancelled, failed } = await Web.send("/jobs/cancel", { jobs: jobs.slice(first, first + 1000) });
      cancelled.forEach((job) => selected.delete(job.job_id));
      refused.push(...failed);
    }
    if (refused.length === 0) return;
    const [{ job_id: job, problem }] = refused, more = refused.length > 1 ? ` (and ${Pliant.count(refused.length - 1)} more)` : "";
    throw Object.assign(new Error(`${job} was not cancelled: ${problem.detail}${more}`), { hint: problem.hint });
  };
  Web.$("cancel-selected").addEventListener("click", async () => {
    const jobs = [...selected], counted = Web.counted(jobs.length, "job");
    if (!await Web.ask({ title: `Cancel ${counted}?`, text: "Running ones are ended.", action: `Cancel ${counted}`, danger: true })) return;
    await Web.attempt("cancel", () => cancel(jobs));
    load.now();
  });
  showFilters();
  Web.live({ refresh: load, job: load, removed: load, health: Web.showReach });
  load();
};
