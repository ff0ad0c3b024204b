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
        Web.number(launch.tasks.length), servers.join(", ") || "–", launch.outcome ?? "–",
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
      task.not_spawned ?? task.exit?.text ?? "–", { text: task.affinity === null ? "–" : task.affinity.toFixed(2), number: true, sort: task.affinity },
    ])));
    document.body.dataset.rendered = `launch:${launch.state}`;
  };
  const showLinks = (links) => {
    const servers = [...new Set(launch.tasks.map((task) => task.server).filter(Boolean))].sort();
    const own = links.filter(({ between }) => between.every((name) => servers.includes(name)));
    Web.$("links-part").hidden = own.length === 0;
    Web.$("links-picture").replaceChildren(...(own.length > 0 && servers.length <= 12 ? [Web.linksPicture(servers, own)] : []));
    Web.rows(Web.$("links"), own.map((link) => Web.row(link.between.join(" "), [
      { text: link.between[0], head: true }, link.between[1], Web.number(link.mbps, Web.speed(link.mbps)), Web.number(link.round_trip_ms, `${link.round_trip_ms.toFixed(2)} ms`), Web.timeCell(link.measured_s),
    ])));
  };
  const load = Web.throttled(1000, () => Web.attempt("launch", async () => {
    launch = await Web.read(path);
    show();
    // Not every agent measures links.
    showLinks(await Web.read("/links").then(({ links }) => links, () => []));
  }));
  Web.$("cancel").addEventListener("click", async () => {
    if (!await Web.ask({ title: "Cancel this launch?", text: "All of its tasks are ended.", action: "Cancel launch", danger: true })) return;
    await Web.attempt("cancel", () => Web.send(`${path}/cancel`));
    load.now();
  });
  setInterval(() => { if (!document.hidden && launch?.state !== "over") load(); }, 2000);
  Web.live({ refresh: load, health: Web.showReach });
  load();
};

Web.speed = (mbps) => mbps >= 1000 ? `${(mbps / 1000).toFixed(1)} Gb/s` : `${mbps >= 10 ? Math.round(mbps) : mbps.toFixed(2)} Mb/s`;

// Servers on a circle, and the links between them: the faster, the thicker.
Web.linksPicture = (servers, links) => {
  const make = (tag, attributes, text) => {
    // A name of the standard: nothing is loaded from there.
    const node = document.createElementNS("http:" + "//www.w3.org/2000/svg", tag);
    for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
    if (text !== undefined) node.textContent = text;
    return node;
  };
  const label = links.map(({ between, mbps }) => `${between.join(" and ")}: ${Web.speed(mbps)}`).join(", ");
  const place = (name) => {
    const angle = 2 * Math.PI * servers.indexOf(name) / servers.length + (servers.length === 2 ? 0 : -Math.PI / 2);
    return [260 + 170 * Math.cos(angle), 130 + 95 * Math.sin(angle)];
  };
  const heights = servers.map((name) => place(name)[1]), top = Math.min(...heights) - 28;
  const picture = make("svg", { viewBox: `0 ${top} 520 ${Math.max(...heights) + 28 - top}`, role: "img", "aria-label": label, class: "links" });
  for (const { between, mbps } of links) {
    const [[x1, y1], [x2, y2]] = between.map(place), width = Math.max(1, Math.min(7, Math.log10(Math.max(1, mbps)) * 1.8));
    picture.append(make("line", { x1, y1, x2, y2, "stroke-width": width, class: "link-line" }), make("text", { x: (x1 + x2) / 2, y: (y1 + y2) / 2 - 7, class: "link-speed" }, Web.speed(mbps)));
  }
  for (const name of servers) {
    const [x, y] = place(name), shown = name.length > 16 ? `${name.slice(0, 15)}…` : name;
    picture.append(make("rect", { x: x - 62, y: y - 16, width: 124, height: 32, rx: 8, class: "link-server" }), make("text", { x, y: y + 5, class: "link-name" }, shown));
  }
  return picture;
};
