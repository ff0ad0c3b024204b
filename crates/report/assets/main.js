// Builds the charts of the page from its data.

(() => {
  const data = JSON.parse(document.getElementById("pliant-data").textContent);
  const rendered = (text) => { document.body.dataset.rendered = text; };

  const legend = (node, entries) => {
    for (const [colour, text] of entries) {
      const item = Pliant.element("span"), mark = Pliant.element("i");
      mark.style.background = `var(--${colour})`;
      item.append(mark, text);
      node.append(item);
    }
  };

  const campaign = () => {
    const colourOf = (policy) => Pliant.series(data.policies.indexOf(policy));
    const shown = new Set(data.figures.flatMap((figure) => figure.policies)), node = document.getElementById("policies");
    if (node) legend(node, data.policies.map((policy, index) => [`c${index % 12}`, policy]).filter(([, policy]) => shown.has(policy)));
    const draws = data.figures.map((figure, index) => Pliant.boxPlot(document.querySelector(`[data-figure="${index}"]`), figure, colourOf));
    const all = () => rendered(`boxes:${draws.reduce((sum, draw) => sum + draw(), 0)} figures:${draws.length}`);
    all();
    Pliant.watch(all);
    document.querySelectorAll("details.more").forEach((node) => node.addEventListener("toggle", Pliant.redraw));
  };

  // A run's columns are unpacked when it is first shown.
  const unpack = (run) => {
    if (run.lanes) return run;
    run.lanes = run.clusters.map((cluster, index) => ({ ...cluster, cluster: index, jobs: Pliant.decodeJobs(run.jobs[index]) }));
    const numbers = (text, scale) => {
      const reader = new Pliant.Reader(text), values = [];
      for (let i = 0; i < run.series.count; i++) values.push(reader.next() / scale);
      return values;
    };
    run.utilization = run.series.utilization.map((text) => numbers(text, 1000));
    run.queue = run.series.queue.map((text) => numbers(text, 10));
    return run;
  };

  const moveTable = (run) => {
    if (run.moveTable) return run.moveTable;
    run.moveTable = new Map();
    const reader = new Pliant.Reader(run.moves.data);
    let at = 0, id = 0;
    for (let i = 0; i < run.moves.count; i++) {
      at += reader.signed(); id += reader.signed();
      const move = { at, from: reader.next(), to: reader.next(), before: at + reader.signed(), after: at + reader.signed() };
      if (run.moveTable.has(id)) run.moveTable.get(id).push(move); else run.moveTable.set(id, [move]);
    }
    return run.moveTable;
  };

  // Where a job is in a run: numbers may repeat when logs are merged, so the submission counts too.
  const find = (run, id, submit) => {
    if (!run.places) {
      run.places = new Map();
      unpack(run).lanes.forEach((lane) => {
        for (let i = 0; i < lane.jobs.count; i++) run.places.set(`${lane.jobs.id[i]} ${lane.jobs.start[i] - lane.jobs.wait[i]}`, { lane, index: i });
      });
    }
    return run.places.get(`${id} ${submit}`) ?? null;
  };

  const runs = () => {
    let current = unpack(data.runs[data.first]), page = null;
    const gantt = new Pliant.Gantt(document.getElementById("gantt"), data.end);
    const states = new Set(data.runs.flatMap((run) => run.states));
    legend(document.getElementById("states"), Pliant.STATES.filter((_, state) => states.has(state)));

    const describe = ({ lane, index }) => {
      const jobs = lane.jobs, submit = jobs.start[index] - jobs.wait[index], id = jobs.id[index];
      const facts = [
        ["cluster", lane.name], ["processors", Pliant.count(jobs.procs[index])],
        ["submitted", Pliant.instant(submit)], ["waited", Pliant.span(jobs.wait[index])],
        ["started", Pliant.instant(jobs.start[index])], ["ended", Pliant.instant(jobs.end[index])],
        ["ran", `${Pliant.span(jobs.end[index] - jobs.start[index])} of ${Pliant.span(jobs.walltime[index])} requested`],
      ];
      const why = Pliant.element("div", undefined, "why");
      why.append(Pliant.element("p", `Why here: ${data.reasons[jobs.reason[index]]}`));
      const moves = jobs.moves[index] ? moveTable(current).get(id) ?? [] : [];
      if (jobs.moves[index]) facts.push(["moves", Pliant.count(jobs.moves[index])]);
      for (const move of moves.slice(-3)) {
        const from = current.clusters[move.from]?.name, to = current.clusters[move.to]?.name, gain = move.before - move.after;
        why.append(Pliant.element("p", `${Pliant.instant(move.at)}: moved from ${from} to ${to}; its estimated end became ${Pliant.span(Math.abs(gain))} ${gain >= 0 ? "earlier" : "later"}`));
      }
      if (current !== data.runs[0]) {
        const before = find(data.runs[0], id, submit);
        if (before) {
          const gain = before.lane.jobs.end[before.index] - jobs.end[index];
          const than = `in ${data.runs[0].name} (there on ${before.lane.name})`;
          why.append(Pliant.element("p", gain === 0 ? `ended as ${than}` : `ended ${Pliant.span(Math.abs(gain))} ${gain > 0 ? "earlier" : "later"} than ${than}`));
        }
      }
      return [Pliant.element("b", `Job ${id}`), Pliant.facts(facts), why];
    };
    gantt.describe = describe;
    gantt.onPin = (found) => {
      const box = document.getElementById("pinned");
      box.hidden = !found;
      if (!found) return box.replaceChildren();
      const [name, facts, why] = describe(found), close = Pliant.element("button", "Unpin"), left = Pliant.element("div");
      close.type = "button";
      close.addEventListener("click", () => { gantt.hold(null); gantt.canvas.focus(); });
      left.append(name, facts);
      box.replaceChildren(left, why, close);
    };

    // Many clusters are shown a page at a time, or one alone.
    const choice = document.querySelector("#lanes select");
    const clusters = data.runs[0].clusters.length;
    const option = (text, first, last) => { const node = Pliant.element("option", text); node.value = `${first} ${last}`; choice.append(node); };
    if (clusters <= Pliant.LANES) option("all", 0, clusters);
    else for (let first = 0; first < clusters; first += Pliant.LANES) option(`${first + 1} to ${Math.min(clusters, first + Pliant.LANES)}`, first, first + Pliant.LANES);
    if (clusters > 1) data.runs[0].clusters.forEach((cluster, index) => option(cluster.name, index, index + 1));
    document.getElementById("lanes").hidden = clusters < 2;
    page = choice.value;
    const lanes = () => { const [first, last] = page.split(" ").map(Number); return current.lanes.slice(first, last); };

    let steps = [];
    const buildSeries = () => {
      const node = document.getElementById("series");
      node.replaceChildren();
      steps = lanes().flatMap((lane) => [["utilization", "utilization", "share"], ["queue", "jobs waiting", ""]].map(([key, title, unit], kind) => {
        const holder = Pliant.element("div", undefined, "chart"), canvas = Pliant.element("canvas");
        canvas.setAttribute("role", "img");
        const values = current[key][lane.cluster], mean = values.reduce((sum, value) => sum + value, 0) / values.length;
        const text = (value) => unit === "share" ? `${Math.round(value * 100)} %` : value.toFixed(1);
        canvas.setAttribute("aria-label", `${lane.name}: ${title} over time, mean ${text(mean)}, at most ${text(Math.max(...values))}`);
        holder.append(canvas);
        node.append(holder);
        return Pliant.stepChart(canvas, () => {
          const most = unit === "share" ? 1 : Math.max(1, ...data.runs.filter((run) => run.queue).map((run) => Math.max(...run.queue[lane.cluster])));
          return { values: current[key][lane.cluster], width: current.series.width, title: `${lane.name}: ${title}`, unit, most,
            colour: Pliant.series(kind === 0 ? 2 : 3), window: zoomed() ? [gantt.view.t0, gantt.view.t1] : null };
        });
      }));
    };
    const moves = document.getElementById("moves");
    const drawMoves = moves && Pliant.stepChart(moves, () => ({ values: current.moves.counts, width: current.moves.width, unit: "",
      title: `moves in each ${Pliant.span(current.moves.width)}`, colour: Pliant.series(1) }));

    const report = () => rendered(`gantt:${gantt.drawn} lanes:${gantt.lanes.length} series:${steps.length} moves:${moves ? 1 : 0} runs:${data.runs.length}`);
    const zoomed = () => gantt.view.t1 - gantt.view.t0 < data.end;
    const charts = () => {
      steps.forEach((draw) => draw());
      if (moves && !moves.parentElement.hidden) drawMoves();
      document.getElementById("series-note").textContent =
        `Mean over each ${Pliant.span(current.series.width)}.${zoomed() ? " The shaded part is what the schedule shows." : ""}`;
      // Said once the schedule is at rest, as it is read out.
      document.getElementById("view").textContent = zoomed() ? `${Pliant.moment(gantt.view.t0)} to ${Pliant.moment(gantt.view.t1)}` : "";
      report();
    };
    const select = (index) => {
      const pinned = gantt.pin && { id: gantt.pin.lane.jobs.id[gantt.pin.index], submit: gantt.pin.lane.jobs.start[gantt.pin.index] - gantt.pin.lane.jobs.wait[gantt.pin.index] };
      current = unpack(data.runs[index]);
      if (moves) moves.parentElement.hidden = current.moves.counts.every((count) => count === 0);
      document.querySelectorAll("[data-select]").forEach((node) => node.setAttribute("aria-pressed", String(Number(node.dataset.select) === index)));
      document.querySelectorAll("[data-run]").forEach((node) => { node.hidden = Number(node.dataset.run) !== index; });
      // A pinned job is followed from run to run.
      gantt.pin = pinned ? find(current, pinned.id, pinned.submit) : null;
      gantt.onPin(gantt.pin);
      gantt.show(lanes());
      buildSeries();
      charts();
    };
    // The small charts follow when the schedule comes to rest.
    let rest = 0;
    gantt.onView = () => { clearTimeout(rest); rest = setTimeout(charts, 90); };
    choice.addEventListener("change", () => { page = choice.value; gantt.show(lanes()); buildSeries(); charts(); });
    const buttons = [...document.querySelectorAll("[data-select]")];
    buttons.forEach((node, index) => {
      node.addEventListener("click", () => select(index));
      node.addEventListener("keydown", (event) => {
        const to = buttons[index + ({ ArrowLeft: -1, ArrowRight: 1 }[event.key] ?? NaN)];
        if (to) { event.preventDefault(); to.focus(); to.click(); }
      });
    });
    const tools = { in: () => gantt.zoom(.6), out: () => gantt.zoom(1 / .6), all: () => gantt.look(0, data.end) };
    document.querySelectorAll("[data-zoom]").forEach((node) => node.addEventListener("click", tools[node.dataset.zoom]));
    select(data.first);
    Pliant.watch(() => { gantt.draw(); charts(); });
    window.pliantReport = {
      select, gantt,
      // Milliseconds of a frame of the schedule: median over 21 at several zooms.
      benchmark() {
        const view = gantt.view, result = { jobs: current.shown };
        const sample = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
        for (const [name, share] of [["whole", 1], ["tenth", .1], ["hundredth", .01]]) {
          const times = [];
          for (let i = 0; i < 21; i++) {
            const t0 = data.end * (1 - share) * i / 20;
            gantt.view = { t0, t1: t0 + data.end * share };
            const begin = performance.now();
            gantt.draw();
            // Reading a pixel waits until the frame is really drawn.
            sample.drawImage(gantt.canvas, 0, 0, 1, 1);
            sample.getImageData(0, 0, 1, 1);
            times.push(performance.now() - begin);
          }
          result[name] = Number(times.sort((a, b) => a - b)[10].toFixed(2));
        }
        gantt.view = view;
        gantt.draw();
        return result;
      },
    };
    if (location.hash === "#benchmark") document.body.dataset.benchmark = JSON.stringify(window.pliantReport.benchmark());
  };

  if (data.kind === "runs") runs();
  else if (data.kind === "campaign") campaign();
  else rendered("nothing");
  // A table that is wider than the page can be scrolled by keyboard.
  const scrollable = () => document.querySelectorAll(".scroll").forEach((node) => {
    if (node.scrollWidth > node.clientWidth + 1) node.tabIndex = 0; else node.removeAttribute("tabindex");
  });
  scrollable();
  Pliant.watch(scrollable);
  new ResizeObserver(Pliant.redraw).observe(document.querySelector("main"));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", Pliant.redraw);
})();
