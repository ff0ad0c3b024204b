// The page of operators, and what they may do with a job.

// Asks for a reason; none if that was cancelled.
Web.reason = (question) => {
  const why = prompt(`${question}\nThe reason, which the journal keeps:`);
  return why === null || why.trim() === "" ? null : why.trim();
};

Web.admin = () => {
  // The page's own certificate does not change while it is open.
  let own = null;
  const showCertificates = ({ clusters, agents, certificate_not_after_s: answering }) => {
    const all = [
      ...clusters.map((cluster) => [`server ${cluster.server}`, cluster.certificate_not_after_s]), ...agents.map((agent) => [`agent ${agent.name}`, agent.certificate_not_after_s]),
      ["the agent that answers", answering], [`${Web.user()}, of these pages`, own],
    ].sort(([, one], [, other]) => (one ?? Infinity) - (other ?? Infinity));
    const state = (end) => end === null ? ["unknown", "queued"] : end <= Web.now() ? ["has ended", "failed"] : end - Web.now() < 14 * 86_400 ? ["ends soon", "drained"] : ["good", "up"];
    Web.rows(Web.$("certificates"), all.map(([of, end]) => {
      const [word, kind] = state(end);
      return Web.row(of, [
        { text: of, head: true }, { text: word, node: () => Web.node("span", { class: `state ${kind}` }, word) },
        end === null ? "–" : Web.distance(end), end === null ? "–" : { text: end, node: () => Web.time(end) },
      ]);
    }));
  };
  const showServers = (view) => {
    const { clusters } = view;
    showCertificates(view);
    if (clusters.length === 0) return Web.empty(Web.$("servers"), "No server is known to the agent.");
    Web.rows(Web.$("servers"), clusters.map((cluster) => Web.row(cluster.server, [
      { text: cluster.server, head: true },
      { text: cluster.state, node: () => Web.node("span", { class: `state ${cluster.state}` }, cluster.state) },
      cluster.clock_ahead_s === null ? "right" : Web.signed(cluster.clock_ahead_s),
      { text: `act ${cluster.state}`, node: () => act(cluster) },
    ])));
    document.body.dataset.rendered = `servers:${clusters.length}`;
  };
  const act = ({ server, state }) => {
    const drained = state !== "drained", button = Web.node("button", { type: "button", onclick: () => {
      const why = Web.reason(drained ? `Has ${server} accept no new jobs.` : `Has ${server} accept jobs again.`);
      if (why) Web.attempt("drain", () => Web.send("/admin/drains", { server, drained, why })).then(all);
    } }, drained ? "Drain" : "Resume");
    button.disabled = state === "down";
    return button;
  };
  const showLimits = ({ limits }) => {
    if (limits.length === 0) return Web.empty(Web.$("limits"), "No user has limits.");
    Web.rows(Web.$("limits"), limits.map(({ user, server, limits: of, act: { at_s: at, by, why } }) => Web.row(`${user} ${server}`, [
      { text: user, head: true }, server,
      ...["running-jobs", "processors", "waiting-jobs", "waiting-bytes"].map((key) => ({ text: of[key] === undefined ? "–" : Pliant.count(of[key]), number: true })),
      Web.timeCell(at), by, why,
    ])));
  };
  const showAudit = ({ records }) => {
    if (records.length === 0) return Web.empty(Web.$("audit"), "There is no record.");
    Web.rows(Web.$("audit"), records.map((record) => Web.row(`${record.server} ${record.number}`, [
      Web.timeCell(record.at_s), record.server, record.by, record.act,
      record.job_id === null ? record.user ?? "" : { text: record.job_id, node: () => Web.jobLink(record.job_id) }, record.why,
    ])));
  };
  const showPolicy = ({ policy }) => {
    inForce = policy;
    Web.$("policy").textContent = policy === null ? "The agent moves no waiting jobs."
      : `Waiting jobs are moved by ${policy.algorithm} with ${policy.heuristic}: every ${Pliant.span(policy.period_s)}, for a gain of at least ${Pliant.span(policy.threshold_s)}${policy.early_s === null ? "" : `, and after jobs that ended early, at most every ${Pliant.span(policy.early_s)}`}.`;
  };
  const form = Web.$("reallocation");
  // What is typed is not overwritten: the form shows the policy in force when it is opened.
  let inForce = null;
  Web.$("reallocation-change").addEventListener("toggle", ({ target }) => {
    if (!target.open) return;
    const shown = inForce ?? { period_s: 300, threshold_s: 60, window: 20, early_s: 30 };
    for (const [key, value] of Object.entries(shown)) if (form.elements[key]) form.elements[key].value = value ?? "";
  });
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const kind = event.submitter?.value ?? "set", given = values(form), body = { kind };
    if (kind === "set") {
      Object.assign(body, { algorithm: given.algorithm, heuristic: given.heuristic });
      for (const key of ["period_s", "threshold_s", "window"]) body[key] = Number(given[key]);
      if (given.early_s !== "") body.early_s = Number(given.early_s);
    }
    if (kind === "off" && !confirm("Move no waiting jobs any more?")) return;
    Web.attempt("reallocation", async () => { showPolicy(await Web.send("/admin/reallocation", body)); Web.$("reallocation-change").open = false; });
  });
  const servers = Web.throttled(500, () => Web.attempt("servers", async () => {
    own ??= (await Web.read("/session")).certificate_not_after_s;
    showServers(await Web.read("/clusters"));
  }));
  const slow = Web.throttled(1000, async () => {
    await Web.attempt("limits", async () => showLimits(await Web.read("/admin/limits")));
    await Web.attempt("policy", async () => showPolicy(await Web.read("/admin/reallocation")));
    await Web.attempt("audit", async () => showAudit(await Web.read(`/admin/audit?last=${Web.$("last").value}`)));
  });
  const all = () => { servers(); slow(); };

  const values = (form) => Object.fromEntries(new FormData(form));
  Web.$("limit").addEventListener("submit", (event) => {
    event.preventDefault();
    const { user, why, ...given } = values(event.target), limits = {};
    for (const [key, value] of Object.entries(given)) if (value !== "") limits[key] = value === "none" ? null : Number(value);
    Web.attempt("limit", () => Web.send("/admin/limits", { user, why, limits })).then((done) => { if (done) event.target.reset(); slow(); });
  });
  Web.$("ban").addEventListener("submit", (event) => {
    event.preventDefault();
    const { user, why } = values(event.target), banned = event.submitter?.value !== "false";
    Web.attempt("ban", async () => {
      const { servers: came, silent } = await Web.send("/admin/bans", { user, why, banned });
      const names = came.map(({ server }) => server).join(", ");
      Web.$("ban-note").textContent = `${names}: ${banned ? "nothing is accepted of" : "jobs are accepted of"} ${user}.${silent.length > 0 ? ` No answer of ${silent.map(({ server }) => server).join(", ")}.` : ""}`;
      event.target.reset();
    }).then(slow);
  });
  Web.$("trial").addEventListener("click", () => Web.attempt("trial", async () => {
    Web.$("trial").disabled = true;
    const trial = await Web.send("/admin/reallocation/trial").finally(() => { Web.$("trial").disabled = false; });
    Web.$("trial-result").hidden = false;
    Web.$("trial-note").textContent = trial.refused ?? `${Web.counted(trial.movable, "job")} could be moved.${trial.silent.length > 0 ? ` No queue of ${trial.silent.join(", ")}.` : ""}`;
    if (trial.moves.length === 0) Web.empty(Web.$("proposals"), "It would move no job.");
    else Web.rows(Web.$("proposals"), trial.moves.map((move) => Web.row(move.job_id, [
      { text: move.job_id, head: true, node: () => Web.jobLink(move.job_id) }, move.from, move.to,
      move.before_s === null ? "not planned" : Web.timeCell(move.before_s), Web.timeCell(move.expected.completion_s),
    ])));
  }));
  Web.$("last").addEventListener("change", slow);
  Web.live({ refresh: all, clusters: showServers, health: Web.showReach });
  all();
};

// Buttons for operators on the page of a waiting job.
Web.operatorTools = (path, load) => {
  const send = (question, call, more = {}) => {
    const why = Web.reason(question);
    if (why) Web.attempt("operator", () => Web.send(`${path}/${call}`, { why, ...more })).then(load);
  };
  const button = (text, act) => Web.node("button", { type: "button", onclick: act }, text);
  return [
    button("Hold", () => send("Keeps the job from starting.", "hold")),
    button("Release", () => send("Lets a held job start again.", "release")),
    button("Priority", () => {
      const priority = prompt("The priority, -1000000 to 1000000; the highest is served first, others have 0:");
      if (priority !== null && /^-?\d+$/.test(priority.trim())) send("Changes the place of the job in its queue.", "priority", { priority: Number(priority) });
    }),
  ];
};
