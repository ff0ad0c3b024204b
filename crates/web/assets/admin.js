// The page of operators, and what they may do with a job.

// Asks for a reason, and for more fields; null if the dialog was closed.
Web.reason = (title, action, { text, fields = [], danger } = {}) => {
  const why = { label: "The reason, which the journal keeps", name: "why", required: true, pattern: ".*\\S.*", title: "a reason of one line", maxlength: 1000 };
  return Web.ask({ title, text, action, danger, fields: [...fields, why] });
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
        end === null ? "–" : { text: Web.distance(end), sort: end }, end === null ? "–" : { text: end, node: () => Web.time(end) },
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
    const drained = state !== "drained", button = Web.node("button", { type: "button", onclick: async () => {
      const title = drained ? `Drain ${server}?` : `Resume ${server}?`, text = drained ? "It accepts no new jobs. Users see the reason." : "It accepts jobs again.";
      const asked = await Web.reason(title, drained ? "Drain" : "Resume", { text });
      if (asked) Web.attempt("drain", () => Web.send("/admin/drains", { server, drained, why: asked.why })).then(all);
    } }, drained ? "Drain" : "Resume");
    button.disabled = state === "down";
    return button;
  };
  const showLimits = ({ limits }) => {
    if (limits.length === 0) return Web.empty(Web.$("limits"), "No user has limits.");
    Web.rows(Web.$("limits"), limits.map(({ user, server, limits: of, act: { at_s: at, by, why } }) => Web.row(`${user} ${server}`, [
      { text: user, head: true }, server,
      ...["running-jobs", "processors", "waiting-jobs", "waiting-bytes"].map((key) => of[key] === undefined ? { text: "–", number: true } : Web.number(of[key])),
      Web.timeCell(at), by, why,
    ])));
  };
  // Users with jobs, with limits or with a ban: those of whom less is accepted come first.
  const showUsers = ({ groups, total }, { limits, bans, silent }) => {
    const users = new Map(), none = { waiting: 0, running: 0, completed: 0, failed: 0, canceled: 0 };
    const of = (value, counts = none) => { if (!users.has(value)) users.set(value, { value, ...counts, limits: [], bans: [] }); return users.get(value); };
    for (const group of groups) of(group.value, group);
    for (const one of limits) of(one.user).limits.push(one);
    for (const one of bans) of(one.user).bans.push(one);
    const rank = (user) => user.bans.length > 0 ? 0 : user.limits.length > 0 ? 1 : 2;
    const rows = [...users.values()].sort((one, other) => rank(one) - rank(other));
    const state = (user) => user.bans.length > 0 ? ["banned", "failed", user.bans] : user.limits.length > 0 ? ["limited", "drained", user.limits] : ["", "", []];
    if (rows.length === 0) Web.empty(Web.$("users"), "No user has jobs, limits or a ban.");
    else Web.rows(Web.$("users"), rows.map((user) => {
      const [word, kind, acts] = state(user), reasons = acts.map(({ server, act }) => `${server}: ${act.why} (${act.by}, ${Web.instant(act.at_s)})`).join("\n");
      const where = acts.map(({ server }) => server).join(", ");
      return Web.row(user.value, [
        { text: user.value, head: true, node: () => Web.node("a", { href: `/jobs?${Web.query({ owner: user.value })}` }, user.value) },
        { text: word, title: reasons || undefined, node: () => word === "" ? Web.node("span") : Web.node("span", { class: `state ${kind}` }, word) },
        { text: where, className: "name", title: reasons || undefined },
        ...["waiting", "running", "completed", "failed", "canceled"].map((key) => Web.number(user[key])),
        { text: `act ${word}`, node: () => Web.node("span", { class: "tools" }, ban(user), limitOf(user)) },
      ]);
    }));
    const notes = [];
    if (total > groups.length) notes.push(`Counted are the ${Pliant.count(groups.length)} users with the most jobs of ${Pliant.count(total)}.`);
    if (silent.length > 0) notes.push(`No answer of ${silent.map(({ server }) => server).join(", ")}.`);
    Web.$("users-note").textContent = notes.join(" ");
    document.body.dataset.users = `${rows.length}`;
  };
  const ban = ({ value: user, bans }) => Web.node("button", { type: "button", onclick: async () => {
    const banned = bans.length === 0, title = banned ? `Ban ${user}?` : `End the ban of ${user}?`;
    const text = banned ? "All servers accept nothing of the user, who sees the reason, and start none of the user's waiting jobs." : "Servers accept jobs of the user again.";
    const asked = await Web.reason(title, banned ? "Ban" : "End the ban", { text, danger: banned });
    if (asked) setBan(user, asked.why, banned);
  } }, bans.length === 0 ? "Ban" : "End ban");
  const limitOf = ({ value: user }) => Web.node("button", { type: "button", onclick: () => {
    Web.$("limit").elements.user.value = user;
    Web.$("limit").elements["running-jobs"].focus();
  } }, "Limit");
  const setBan = (user, why, banned) => Web.attempt("ban", async () => {
    const { servers: came, silent } = await Web.send("/admin/bans", { user, why, banned });
    const names = came.map(({ server }) => server).join(", ");
    Web.$("ban-note").textContent = `${names}: ${banned ? "nothing is accepted of" : "jobs are accepted of"} ${user}.${silent.length > 0 ? ` No answer of ${silent.map(({ server }) => server).join(", ")}.` : ""}`;
    return true;
  }).then((done) => { slow.now(); return done; });
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
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const kind = event.submitter?.value ?? "set", given = values(form), body = { kind };
    if (kind === "set") {
      Object.assign(body, { algorithm: given.algorithm, heuristic: given.heuristic });
      for (const key of ["period_s", "threshold_s", "window"]) body[key] = Number(given[key]);
      if (given.early_s !== "") body.early_s = Number(given.early_s);
    }
    if (kind === "off" && !await Web.ask({ title: "Move no waiting jobs any more?", action: "Move no jobs", danger: true })) return;
    Web.attempt("reallocation", async () => { showPolicy(await Web.send("/admin/reallocation", body)); Web.$("reallocation-change").open = false; Web.$("trial-result").hidden = true; });
  });
  const servers = Web.throttled(500, () => Web.attempt("servers", async () => {
    own ??= (await Web.read("/session")).certificate_not_after_s;
    showServers(await Web.read("/clusters"));
  }));
  const slow = Web.throttled(1000, async () => {
    await Web.attempt("limits", async () => {
      const [groups, limits] = await Promise.all([Web.read("/jobs/groups?by=owner"), Web.read("/admin/limits")]);
      showLimits(limits);
      showUsers(groups, limits);
    });
    await Web.attempt("policy", async () => showPolicy(await Web.read("/admin/reallocation")));
    await Web.attempt("audit", async () => showAudit(await Web.read(`/admin/audit?last=${Web.$("last").value}`)));
  });
  const all = () => { servers(); slow(); };

  const values = (form) => Object.fromEntries(new FormData(form));
  Web.$("limit").addEventListener("submit", (event) => {
    event.preventDefault();
    const { user, why, ...given } = values(event.target), limits = {};
    for (const [key, value] of Object.entries(given)) if (value !== "") limits[key] = value === "none" ? null : Number(value);
    Web.attempt("limit", () => Web.send("/admin/limits", { user, why, limits })).then((done) => { if (done) event.target.reset(); slow.now(); });
  });
  Web.$("ban").addEventListener("submit", (event) => {
    event.preventDefault();
    const { user, why } = values(event.target), banned = event.submitter?.value !== "false";
    setBan(user, why, banned).then((done) => { if (done) event.target.reset(); });
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
  Web.$("last").addEventListener("change", slow.now);
  Web.live({ refresh: all, clusters: showServers, health: Web.showReach });
  all();
};

// Adds the buttons for operators to the page of a waiting job. Of *Hold* and *Release* the returned function shows the one that applies.
Web.operatorTools = (place, path, load) => {
  const act = (text, title, call, { fields, body = () => ({}) } = {}) => Web.node("button", { type: "button", onclick: async () => {
    const asked = await Web.reason(title, text, { fields });
    if (!asked) return;
    await Web.attempt("operator", () => Web.send(`${path}/${call}`, { why: asked.why, ...body(asked) }));
    load.now();
  } }, text);
  const priority = { label: "The priority: the highest is served first, others have 0", name: "priority", type: "number", min: -1_000_000, max: 1_000_000, step: 1, value: 0, required: true };
  const hold = act("Hold", "Keep the job from starting?", "hold"), release = act("Release", "Let the held job start again?", "release");
  release.hidden = true;
  place.append(hold, release, act("Priority", "Give the job a priority?", "priority", { fields: [priority], body: (asked) => ({ priority: Number(asked.priority) }) }));
  return (isHeld) => {
    const hadFocus = document.activeElement === hold || document.activeElement === release;
    hold.hidden = isHeld;
    release.hidden = !isHeld;
    // The focus does not get lost with the button that goes.
    if (hadFocus) (isHeld ? release : hold).focus();
  };
};
