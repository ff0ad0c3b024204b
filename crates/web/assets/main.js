// Begins the page that the body names.

(() => {
  const begin = { overview: Web.overview, jobs: Web.jobs, job: Web.job, submit: Web.submit, launches: Web.launches, launch: Web.launch, works: Web.works, work: Web.work, whatif: Web.whatif, tokens: Web.tokens, admin: Web.admin }[document.body.dataset.page];
  Web.sorted();
  Web.follow();
  begin?.();
  Web.logout();
  addEventListener("resize", () => { Web.scrollable(); Pliant.redraw(); });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", Pliant.redraw);
})();
