// Launches: the list, and one launch with its mapping.

Web.launchState = (state) => Web.node("span", { class: `state ${{ running: "active", over: "completed" }[state] ?? "queued"}` }, state);

Web.launches = () => {
  const table = Web.$("launches");
  const load = Web.throttled(2000, () => Web.attempt("launches", async () => {
    const { launches } = await Web.read("/launches?last=200");
    if (launches.length === 0) Web.empty(table, "There is no launch yet.");
    else Web.rows(table, launches.map((launch) => {
      const servers = [...new Set(launch.tasks.map((task) => task.server).filter(Boolean))];
      return Web.row(launch.launch, [
        { text: launch.name, head: true, node: () => Web.node("a", { href: `/launches/${launch.launch}` }, launch.name) },
        launch.owner, { text: launch.state, node: () => Web.launchState(launch.state) }, Web.timeCell(launch.submitted_s),
        { text: Pliant.count(launch.tasks.length), number: true }, servers.join(", ") || "–", launch.outcome ?? "–",
      ]);
    }));
    document.body.dataset.rendered = `launches:${launches.length}`;
  }));
  // The stream has no events of launches: they are read again while the page is seen.
  setInterval(() => { if (!document.hidden) load(); }, 5000);
  Web.live({ refresh: load, health: Web.showReach });
  load();
};

Web.launch = () => {
  const path = `/launches/${Web.$("launch").dataset.launch}`;
  let launch = null;
  const outcome = (task) => task.not_spawned !== null ? "failed" : task.exit === null ? "running" : task.exit.how === "code" && task.exit.code === 0 ? "completed" : "failed";
  const show = () => {
    Web.$("name").textContent = launch.name;
    Web.$("state").replaceWith(Object.assign(Web.launchState(launch.state), { id: "state" }));
    Web.$("state").setAttribute("role", "status");
    Web.$("cancel").hidden = ["ending", "over"].includes(launch.state);
    const facts = [["launch", launch.launch], ["user", launch.owner], ["submitted", `${Web.instant(launch.submitted_s)} (${Web.distance(launch.submitted_s)})`]];
    if (launch.why !== null) facts.push(["end", launch.why]);
    if (launch.unacknowledged.length > 0) facts.push(["no answer of", launch.unacknowledged.join(", ")]);
    Web.$("facts").replaceChildren(Pliant.facts(facts));
    const places = new Map();
    for (const task of launch.tasks) {
      const server = task.server ?? "not mapped", machine = task.machine ?? "–";
      if (!places.has(server)) places.set(server, new Map());
      if (!places.get(server).has(machine)) places.get(server).set(machine, []);
      places.get(server).get(machine).push(task);
    }
    Web.$("mapping").replaceChildren(...[...places].map(([server, machines]) => Web.node("div", { class: "place" }, Web.node("h3", {}, server),
      ...[...machines].map(([machine, tasks]) => Web.node("div", { class: "machine" }, Web.node("span", { class: "label" }, machine),
        Web.node("ul", {}, ...tasks.map((task) => Web.node("li", { class: `task ${outcome(task)}`, title: outcome(task) }, task.task))))))));
    Web.rows(Web.$("tasks"), launch.tasks.map((task) => Web.row(task.task, [
      { text: task.task, head: true }, task.server ?? "–", task.machine ?? "–", task.address ?? "–",
      task.not_spawned ?? task.exit?.text ?? "–", { text: task.affinity === null ? "–" : task.affinity.toFixed(2), number: true },
    ])));
    document.body.dataset.rendered = `launch:${launch.state}`;
  };
  const load = Web.throttled(1000, () => Web.attempt("launch", async () => { launch = await Web.read(path); show(); }));
  Web.$("cancel").addEventListener("click", () => {
    if (!confirm("Cancel this launch with all of its tasks?")) return;
    Web.attempt("cancel", () => Web.send(`${path}/cancel`)).then(load);
  });
  setInterval(() => { if (!document.hidden && launch?.state !== "over") load(); }, 2000);
  Web.live({ refresh: load, health: Web.showReach });
  load();
};
