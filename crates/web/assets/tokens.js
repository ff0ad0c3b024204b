// Tokens for programs, at a portal: created, shown once, revoked.

Web.tokens = () => {
  const form = Web.$("create"), field = form.elements;
  const show = ({ created }) => {
    Web.$("revoke").disabled = !created;
    Web.$("revoke-text").textContent = created ? "This ends all tokens that you have created here: programs that use them are refused." : "You have no tokens.";
    document.body.dataset.rendered = `tokens:${created}`;
  };
  const load = () => Web.attempt("tokens", async () => show(await Web.read("/tokens")));
  const showToken = ({ token, scope, not_after_s: end }) => {
    const text = Web.node("pre", { tabindex: "0", role: "region", "aria-label": "Token" }, token);
    const copied = Web.node("span", { class: "quiet", role: "status" });
    const copy = Web.node("button", { type: "button", onclick: () => Web.attempt("copy", async () => {
      await navigator.clipboard.writeText(token);
      copied.textContent = "copied";
    }) }, "Copy");
    const until = Web.node("p", {}, `This token permits ${scope === "read" ? "to read" : "to read and to change"} until `, Web.time(end), ". It is not shown again.");
    const call = `curl -H "Authorization: Bearer $TOKEN" ${location.origin}/api/v1/jobs`;
    Web.$("created").replaceChildren(until, text, Web.node("p", { class: "bar" }, copy, copied), Web.node("pre", { tabindex: "0", role: "region", "aria-label": "A call with the token" }, call));
    text.focus();
  };
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    Web.attempt("create", async () => {
      showToken(await Web.send("/tokens", { scope: field.scope.value, for_s: Number(field.for_s.value) }));
      await load();
    });
  });
  Web.$("revoke").addEventListener("click", async () => {
    const text = "This ends all tokens that you have created at this portal.";
    if (!await Web.ask({ title: "Revoke all tokens?", text, action: "Revoke all tokens", danger: true })) return;
    Web.attempt("revoke", async () => {
      await Web.send("/tokens/revoke");
      Web.$("created").replaceChildren();
      await load();
    });
  });
  Web.live({ health: Web.showReach });
  load();
};
