// The page of one job.

Web.job = () => {
  const id = Web.$("job").dataset.job, path = `/jobs/${encodeURIComponent(id)}`;
  let detail = null;

  const log = Web.log(path);
  const files = Web.files(path);
  const call = Web.callValues(path);
  const submitted = Web.submitted(id, path, call);

  const show = () => {
    const { job } = detail;
    Web.$("state").replaceWith(Object.assign(Web.stateNode(job.state), { id: "state" }));
    Web.$("state").setAttribute("role", "status");
    Web.$("cancel").hidden = Web.isFinal(job.state);
    Web.$("operator").hidden = Web.isFinal(job.state) || job.state === "ACTIVE";
    showHeld(detail.held);
    Web.$("summary").textContent = Web.summary(detail);
    Web.$("timeline").replaceChildren(Web.timeline(detail), Web.history(detail));
    Web.$("facts").replaceChildren(Pliant.facts(Web.jobFacts(detail)));
    Web.$("sweep").hidden = detail.sweep === null;
    if (detail.sweep !== null) {
      const link = Web.$("sweep").querySelector("a");
      link.href = `/jobs?${Web.query({ sweep: detail.sweep.id })}`;
      link.textContent = Web.counted(detail.sweep.jobs, "job");
    }
    Web.$("why").replaceChildren(...Web.why(detail).map((text) => Web.node("p", {}, text)));
    showWait();
    showCompared();
    showMoves();
    log.follow(job);
    files.show(job);
    submitted.show(job);
    document.title = `${id} ${Web.stateWord(job.state)} · Pliant`;
    document.body.dataset.rendered = `job:${job.state}`;
  };

  const showWait = () => {
    const { waits, unplanned } = detail;
    Web.$("wait").hidden = !waits && !unplanned;
    if (unplanned) Web.$("wait-text").replaceChildren(Web.node("p", {}, `Nothing is planned for it: ${unplanned}.`));
    const table = Web.$("until").closest(".scroll");
    table.hidden = !waits || waits.until.length === 0;
    if (!waits) return;
    const { plan } = waits;
    const short = Web.shortages(waits.shortages);
    const texts = [
      `${waits.ahead === 0 ? "No job is" : waits.ahead === 1 ? "1 job is" : `${Pliant.count(waits.ahead)} jobs are`} ahead of it. It needs ${Web.counted(plan.procs, "processor")}; ${Pliant.count(waits.free_procs)} are free.`,
      `Planned start: ${Web.instant(plan.start_s)} (${Web.distance(plan.start_s)})${waits.until.length > 0 ? ", when these running jobs have ended" : ""}.`,
    ];
    if (short) texts.splice(1, 0, `Running jobs leave too little of: ${short}.`);
    if (waits.siblings.length > 0) texts.push(`Sibling jobs wait at ${waits.siblings.join(", ")}: the first to start runs.`);
    if (waits.operator_priority !== 0) texts.push(`An operator gave it the priority ${waits.operator_priority}, before all else.`);
    if (waits.priority !== null) texts.push(`Its priority is ${waits.priority.toFixed(3)}.`);
    Web.$("wait-text").replaceChildren(...texts.map((text) => Web.node("p", {}, text)));
    // The last ones decide.
    Web.rows(Web.$("until"), waits.until.slice(-12).map((release, index) => Web.row(`${index}`, [
      release.job_id === null ? "another user's" : { text: release.job_id, node: () => Web.jobLink(release.job_id) },
      Web.timeCell(release.end_s), Web.number(release.procs),
    ])));
  };

  const showCompared = () => {
    const { compared, passed, servers, answered } = detail;
    Web.$("compared-section").hidden = compared.length === 0;
    if (compared.length === 0) return;
    const best = Math.min(...compared.map((one) => one.estimate.completion_s));
    Web.rows(Web.$("compared"), compared.map(({ server, estimate, chosen }) => Web.row(`${server} ${estimate.completion_s}`, [
      { text: chosen ? `${server} ✓` : server, head: true, title: chosen ? "it was submitted there" : undefined },
      Web.timeCell(estimate.start_s), Web.timeCell(estimate.completion_s),
      Web.number(estimate.procs), Web.number(estimate.walltime_s, Pliant.span(estimate.walltime_s)),
      { text: estimate.completion_s === best ? "first" : `+${Pliant.span(estimate.completion_s - best)}`, number: true },
    ], { class: chosen ? "chosen" : undefined })));
    const texts = passed.map(({ server, cause }) => `${server}: ${cause}`);
    const rest = servers > 0 ? `${Pliant.count(answered)} of ${Web.counted(servers, "server")} answered.` : "";
    Web.$("passed").textContent = texts.length > 0 ? `${rest} Not taken by ${texts.join("; ")}.` : rest;
  };

  const showMoves = () => {
    Web.$("moves-section").hidden = detail.moves.length === 0;
    Web.rows(Web.$("moves"), detail.moves.map((move) => Web.row(`${move.at_s}`, [Web.timeCell(move.at_s), move.from, move.to, Web.moveWord(move.reason), Web.moveGain(move)])));
  };

  const operator = document.body.hasAttribute("data-operator");
  const load = Web.throttled(500, () => Web.attempt("job", async () => { detail = await Web.read(path); show(); }));
  const showHeld = operator ? Web.operatorTools(Web.$("operator"), path, load) : () => {};
  Web.$("cancel").addEventListener("click", async () => {
    const text = detail?.job.state === "ACTIVE" ? "It runs, and is ended." : undefined;
    if (!await Web.ask({ title: `Cancel job ${id}?`, text, action: "Cancel job", danger: true })) return;
    await Web.attempt("cancel", () => Web.send(`${path}/cancel`));
    load.now();
  });
  Web.live({ refresh: load, job: (job) => { if (job.job_id === id) load(); }, removed: (job) => { if (job.job_id === id) load(); }, health: Web.showReach });
  // The plan of a waiting job changes with other jobs.
  setInterval(() => { if (!document.hidden && detail && !Web.isFinal(detail.job.state)) load(); }, 10_000);
  load();
};

// What there is too little of, besides processors.
Web.shortages = (shortages) => shortages.filter(({ resource }) => resource !== "processors").map(({ resource, needed, free }) => {
  const isSize = ["memory", "scratch"].includes(resource), amount = (count) => isSize ? Web.bytes(count * 1_048_576) : Pliant.count(count);
  const name = { memory: "memory", scratch: "local disk space", gpus: "GPUs" }[resource] ?? resource.replace(/^licences:/, "licences of ");
  return `${name} (${amount(needed)} needed, ${amount(free)} free)`;
}).join(", ");

// One sentence about the job now.
Web.summary = ({ job, waits, unplanned }) => {
  const where = `${Web.counted(job.procs, "processor")} of ${job.server}`;
  if (job.state === "ACTIVE") return `${job.name} runs on ${where}; its walltime ends at ${Web.instant(Web.end(job))} (${Web.distance(Web.end(job))}).`;
  if (unplanned) return `${job.name} waits at ${job.server} without a planned start: ${unplanned}.`;
  if (!Web.isFinal(job.state)) {
    const start = waits?.plan.start_s ?? job.expected.start_s;
    return `${job.name} waits at ${job.server} and is expected to start at ${Web.instant(start)} (${Web.distance(start)}).`;
  }
  const how = job.exit === null ? Web.stateWord(job.state) : job.exit.text;
  if (job.started_s === null) return `${job.name} did not run: ${how}.`;
  return `${job.name} ran on ${where} for ${Pliant.span(job.ended_s - job.started_s)}: ${how}.`;
};

Web.jobFacts = ({ job, requested, pinned }) => {
  const instant = (seconds, more = "") => `${Web.instant(seconds)} (${Web.distance(seconds)})${more ? `, ${more}` : ""}`;
  const facts = [["user", job.owner], ["server", pinned ? `${job.server}, chosen by its user` : job.server], ["submitted", instant(job.submitted_s)]];
  if (job.started_s !== null) facts.push(["started", instant(job.started_s, Web.against(job.start_error_s))]);
  if (job.ended_s !== null) facts.push(["ended", instant(job.ended_s, Web.against(job.completion_error_s))]);
  facts.push(["promised", `start ${Web.instant(job.expected.start_s)}, completion ${Web.instant(job.expected.completion_s)}, ${Web.counted(job.expected.procs, "processor")}`]);
  facts.push(["walltime", Pliant.span(job.walltime_s)]);
  const size = requested.moldable ? "servers choose the size" : Web.counted(requested.procs, "processor");
  facts.push(["asked for", `${size}, ${Pliant.span(requested.walltime_s)}${requested.fixed_time ? "" : " at speed 1"}`]);
  if (requested.resources !== null) facts.push(["needs", requested.resources]);
  if (requested.begin_s !== null) facts.push(["not before", instant(requested.begin_s)]);
  if (requested.deadline_s !== null) facts.push(["deadline", instant(requested.deadline_s)]);
  if (requested.nice > 0) facts.push(["nice", requested.nice]);
  if (requested.requeue > 0) facts.push(["requeues", `${job.requeues} of at most ${requested.requeue}`]);
  if (job.exit !== null) facts.push(["exit", job.exit.text]);
  return facts.map(([name, value]) => [name, String(value)]);
};

Web.why = ({ job, compared, reason, pinned, reason_server: other, moves, size_choice: size }) => {
  const first = moves.length > 0 ? moves[0].from : job.server, was = moves.length > 0 ? "was first" : "is";
  const completion = (server) => compared.find((one) => one.server === server)?.estimate.completion_s;
  const apart = Pliant.span(Math.abs((completion(first) ?? 0) - (completion(other) ?? 0)));
  const texts = [{
    "unknown": `It ${was} on ${first}; which estimates were compared is not known.`,
    "only-one": pinned ? `It ${was} on ${first}, which its user chose.` : `It ${was} on ${first}: no other server can take it, or no other answered.`,
    "earliest-completion": `It ${was} on ${first}, which completes it first: ${apart} before ${other}.`,
    "tie": `It ${was} on ${first}: ${other} completes it at the same time and comes later by rank, then by name.`,
    "passed-over": `It ${was} on ${first}: ${other} would have completed it ${apart} earlier, but could not be reached or did not take it.`,
  }[reason]];
  for (const move of moves) texts.push(`Moved from ${move.from} to ${move.to} at ${Web.instant(move.at_s)}: ${Web.moveWord(move.reason)} (${Web.moveGain(move)}).`);
  if (size) {
    const cost = size.saved_processor_s > 0 ? `, and take ${Pliant.count(size.saved_processor_s)} more processor-seconds from ${Web.counted(size.other_jobs, "other job")}` : "";
    texts.push(`With ${Web.counted(size.earliest.procs, "processor")} it would complete ${Pliant.span(size.later_s)} earlier${cost}.`);
  }
  return texts;
};

// Promised above, happened below, on one axis of time.
Web.timeline = ({ job, waits, estimates }) => {
  const { expected: promised } = job, now = Web.now();
  const started = job.started_s, ended = job.ended_s;
  const points = [job.submitted_s, promised.start_s, promised.completion_s, started, ended, Web.isFinal(job.state) ? null : now, waits?.plan.completion_s, ...estimates.slice(-4).map(({ plan }) => plan.completion_s)];
  const times = points.filter((time) => time !== null && time !== undefined);
  const from = Math.min(...times), to = Math.max(from + 1, ...times);
  const line = Web.node("div", { class: "timeline", role: "img" });
  const words = [];
  const bar = (row, kind, begin, end, text) => {
    const node = Web.node("span", { class: `span ${kind}`, title: `${text}: ${Web.instant(begin)} to ${Web.instant(end)}, ${Pliant.span(end - begin)}` });
    node.style.left = `${100 * (begin - from) / (to - from)}%`;
    node.style.width = `${Math.max(.5, 100 * (end - begin) / (to - from))}%`;
    row.append(node);
    words.push(`${text} from ${Web.instant(begin)} to ${Web.instant(end)}`);
  };
  const row = (name) => {
    const track = Web.node("div", { class: "track" });
    line.append(Web.node("span", { class: "label" }, name), track);
    return track;
  };
  const above = row("promised");
  bar(above, "wait", job.submitted_s, Math.max(job.submitted_s, promised.start_s), "promised to wait");
  bar(above, "run", promised.start_s, promised.completion_s, "promised to run");
  // The last changes; all are in the list below.
  for (const { at_s: at, plan } of estimates.slice(-4)) {
    const track = row(`planned at ${Web.instant(at)}`);
    bar(track, "wait", job.submitted_s, Math.max(job.submitted_s, plan.start_s), `planned at ${Web.instant(at)} to wait`);
    bar(track, "run", plan.start_s, plan.completion_s, `planned at ${Web.instant(at)} to run`);
  }
  if (waits && waits.plan.start_s !== promised.start_s) {
    const plan = row("planned now");
    bar(plan, "wait", job.submitted_s, Math.max(job.submitted_s, waits.plan.start_s), "planned to wait");
    bar(plan, "run", waits.plan.start_s, waits.plan.completion_s, "planned to run");
  }
  const below = row("happened");
  const last = ended ?? now;
  bar(below, "wait", job.submitted_s, Math.max(job.submitted_s, started ?? last), "waited");
  if (started !== null) bar(below, job.state === "FAILED" ? "failed" : "run", started, Math.max(started, last), "ran");
  line.setAttribute("aria-label", words.join("; "));
  const scale = Web.node("div", { class: "scale" }, Web.node("span", {}, Web.instant(from)), Web.node("span", {}, Web.instant(to)));
  line.append(Web.node("span"), scale);
  return line;
};

// What happened to the job, in the order of time.
Web.history = ({ job, estimates, moves }) => {
  const planned = (plan) => `start ${Web.instant(plan.start_s)}, completion ${Web.instant(plan.completion_s)}`;
  // A job that has moved brings what was promised at first along.
  const promise = moves.length > 0 && estimates.length > 0 && estimates[0].at_s <= job.submitted_s ? estimates[0] : null;
  const first = moves.length > 0 ? promise?.plan : job.expected;
  // Against what was promised at the time.
  const promised = (at) => moves.filter((move) => move.at_s < at).at(-1)?.expected ?? first ?? job.expected;
  const against = (at, plan) => Web.against(plan.start_s - promised(at).start_s).replace("as promised", "start as promised");
  const events = [[job.submitted_s, first ? `submitted; ${moves[0]?.from ?? job.server} promised ${planned(first)}` : "submitted"]];
  for (const { at_s: at, plan } of estimates.filter((one) => one !== promise)) events.push([at, `planned anew: ${planned(plan)} (${against(at, plan)})`]);
  for (const move of moves) events.push([move.at_s, `moved from ${move.from} to ${move.to}: ${Web.moveWord(move.reason)}; promised ${planned(move.expected)}`]);
  if (job.started_s !== null) events.push([job.started_s, `started, ${Web.against(job.start_error_s)}`]);
  if (job.ended_s !== null) events.push([job.ended_s, job.completion_error_s === null ? "ended" : `ended, ${Web.against(job.completion_error_s)}`]);
  // Equal times stay in this order.
  events.sort(([one], [other]) => one - other);
  return Web.node("ol", { class: "history", "aria-label": "What happened, in order" }, ...events.map(([at, text]) =>
    Web.node("li", {}, Web.node("time", { datetime: new Date(at * 1000).toISOString(), title: Web.full(at) }, Web.instant(at)), ` ${text}`)));
};

// What the job writes: read piece by piece, followed while it runs.
Web.log = (path) => {
  const out = Web.$("log"), note = Web.$("log-note");
  // More is not kept in the page; the file has it.
  const KEPT = 2_000_000, PIECE = 262_144;
  let stream = "stdout", offset = 0, decoder = new TextDecoder(), job = null, requeues = 0, timer = 0, generation = 0, cut = false;
  const reset = () => { generation += 1; offset = 0; cut = false; decoder = new TextDecoder(); out.textContent = ""; note.textContent = ""; };
  const append = (bytes) => {
    const near = out.scrollHeight - out.scrollTop - out.clientHeight < 40;
    // Colours of terminals are left out.
    out.append(decoder.decode(bytes, { stream: true }).replace(/\u001b\[[0-9;?]*[A-Za-z]/g, ""));
    if (out.textContent.length > KEPT) { out.textContent = out.textContent.slice(-KEPT / 2); cut = true; }
    if (near && Web.$("follow").checked) out.scrollTop = out.scrollHeight;
  };
  const read = async () => {
    clearTimeout(timer);
    const mine = generation;
    if (job.started_s === null) { note.textContent = Web.isFinal(job.state) ? "It did not run, so it has no output." : "It has not started, so it has no output yet."; return; }
    let length = 0;
    await Web.attempt("log", async () => {
      const response = await Web.call(`${path}/log?${Web.query({ stream, offset })}`);
      const bytes = new Uint8Array(await response.arrayBuffer());
      if (mine !== generation) return;
      length = bytes.length;
      offset += length;
      if (length > 0) append(bytes);
      const all = offset === 0 ? "Nothing was written" : Web.bytes(offset);
      note.textContent = `${all}${Web.isFinal(job.state) ? "" : " so far"}${cut ? "; the beginning is not shown" : ""}.`;
    });
    if (mine !== generation) return;
    if (length >= PIECE) timer = setTimeout(read, 0);
    else if (!Web.isFinal(job.state) && Web.$("follow").checked) timer = setTimeout(read, document.hidden ? 10_000 : 1000);
  };
  for (const button of document.querySelectorAll("[data-stream]")) button.addEventListener("click", () => {
    stream = button.dataset.stream;
    document.querySelectorAll("[data-stream]").forEach((one) => one.setAttribute("aria-pressed", String(one === button)));
    reset();
    if (job) read();
  });
  Web.$("follow").addEventListener("change", () => { if (job && Web.$("follow").checked) read(); });
  return {
    follow(now) {
      if (job && requeues !== now.requeues) reset();
      requeues = now.requeues;
      const changed = !job || job.state !== now.state;
      job = now;
      if (changed) read();
    },
  };
};

// The files of a job that has ended.
Web.files = (path) => {
  let read = false;
  return {
    show(job) {
      if (read || !Web.isFinal(job.state) || job.started_s === null) return;
      read = true;
      Web.attempt("files", async () => {
        const found = await Web.read(`${path}/files`);
        Web.$("files-section").hidden = false;
        const link = (name) => `/api/v1${path}/files/${name.split("/").map(encodeURIComponent).join("/")}`;
        if (found.files.length === 0) Web.empty(Web.$("files"), "It left no file.");
        else Web.rows(Web.$("files"), found.files.slice(0, 1000).map(({ name, bytes, sha256 }) => Web.row(name, [
          { text: name, head: true, node: () => Web.node("a", { href: link(name), download: name.split("/").pop() }, name) },
          Web.number(bytes), { text: sha256.slice(0, 16), title: sha256, className: "mono" },
        ])));
        const notes = [];
        if (found.files.length > 1000) notes.push(`The first 1,000 of ${Pliant.count(found.files.length)} files are listed; pliant fetch fetches all.`);
        if (found.stdout_cut || found.stderr_cut) notes.push("It wrote more on its standard outputs than was kept.");
        if (found.left_out_count > 0) notes.push(`Not kept: ${found.left_out.slice(0, 5).map((one) => `${one.name} (${one.why})`).join(", ")}${found.left_out_count > 5 ? `, and ${Pliant.count(found.left_out_count - 5)} more` : ""}.`);
        Web.$("files-note").textContent = notes.join(" ");
      });
    },
  };
};

// What was submitted, with its input files; read again once the job has ended, when the files can be read.
Web.submitted = (id, path, call) => {
  const STATES = { pending: "can be downloaded once the job has ended", kept: "as submitted", changed: "changed by the job", removed: "removed", unknown: "not known: the list of the job's files is incomplete" };
  let read = null;
  const show = ({ work, why_not: whyNot, server, inputs }) => {
    const facts = [];
    if (work?.kind === "service") facts.push(["service", work.name], ...Object.entries(work.arguments).map(([name, value]) => [name, value]));
    if (work?.kind === "script") {
      facts.push(["script", work.name]);
      if (work.options.length > 0) facts.push(["options", Web.quotedWords(work.options)]);
      if (work.arguments.length > 0) facts.push(["arguments", Web.quotedWords(work.arguments)]);
    }
    if (work?.kind === "call") facts.push(["typed service", work.name], ["signature", work.signature]);
    if (server !== null) facts.push(["server", `${server}, chosen by its user`]);
    const nodes = [Pliant.facts(facts)];
    if (work?.kind === "script") nodes.push(Web.node("pre", { tabindex: 0, role: "region", "aria-label": "Text of the script" }, work.text));
    Web.$("submitted").replaceChildren(...nodes);
    Web.$("resubmit").hidden = work === null;
    Web.$("submitted-note").textContent = work === null ? `It cannot be submitted again from this page: ${whyNot}. On the command line: pliant resubmit ${id}` : "";
    Web.$("inputs-part").hidden = inputs.length === 0;
    const link = (name) => `/api/v1${path}/files/work/${name.split("/").map(encodeURIComponent).join("/")}`;
    Web.rows(Web.$("inputs"), inputs.slice(0, 1000).map(({ name, bytes, sha256, state }) => Web.row(name, [
      { text: name, head: true, node: state === "kept" ? () => Web.node("a", { href: link(name), download: name.split("/").pop() }, name) : undefined },
      Web.number(bytes), { text: sha256.slice(0, 16), title: sha256, className: "mono" }, STATES[state],
    ])));
    Web.$("inputs-note").textContent = inputs.length > 1000 ? `The first 1,000 of ${Pliant.count(inputs.length)} input files are listed.` : "";
    Web.$("submitted-section").hidden = false;
  };
  Web.$("resubmit").addEventListener("click", () => { location.href = `/submit?${Web.query({ from: id })}`; });
  return {
    show(job) {
      if (read === Web.isFinal(job.state)) return;
      read = Web.isFinal(job.state);
      Web.attempt("submitted", async () => {
        try {
          const found = await Web.read(`${path}/submitted`);
          show(found);
          if (found.is_call) await call.show();
        } catch (error) {
          // Old jobs, and batches of sweeps.
          if (error.status !== 404 && error.status !== 422) throw error;
          Web.$("submitted-section").hidden = false;
          Web.$("submitted-note").textContent = error.message;
        }
      });
    },
  };
};
