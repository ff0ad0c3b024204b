// The page that submits work: a form, the estimates of all servers for it, and the same on the command line.

Web.submit = () => {
  const form = Web.$("submit"), field = form.elements, given = new URLSearchParams(location.search);
  const call = Web.callForm(Web.$("arguments"));
  let services = [], key = null, asked = 0, reading = 0;
  // What an earlier job was given, to submit it again.
  const from = given.get("from");
  let values = given, inputsOf, kept = new Set();

  // A key for each submission, so that one that was interrupted is not accepted twice.
  const draw = () => [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, "0")).join("");
  const kind = () => field.kind.value;

  const service = () => services[Number(field.service.value)];
  const isCall = () => kind() === "service" && service()?.signature !== undefined;

  const work = () => {
    if (isCall()) return call.work(service());
    if (kind() === "service") {
      const values = {};
      for (const input of Web.$("arguments").querySelectorAll("input")) if (input.value !== "") values[input.name] = input.value;
      return { kind: "service", name: service()?.name ?? "", arguments: values };
    }
    const options = [];
    if (field.time.value.trim()) options.push("--time", field.time.value.trim());
    const more = Web.words(field.options.value);
    // A speedup model says the size itself.
    if (field.rigid.value && !more.some((word) => word.startsWith("--speedup"))) options.push("--rigid", field.rigid.value);
    return { kind: "script", name: field.name.value, text: field.text.value.replace(/\r\n/g, "\n"), options: [...options, ...more], arguments: Web.words(field.arguments.value) };
  };
  // Files that were chosen; estimates need their names only.
  const files = () => isCall() ? call.files() : [...Web.$("files").files].map((file) => ({ name: file.name, file }));
  const body = () => ({ work: work(), server: field.server.value || undefined, inputs_of: inputsOf, files: files().map(({ name }) => ({ name })) });
  const content = (file) => new Promise((done, failed) => {
    const reader = new FileReader();
    reader.addEventListener("load", () => done(reader.result.slice(reader.result.indexOf(",") + 1)));
    reader.addEventListener("error", () => failed(new Web.Problem({ detail: `${file.name} cannot be read: ${reader.error.message}` }, 0)));
    reader.readAsDataURL(file);
  });
  const contents = async () => Promise.all(files().map(async ({ name, file }) => ({ name, base64: file.size === 0 ? "" : await content(file) })));
  form.addEventListener("change", ({ target }) => {
    if (target.type !== "file" || !(target.id === "files" || target.required || kept.has(target.name))) return;
    const bytes = files().reduce((sum, { file }) => sum + file.size, 0), way = isCall() ? "use pliant call" : "send these files with pliant submit --in";
    target.setCustomValidity(bytes > 3_000_000 ? `Expected at most 3 MB, found ${Web.bytes(bytes)}: ${way}` : "");
  });

  const showArguments = () => {
    const chosen = service();
    Web.$("service-summary").textContent = chosen ? `${chosen.summary ? `${chosen.summary}. ` : ""}On ${chosen.servers.join(", ")}${chosen.resources ? `, with ${chosen.resources}` : ""}${chosen.for_others ? ", for other users" : ""}.` : "";
    Web.$("files-field").hidden = isCall();
    Web.$("files").disabled = isCall();
    if (isCall()) return call.show(chosen, values, kept);
    Web.$("arguments").replaceChildren(...(chosen?.arguments ?? []).map((argument) => {
      const input = Web.node("input", { name: argument.name, required: argument.required, placeholder: argument.default, autocomplete: "off", value: values.get(argument.name) });
      return Web.node("label", { class: "field" }, Web.node("span", {}, argument.name, argument.required ? Web.node("abbr", { title: "required" }, " *") : null), input, Web.node("small", {}, argument.takes));
    }));
  };

  const showKind = () => {
    const script = kind() === "script";
    Web.$("service-fields").hidden = script;
    Web.$("script-fields").hidden = !script;
    // What is hidden is not checked.
    for (const input of Web.$("service-fields").querySelectorAll("input, select, textarea")) input.disabled = script;
    for (const input of Web.$("script-fields").querySelectorAll("input, textarea")) input.disabled = !script;
    Web.$("files-field").hidden = isCall();
    Web.$("files").disabled = isCall();
  };

  const showEstimates = (found) => {
    const [best] = found.estimates;
    Web.$("best").textContent = best
      ? `${best.server} completes it first: on ${Web.counted(best.estimate.procs, "processor")}, starting ${best.estimate.start_s <= found.at_s ? "now" : `at ${Web.instant(best.estimate.start_s)}`}, by ${Web.instant(best.estimate.completion_s)}.`
      : "No server takes it at the moment.";
    Web.$("command").textContent = found.command;
    if (found.estimates.length === 0) Web.empty(Web.$("estimates"), "No estimate.");
    else Web.rows(Web.$("estimates"), found.estimates.map(({ server, partition, estimate, queue_length: waiting }, index) => Web.row(`${server} ${partition}`, [
      { text: partition === null ? server : `${server}, ${partition}`, head: true },
      estimate.start_s <= found.at_s ? "now" : Web.timeCell(estimate.start_s), Web.timeCell(estimate.completion_s),
      Web.number(estimate.procs), Web.number(estimate.walltime_s, Pliant.span(estimate.walltime_s)), Web.number(waiting),
    ], { class: index === 0 ? "chosen" : undefined })));
    const refusals = found.refusals.map(({ server, why }) => server === null ? why : `${server}: ${why}`);
    if (found.down.length > 0) refusals.push(`${found.down.join(", ")}: down`);
    Web.$("refusals").replaceChildren(...refusals.slice(0, 20).map((text) => Web.node("li", {}, text)));
    document.body.dataset.rendered = `estimates:${found.estimates.length}`;
  };

  const silence = (text) => {
    Web.$("best").textContent = text;
    Web.empty(Web.$("estimates"), "No estimate.");
    Web.$("refusals").replaceChildren();
    document.body.dataset.rendered = "estimates:0";
  };

  // The same work in the same order of keys and options.
  const canonical = ({ kind, name, text, options = [], arguments: words, values = words }) => {
    const rest = [...options], first = ["--time", "--rigid"].map((option) => {
      const at = rest.indexOf(option);
      return at < 0 ? null : rest.splice(at, 2)[1];
    });
    return JSON.stringify([kind, name, text, first, rest, Array.isArray(values) ? values : Object.entries(values).sort(([one], [other]) => one < other ? -1 : 1)]);
  };

  // Fills the form with what was submitted as an earlier job.
  const fill = ({ work: earlier, why_not: whyNot, server, inputs }) => {
    if (earlier === null) throw new Web.Problem({ detail: `What was submitted as ${from} cannot be filled in: ${whyNot}`, hint: `pliant resubmit ${from}` }, 422);
    form.querySelector(`[value=${earlier.kind === "script" ? "script" : "service"}]`).checked = true;
    if (earlier.kind !== "script") {
      values = new Map(Object.entries(earlier.arguments ?? earlier.values));
      kept = new Set(inputs.map(({ name }) => name));
      const wanted = services.findIndex(({ name, signature }) => name === earlier.name && signature === earlier.signature);
      if (wanted < 0) throw new Web.Problem({ detail: `Service ${earlier.name} of ${from} is not offered any more` }, 422);
      field.service.value = String(wanted);
      showArguments();
    } else {
      const options = [...earlier.options], take = (name) => {
        const at = options.indexOf(name);
        return at < 0 ? "" : options.splice(at, 2)[1];
      };
      field.name.value = earlier.name;
      field.time.value = take("--time");
      field.rigid.value = take("--rigid");
      field.text.value = earlier.text;
      field.options.value = Web.quotedWords(options);
      field.arguments.value = Web.quotedWords(earlier.arguments);
    }
    // Fields change what they cannot hold: a line end in a line, CR in a text.
    if (canonical(earlier) !== canonical(work())) {
      form.reset();
      values = given;
      throw new Web.Problem({ detail: `What was submitted as ${from} cannot be filled in: the form would change its text or its arguments`, hint: `pliant resubmit ${from}` }, 422);
    }
    if (server !== null) {
      // The user chose it: that it is down does not make another one right.
      if (![...field.server.options].some(({ value }) => value === server)) field.server.append(Web.node("option", { value: server }, `${server} (down)`));
      field.server.value = server;
    }
    if (inputs.length > 0) inputsOf = from;
    const lost = inputs.filter(({ state }) => state !== "kept");
    Web.$("inputs-of").hidden = inputs.length === 0;
    Web.$("inputs-of").textContent = lost.length === 0
      ? `Input files of ${from} are sent along: ${inputs.map(({ name }) => name).slice(0, 20).join(", ")}${inputs.length > 20 ? ", ..." : ""}.`
      : `Input files of ${from} cannot be sent along as they were submitted: ${lost.map(({ name, state }) => `${name} (${state})`).slice(0, 20).join(", ")}. Choose files with these names, or on the command line: pliant resubmit --in FILE ${from}`;
  };

  // Estimates follow what is typed; an incomplete form has none.
  const estimate = async () => {
    const mine = ++asked;
    if (!form.checkValidity() || (kind() === "service" && !service())) return silence(services.length === 0 && kind() === "service" ? "No service is offered." : "Fill in the form to see the estimates.");
    try {
      const found = await Web.send("/estimates", body());
      if (mine === asked) { Web.settle("estimates"); showEstimates(found); }
    } catch (error) {
      if (mine !== asked) return undefined;
      // What is wrong with the form is said where the estimates are.
      if (error.status >= 400 && error.status < 500) silence(`${error.message}${error.hint ? ` (${error.hint})` : ""}`); else Web.complain("estimates", error);
    }
    return undefined;
  };
  const soon = () => { key = null; clearTimeout(reading); reading = setTimeout(estimate, 250); };

  form.addEventListener("input", soon);
  field.service.addEventListener("change", () => { showArguments(); soon(); });
  for (const radio of form.querySelectorAll("[name=kind]")) radio.addEventListener("change", () => { showKind(); soon(); });
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const button = form.querySelector("[type=submit]");
    button.disabled = true;
    Web.$("submit-note").textContent = "submitting";
    key ??= draw();
    const job = await Web.attempt("submit", async () => Web.send("/jobs", { ...body(), files: await contents(), key }));
    button.disabled = false;
    Web.$("submit-note").textContent = "";
    if (job) { key = null; location.href = `/jobs/${encodeURIComponent(job.job_id)}`; }
  });

  Web.attempt("services", async () => {
    const found = await Web.read("/services");
    services = [...found.services, ...found.typed.filter(call.hasForm)];
    const several = new Set(services.map(({ name }) => name).filter((name, index, all) => all.indexOf(name) !== index));
    field.service.replaceChildren(...services.map(({ name, servers }, index) => Web.node("option", { value: index }, several.has(name) ? `${name} (${servers.join(", ")})` : name)));
    const wanted = services.findIndex(({ name }) => name === given.get("service"));
    if (wanted >= 0) field.service.value = String(wanted);
    const servers = [...new Set([...services.flatMap((one) => one.servers), ...found.scripts])].sort();
    field.server.append(...servers.map((server) => Web.node("option", { value: server }, server)));
    if (services.length === 0 && found.scripts.length > 0) form.querySelector("[value=script]").checked = true;
    if (found.silent.length > 0) Web.$("submit-note").textContent = `Not asked: ${found.silent.map(({ server }) => server).join(", ")}`;
    try {
      if (from) fill(await Web.read(`/jobs/${encodeURIComponent(from)}/submitted`));
    } finally {
      showArguments();
      showKind();
      estimate();
    }
  });
  showKind();
  Web.live({ health: Web.showReach });
  setInterval(() => { if (!document.hidden) estimate(); }, 30_000);
};
