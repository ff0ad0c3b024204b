// Replays of the recorded history: asked for, followed, and drawn next to what happened.

Web.whatif = () => {
  const form = Web.$("ask"), field = form.elements, charts = {};
  let origin = 0, shown = "", timer = 0;

  const words = () => {
    const base = ["now", "none"].includes(field.algorithm.value) ? field.algorithm.value : `${field.algorithm.value}/${field.heuristic.value}`;
    return [base, field.changes.value.trim()].filter(Boolean).join(",");
  };
  const showCommand = () => {
    field.heuristic.disabled = ["now", "none"].includes(field.algorithm.value);
    const policy = words(), quoted = /^[\w./=,+-]+$/.test(policy) ? policy : `'${policy.replaceAll("'", "'\\''")}'`;
    Web.$("command").textContent = `pliant what-if --since ${field.hours.value}h --policy ${quoted}`;
  };

  const measures = (key, name, of, difference) => Web.row(key, [
    { text: name, head: true }, Web.number(of.jobs), { text: `${of.mean_response_s.toFixed(1)} s`, number: true },
    { text: `${of.median_response_s.toFixed(1)} s`, number: true }, { text: of.mean_bounded_slowdown.toFixed(2), number: true },
    Web.number(of.moves), { text: difference ? signed(difference.mean) : "", number: true },
    { text: difference ? `${signed(difference.low)} to ${signed(difference.high)}` : key > "1" ? "too few jobs" : "", number: true },
  ]);
  const signed = (number) => `${number < 0 ? "−" : "+"}${Math.abs(number).toFixed(1)}`;

  const showReport = (report) => {
    Web.$("result").hidden = false;
    const { jobs } = report, notes = [`${Web.counted(jobs.compared, "job")} are compared`];
    for (const [count, text] of [[jobs.local, "of local users are load"], [jobs.before, "were submitted before and are load"], [jobs.unfinished, "have not ended and are load"], [jobs.never_ran, "never ran"], [jobs.elsewhere, "were on servers that did not answer"], [jobs.with_resources, "ask for memory, GPUs, licences or nodes, and are replayed by their processors alone"], [jobs.with_nice, "have a nice value, and are replayed in the order of submission"], [jobs.requeued, "ran again after a failure: only the last run is replayed"]]) if (count > 0) notes.push(`${Pliant.count(count)} ${text}`);
    for (const { server, why } of report.silent) notes.push(`no history from ${server}: ${why}`);
    Web.$("counts").textContent = `${Web.instant(report.since_s)} to ${Web.instant(report.until_s)}: ${notes.join(", ")}.`;
    Web.rows(Web.$("measures"), [measures("0", "recorded", report.happened, null), ...report.replayed.map((one, index) => measures(String(index + 1), `replayed: ${one.policy.name}`, one, one.difference_s))]);
    const { calibration } = report;
    Web.$("trust").textContent = calibration === null ? "" : `Replayed under the policy in force, the mean response differs by ${signed(100 * calibration.mean_response_error)} % from the recorded one, and half of the jobs end within ${Math.round(calibration.median_end_error_s)} s of their recorded end. A difference between replays that is smaller than this error has no meaning.`;
    const other = Web.$("other");
    other.replaceChildren(...report.replayed.map((one, index) => Web.node("option", { value: index + 1 }, one.policy.name)));
    other.value = String(report.replayed.length);
  };

  const lane = ({ server, procs, jobs }) => {
    const columns = { count: jobs.length, bars: jobs, id: jobs.map((job) => job.number), label: jobs.map((job) => String(job.number)), pieceFirst: [], pieceCount: [], pieceBegin: [0], latestEnd: [] };
    columns.start = jobs.map((job) => job.start_s - origin);
    columns.end = jobs.map((job) => job.end_s - origin);
    columns.state = jobs.map((job) => job.moves > 0 ? 1 : 0);
    let latest = -Infinity;
    jobs.forEach((job, index) => {
      for (const [first, count] of job.pieces) { columns.pieceFirst.push(first); columns.pieceCount.push(count); }
      columns.pieceBegin.push(columns.pieceFirst.length);
      columns.latestEnd.push(latest = Math.max(latest, columns.end[index]));
    });
    return { name: server, procs: Math.max(1, procs), jobs: columns };
  };
  Pliant.timeLabel = (seconds, step, first) => {
    const date = new Date((origin + seconds) * 1000), day = Web.dateForm.format(date);
    if (step >= 86_400 || date.getHours() * 60 + date.getMinutes() === 0) return day;
    // Ticks within a minute differ in their seconds.
    const clock = step < 60 ? date.toLocaleTimeString(undefined, { hour12: false }) : Web.clockForm.format(date);
    return first ? `${day}, ${clock}` : clock;
  };
  const find = (gantt, number) => {
    for (const one of gantt.lanes ?? []) {
      const index = one.jobs.id.indexOf(number);
      if (index >= 0) return { lane: one, index };
    }
    return null;
  };
  const describe = (found) => {
    const job = found.lane.jobs.bars[found.index];
    return [Pliant.element("b", `Job ${job.number}`), Pliant.facts([["server", found.lane.name], ["processors", Pliant.count(job.procs)], ["submitted", Web.instant(job.submitted_s)], ["started", `${Web.instant(job.start_s)}, after ${Pliant.span(job.start_s - job.submitted_s)}`], ["ended", `${Web.instant(job.end_s)}, response ${Pliant.span(job.end_s - job.submitted_s)}`], ["moves", Pliant.count(job.moves)]])];
  };
  const pin = (name, found) => {
    const number = found ? found.lane.jobs.id[found.index] : null, parts = [];
    for (const [one, gantt] of Object.entries(charts)) {
      if (one !== name) { gantt.pin = number === null ? null : find(gantt, number); gantt.mark(); }
      if (gantt.pin) parts.push(Web.node("div", {}, Web.node("div", { class: "quiet" }, Web.$(`${one}-title`).textContent), ...describe(gantt.pin)));
    }
    Web.$("pinned").hidden = parts.length === 0;
    Web.$("pinned").replaceChildren(...parts);
  };
  const chart = (name, view) => {
    origin = new Date(view.from_s * 1000).setHours(0, 0, 0, 0) / 1000;
    const first = view.from_s - origin, end = Math.max(first + 10, view.until_s - origin);
    if (!charts[name]) {
      const gantt = charts[name] = new Pliant.Gantt(Web.$(name), end, ["mine", "others"]);
      gantt.describe = describe;
      gantt.onPin = (found) => pin(name, found);
      // Both charts show the same time.
      gantt.onView = () => { for (const other of Object.values(charts)) if (other !== gantt && other.lanes) { other.view = { ...gantt.view }; other.draw(); } };
      Pliant.watch(() => gantt.lanes && gantt.draw());
    }
    const gantt = charts[name];
    gantt.pin = null;
    Object.assign(gantt, { end, view: { t0: first, t1: end } });
    gantt.show(view.lanes.slice(0, Pliant.LANES).map(lane));
    return gantt.drawn;
  };
  const showCharts = () => Web.attempt("charts", async () => {
    const [recorded, replayed] = await Promise.all([Web.read("/what-if/schedules/0"), Web.read(`/what-if/schedules/${Web.$("other").value}`)]);
    Web.$("charts").hidden = false;
    Web.$("replayed-title").textContent = `What would have happened: ${replayed.name}`;
    const drawn = [chart("recorded", recorded), chart("replayed", replayed)];
    pin("", null);
    document.body.dataset.drawn = drawn.join(" ");
  });

  const show = (view) => {
    const { state, problem, report } = view, running = state === "running", key = JSON.stringify([state, view.began_s]);
    form.querySelector("[type=submit]").disabled = running;
    Web.$("cancel").hidden = !running;
    Web.$("replay-state").textContent = { none: "", running: `replaying since ${Web.instant(view.began_s)}`, done: `done, begun ${Web.instant(view.began_s)}`, failed: `The replay failed: ${problem}`, cancelled: "cancelled" }[state];
    clearTimeout(timer);
    if (running) timer = setTimeout(load, 700);
    if (key === shown) return;
    shown = key;
    Web.$("result").hidden = !report;
    Web.$("charts").hidden = true;
    if (report) { showReport(report); showCharts(); }
    document.body.dataset.rendered = `whatif:${state}`;
  };
  const load = () => Web.attempt("what-if", async () => show(await Web.read("/what-if")));
  form.addEventListener("input", showCommand);
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    Web.attempt("what-if", async () => show(await Web.send("/what-if", { hours: Number(field.hours.value), policies: [words()] })));
  });
  Web.$("cancel").addEventListener("click", () => Web.attempt("what-if", async () => { show(await Web.send("/what-if/cancel")); setTimeout(load, 300); }));
  Web.$("other").addEventListener("change", showCharts);
  showCommand();
  Web.live({ health: Web.showReach });
  load();
};
