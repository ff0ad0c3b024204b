// Changes as they happen. After an interruption the stream goes on where it was, or everything is read again.

Web.live = (handlers) => {
  const badge = Web.$("live");
  const show = (state, text) => { if (badge.dataset.state !== state) { badge.dataset.state = state; badge.textContent = text; } };
  let source = null, pause = 500, was = false, refused = 0, later = 0;
  const open = () => {
    clearTimeout(later);
    source?.close();
    source = new EventSource("/api/v1/events");
    const on = (name, handle) => source.addEventListener(name, (event) => handle?.(JSON.parse(event.data)));
    on("begin", () => {
      show("live", "live");
      // What the browser could not say that it had missed.
      if (was) handlers.refresh?.();
      was = false;
      pause = 500;
      refused = 0;
      Web.settle("live");
    });
    on("job", handlers.job);
    on("removed", handlers.removed);
    on("clusters", handlers.clusters);
    on("health", (health) => { Web.showReach(health); handlers.health?.(health); });
    on("refresh", handlers.refresh);
    source.addEventListener("error", () => {
      show("lost", "reconnecting");
      refused += 1;
      if (refused === 2) Web.complain("live", { message: "This page gets no changes any more: what serves it does not answer", hint: "it goes on by itself when it does" });
      // Open streams reconnect by themselves; one that was refused does not.
      if (source.readyState !== EventSource.CLOSED) return;
      source.close();
      was = true;
      later = setTimeout(open, pause);
      pause = Math.min(pause * 2, 15_000);
    });
  };
  open();
  // A hidden page needs no stream: there may be many of them.
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) { clearTimeout(later); source?.close(); source = null; }
    else if (!document.hidden && !source) { was = true; open(); }
  });
  addEventListener("pagehide", () => { clearTimeout(later); source?.close(); source = null; });
  // A page that the browser has kept, after "back".
  addEventListener("pageshow", (event) => { if (event.persisted && !source) { was = true; open(); } });
};

// Says on every page if the federation does not answer.
Web.showReach = (health) => {
  if (health.reachable) Web.settle("federation");
  else {
    const since = health.answered_s === null ? "" : `; this page shows what was true at ${Web.instant(health.answered_s)}`;
    Web.complain("federation", { message: `The federation does not answer: ${health.problem}${since}` });
  }
};
