// The overview.

Web.overview = () => {
  const tiles = {};
  // Seconds do not matter when there are minutes, and make a tile too wide.
  const roughly = (at) => at - Web.now() < 600 ? Web.distance(at) : `in ${Pliant.span(60 * Math.round((at - Web.now()) / 60))}`;
  const showTiles = (more) => {
    Object.assign(tiles, more);
    const { up, all, free, procs, active, queued, next, kept, ended } = tiles;
    const shown = [];
    if (next !== undefined) shown.push(["your next start", next === null ? "–" : next <= Web.now() ? "due" : roughly(next)]);
    if (ended > 0) shown.push(["completed as promised, 4 weeks", `${Math.floor(100 * kept / ended)} %`]);
    if (all !== undefined) shown.push(["clusters up", `${up} of ${all}`], ["processors free", `${Pliant.count(free)} of ${Pliant.count(procs)}`], ["jobs running", Pliant.count(active)], ["jobs waiting", Pliant.count(queued)]);
    Web.$("tiles").replaceChildren(...shown.map(([name, value]) => Web.node("div", {}, Web.node("span", {}, name), Web.node("strong", {}, value))));
  };
  const gantt = Web.plan((view) => {
    const starts = view.lanes.flatMap(({ jobs }) => jobs).filter(({ mine, running, job_id: job }) => mine && !running && job !== null).map(({ start_s: start }) => start);
    showTiles({ next: starts.length === 0 ? null : Math.min(...starts) });
  });

  const showHealth = (health) => {
    Web.showReach(health);
    Web.$("health").hidden = health.warnings.length === 0;
    Web.$("warnings").replaceChildren(...health.warnings.slice(0, 20).map((text) => Web.node("li", {}, text)),
      ...(health.warnings.length > 20 ? [Web.node("li", {}, `and ${health.warnings.length - 20} more`)] : []));
  };

  const showAgents = (agents) => {
    Web.$("agents-part").hidden = agents.length === 0;
    Web.rows(Web.$("agents"), agents.map((agent) => Web.row(agent.name, [
      { text: agent.name, head: true }, { text: agent.attached ? "up" : "down", node: () => Web.node("span", { class: `state ${agent.attached ? "up" : "down"}` }, agent.attached ? "up" : "down") },
      Web.timeCell(agent.since_s), agent.clock_ahead_s === null ? "right" : Web.signed(agent.clock_ahead_s),
    ])));
  };

  const showClusters = ({ clusters, agents }) => {
    const up = clusters.filter((cluster) => cluster.state !== "down"), known = up.filter((cluster) => cluster.free_procs !== null);
    const sum = (clusters, of) => clusters.reduce((all, cluster) => all + of(cluster), 0);
    showTiles({
      up: up.length, all: clusters.length, procs: sum(known, (cluster) => cluster.procs), free: sum(known, (cluster) => cluster.free_procs),
      active: sum(up, (cluster) => cluster.active), queued: sum(up, (cluster) => cluster.queued),
    });
    showAgents(agents);
    if (clusters.length === 0) return Web.empty(Web.$("clusters"), "No server is known to the agent.");
    Web.rows(Web.$("clusters"), clusters.map((cluster) => {
      const used = cluster.free_procs === null ? null : cluster.procs - cluster.free_procs;
      const share = used === null || cluster.procs === 0 ? null : Math.round(100 * used / cluster.procs);
      const jobs = (state) => `/jobs?${Web.query({ server: cluster.server, state })}`;
      return Web.row(cluster.server, [
        { text: cluster.server, head: true, node: () => Web.node("a", { href: jobs("") }, cluster.server) },
        { text: cluster.state, node: () => Web.node("span", { class: `state ${cluster.state}` }, cluster.state) },
        { text: share === null ? "unknown" : `${share} %`, sort: share, node: () => Web.meter(share) },
        cluster.free_procs === null ? { text: "–", number: true } : Web.number(cluster.free_procs),
        Web.number(cluster.procs),
        { text: cluster.speed, number: true },
        Web.number(cluster.active),
        Web.number(cluster.queued),
        cluster.policy,
      ]);
    }));
  };

  const showPromises = (promises) => {
    const rows = promises[Web.$("window").value];
    if (rows.length === 0) return Web.empty(Web.$("promises"), "No job has ended in this time.");
    const values = rows.flatMap((row) => [row.start, row.completion]).filter(Boolean).flatMap(({ p5_s: low, p95_s: high }) => [low, high]);
    const reach = Math.max(60, ...values.map(Math.abs));
    const errors = (errors) => errors === null ? ["–", { text: "–", number: true }, { text: "–", number: true }] : [
      { text: JSON.stringify([errors, reach]), sort: errors.p50_s, node: () => Web.errorBar(errors, reach) },
      Web.number(errors.p50_s, Web.signed(errors.p50_s)), Web.number(errors.p95_s, Web.signed(errors.p95_s)),
    ];
    Web.rows(Web.$("promises"), rows.map((row) => Web.row(row.server,
      [{ text: row.server, head: true }, Web.number(row.jobs), ...errors(row.start), ...errors(row.completion)])));
  };

  const showDays = ({ days: servers }) => {
    Web.$("days-section").hidden = servers.length === 0;
    if (servers.length === 0) return;
    const of = Web.$("days-of").value, share = (day) => day[of].kept / day.jobs;
    Web.days = { servers, share };
    Web.drawDays();
    Web.rows(Web.$("days-table"), servers.flatMap(({ server, days }) => days.map((day) => Web.row(`${server} ${day.day_s}`, [
      { text: server, head: true }, { text: Web.utcDay(day.day_s), sort: day.day_s }, Web.number(day.jobs),
      Web.number(share(day), `${Math.floor(100 * share(day))} %`),
      Web.number(day[of].median_s, Web.signed(day[of].median_s)), Web.number(day[of].absolute_p90_s, Pliant.span(day[of].absolute_p90_s)),
    ]))));
  };

  const showMoves = ({ moves }) => {
    if (moves.length === 0) return Web.empty(Web.$("moves"), "No job was moved.");
    Web.rows(Web.$("moves"), moves.map((move) => Web.row(`${move.job_id} ${move.at_s}`, [
      Web.timeCell(move.at_s), { text: move.job_id, node: () => Web.jobLink(move.job_id) }, move.from, move.to, Web.moveWord(move.reason), Web.moveGain(move),
    ])));
  };

  let promises = null;
  const slow = Web.throttled(10_000, () => Web.attempt("promises", async () => {
    const [found, moves] = await Promise.all([Web.read("/promises"), Web.read(`/moves?last=${Web.$("moves-last").value}`)]);
    promises = found;
    const days = found.days.flatMap((server) => server.days), sum = (of) => days.reduce((all, day) => all + of(day), 0);
    showTiles({ ended: sum((day) => day.jobs), kept: sum((day) => day.completion.kept) });
    showPromises(promises);
    showDays(promises);
    showMoves(moves);
  }));
  const clusters = Web.throttled(500, () => Web.attempt("clusters", async () => showClusters(await Web.read("/clusters"))));
  const health = Web.throttled(500, async () => { await Web.attempt("health", async () => showHealth(await Web.read("/health"))); });
  const all = () => { clusters(); health(); gantt.load(); slow(); };
  Web.$("window").addEventListener("change", () => promises && showPromises(promises));
  Web.$("days-of").addEventListener("change", () => promises && showDays(promises));
  Web.$("moves-last").addEventListener("change", slow.now);
  Pliant.watch(() => Web.drawDays());
  Web.live({ refresh: all, clusters: showClusters, health: showHealth, job: () => { gantt.load(); slow(); }, removed: () => gantt.load() });
  all();
};

Web.utcDay = (seconds) => new Intl.DateTimeFormat(undefined, { weekday: "short", day: "numeric", month: "short", timeZone: "UTC" }).format(new Date(seconds * 1000));

// A row of bars for each server, a bar for each of the last 28 days.
Web.drawDays = () => {
  if (!Web.days) return;
  const canvas = Web.$("days"), { servers, share } = Web.days, DAYS = 28, ROW = 34, LABEL = 96, FOOT = 20;
  const shown = servers.slice(0, Pliant.LANES), width = canvas.clientWidth, height = shown.length * ROW + FOOT, scale = devicePixelRatio || 1;
  canvas.style.height = `${height}px`;
  Object.assign(canvas, { width: Math.round(width * scale), height: Math.round(height * scale) });
  const context = canvas.getContext("2d");
  context.scale(scale, scale);
  context.clearRect(0, 0, width, height);
  context.font = "12px system-ui, sans-serif";
  const today = Math.floor(Web.now() / 86_400), step = (width - LABEL) / DAYS, x = (day) => LABEL + (DAYS - 1 - (today - day)) * step;
  shown.forEach(({ server, days }, index) => {
    const bottom = (index + 1) * ROW - 2, full = ROW - 10;
    context.fillStyle = Pliant.colour("ink");
    context.textAlign = "left";
    context.fillText(server.length > 14 ? `${server.slice(0, 13)}…` : server, 0, bottom - 6, LABEL - 6);
    context.fillStyle = Pliant.colour("grid");
    context.fillRect(LABEL, bottom - full, width - LABEL, 1);
    context.fillRect(LABEL, bottom, width - LABEL, 1);
    for (const day of days) {
      const tall = Math.max(1, full * share(day)), left = x(Math.floor(day.day_s / 86_400));
      if (left < LABEL - 1) continue;
      context.fillStyle = Pliant.colour("accent");
      context.fillRect(left + step * .15, bottom - tall, step * .7, tall);
    }
  });
  context.fillStyle = Pliant.colour("quiet");
  for (const back of [21, 14, 7]) {
    context.textAlign = "center";
    context.fillText(width < 500 ? `−${back} d` : `${back} days ago`, x(today - back) + step / 2, height - 4);
  }
  context.textAlign = "right";
  context.fillText("today", width, height - 4);
};

// The share of processors in use; none if it is not known.
Web.meter = (share, text) => {
  const bar = Web.node("span", { class: "meter" });
  if (share !== null) {
    const fill = Web.node("i");
    fill.style.width = `${share}%`;
    bar.append(fill);
  }
  return Web.node("span", { class: "metered" }, bar, share === null ? "unknown" : text ?? `${share} %`);
};

// Errors as a bar around "as promised".
Web.errorBar = ({ p5_s: low, p50_s: middle, p95_s: high }, reach) => {
  const place = (seconds) => 50 + 48 * seconds / reach;
  const bar = Web.node("span", { class: "error-bar", title: `5 %: ${Web.signed(low)}, median: ${Web.signed(middle)}, 95 %: ${Web.signed(high)}` });
  const range = Web.node("i"), mark = Web.node("b");
  range.style.left = `${place(low)}%`;
  range.style.width = `${Math.max(1, place(high) - place(low))}%`;
  mark.style.left = `${place(middle)}%`;
  bar.append(range, mark);
  return bar;
};

// The report's Gantt with a line at the present, and how many processors are free.
Web.Plan = class extends Pliant.Gantt {
  // Titles come last, so the line is over the jobs.
  title(context, lane) {
    super.title(context, lane);
    if (lane.free !== null && lane.height >= 52) {
      context.textAlign = "left";
      context.textBaseline = "middle";
      context.font = Pliant.font(11);
      context.fillStyle = Pliant.colour("quiet");
      context.fillText(`${Pliant.count(lane.free)} free now`, 0, lane.top + lane.height / 2 + 22);
    }
    const { left, right } = this.area, { t0, t1 } = this.view, x = left + (this.now - t0) / (t1 - t0) * (right - left);
    if (x < left || x > right) return;
    context.fillStyle = Pliant.colour("ink");
    context.fillRect(Math.round(x) - 1, lane.top - 3, 1, lane.height + 6);
  }
};

// The chart of the next hours: the report's Gantt with the jobs of the API. `seen` is called with what it shows.
Web.plan = (seen) => {
  const states = [["mine", "yours, running"], ["mine-planned", "yours, waiting"], ["others", "of others, running"], ["others-planned", "of others, waiting"]];
  const shown = document.body.hasAttribute("data-operator") ? states : states.slice(0, 2);
  Web.$("states").append(...shown.map(([name, text]) => {
    const mark = Web.node("i", { class: `mark ${name}` });
    return Web.node("span", {}, mark, text);
  }));
  // Times of the chart are seconds since a midnight, so that its grid lies on round times of day.
  let origin = 0, gantt = null, chosen = false;
  Pliant.timeLabel = (seconds, step, first) => {
    const date = new Date((origin + seconds) * 1000), day = Web.dateForm.format(date);
    if (step >= 86_400 || date.getHours() * 60 + date.getMinutes() === 0) return day;
    return first && date.toDateString() !== new Date().toDateString() ? `${day}, ${Web.clockForm.format(date)}` : Web.clockForm.format(date);
  };
  const lane = ({ server, procs, free_procs: free, jobs }) => {
    const columns = { count: jobs.length, bars: jobs, label: jobs.map((job) => job.job_id ?? job.launch), pieceFirst: [], pieceCount: [], pieceBegin: [0], latestEnd: [] };
    columns.id = jobs.map((_, index) => index);
    columns.start = jobs.map((job) => job.start_s - origin);
    columns.end = jobs.map((job) => job.end_s - origin);
    columns.state = jobs.map((job) => (job.mine ? 0 : 2) + (job.running ? 0 : 1));
    let latest = -Infinity;
    jobs.forEach((job, index) => {
      for (const [first, count] of job.pieces) { columns.pieceFirst.push(first); columns.pieceCount.push(count); }
      columns.pieceBegin.push(columns.pieceFirst.length);
      columns.latestEnd.push(latest = Math.max(latest, columns.end[index]));
    });
    return { name: server, procs: Math.max(1, procs), free, jobs: columns };
  };
  const describe = ({ lane: { jobs, name }, index }) => {
    const job = jobs.bars[index];
    return [Pliant.element("b", job.launch ? `Subjob of launch ${job.launch.slice(0, job.launch.indexOf("/") + 9)}` : `Job ${job.job_id}`), Pliant.facts([
      ["name", job.name], ["user", job.owner], ["server", name], ["processors", Pliant.count(job.procs)],
      job.launch && !job.running ? ["state", "reserving: its start is not known"] : [job.running ? "started" : job.planned ? "planned start" : "promised start", `${Web.instant(job.start_s)} (${Web.distance(job.start_s)})`],
      ["ends by", `${Web.instant(job.end_s)} (${Web.distance(job.end_s)})`],
    ])];
  };
  const address = ({ lane: { jobs }, index }) => jobs.bars[index].launch ? `/launches/${jobs.bars[index].launch}` : `/jobs/${jobs.label[index]}`;
  const pin = (found) => {
    const box = Web.$("pinned");
    box.hidden = !found;
    if (!found) return box.replaceChildren();
    const close = Web.node("button", { type: "button", onclick: () => { gantt.hold(null); gantt.canvas.focus(); } }, "Unpin");
    box.replaceChildren(Web.node("div", {}, ...describe(found)), Web.node("a", { class: "button", href: address(found) }, "Open"), close);
  };
  const make = (end) => {
    gantt = new Web.Plan(Web.$("gantt"), end, states.map(([name]) => name));
    Object.assign(gantt, { describe, onPin: pin });
    gantt.canvas.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && gantt.pin) location.href = address(gantt.pin);
    });
    const tools = { in: () => gantt.zoom(.6), out: () => gantt.zoom(1 / .6), all: () => { chosen = true; gantt.rest = { t0: gantt.first, t1: gantt.end }; gantt.look(gantt.first, gantt.end); } };
    document.querySelectorAll("[data-zoom]").forEach((node) => node.addEventListener("click", () => tools[node.dataset.zoom]()));
    Pliant.watch(() => gantt.draw());
  };
  const show = (view) => {
    const midnight = new Date(view.now_s * 1000).setHours(0, 0, 0, 0) / 1000, first = view.now_s - 1800 - midnight, end = view.until_s - midnight;
    const moved = midnight - origin, pinned = gantt?.pin && gantt.pin.lane.jobs.label[gantt.pin.index];
    origin = midnight;
    if (!gantt) make(end);
    // A window that the user has not moved goes on with the time. It ends soon after the last job, unless its length was chosen.
    const rests = gantt.rest === undefined || (gantt.view.t0 === gantt.rest.t0 && gantt.view.t1 === gantt.rest.t1);
    const last = Math.max(...view.lanes.flatMap(({ jobs }) => jobs.map(({ end_s: end }) => end - midnight)), 0);
    const rest = { t0: first, t1: chosen || last === 0 ? end : Math.min(end, Math.max(first + 7200, last + .1 * (last - first))) };
    if (!rests) gantt.view = { t0: gantt.view.t0 - moved, t1: Math.min(end, gantt.view.t1 - moved) };
    Object.assign(gantt, { first, end, rest, now: view.now_s - midnight });
    if (rests) gantt.view = { ...rest };
    // Of very many clusters those with the most jobs here.
    const busy = new Set([...view.lanes].sort((one, other) => other.jobs.length - one.jobs.length).slice(0, Pliant.LANES));
    const lanes = view.lanes.filter((one) => busy.has(one)).map(lane);
    seen(view);
    gantt.pin = null;
    for (const one of lanes) {
      const index = pinned ? one.jobs.label.indexOf(pinned) : -1;
      if (index >= 0) gantt.pin = { lane: one, index };
    }
    pin(gantt.pin);
    gantt.show(lanes);
    const notes = [];
    if (view.lanes.length > Pliant.LANES) notes.push(`${Pliant.LANES} of ${view.lanes.length} clusters are drawn: those with the most of these jobs.`);
    if (view.left_out > 0) notes.push(`${Web.counted(view.left_out, "job")} of this time are not drawn.`);
    Web.$("gantt-note").hidden = notes.length === 0;
    Web.$("gantt-note").textContent = notes.join(" ");
    document.body.dataset.rendered = `gantt:${gantt.drawn} lanes:${lanes.length}`;
  };
  const load = Web.throttled(1000, () => Web.attempt("gantt", async () => show(await Web.read(`/gantt?hours=${Web.$("hours").value}`))));
  Web.$("hours").addEventListener("change", () => { chosen = true; if (gantt) gantt.rest = undefined; load.now(); });
  setInterval(() => { if (!document.hidden) load(); }, 30_000);
  return { load };
};
