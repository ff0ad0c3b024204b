// Calls of typed services: the fields of their form, and their values on the page of a job.

Web.callForm = (box) => {
  const RANGES = { char: "a whole number of 0 to 255", int: "a whole number of 32 bits", long: "a whole number of 64 bits", float: "a number", double: "a number" };
  const TEXT_BYTES = 3_000_000;
  const goes = ({ direction }) => direction !== "out", isFile = ({ kind }) => kind === "file";
  const declared = ({ direction, kind, of, name, sizes }) => `${direction} ${of ?? kind} ${name}${sizes.map((size) => `[${size}]`).join("")}`;
  const label = (parameter, input, note) => Web.node("label", { class: "field" },
    Web.node("span", {}, parameter.name, input.required ? Web.node("abbr", { title: "required" }, " *") : null), input, Web.node("small", {}, note));

  // The elements of a vector or a matrix are typed, or read from a text file.
  const elements = (parameter, value) => {
    const { name, kind, of, sizes } = parameter;
    const area = Web.node("textarea", { name, required: true, rows: kind === "matrix" ? 4 : 2, spellcheck: "false", autocomplete: "off" });
    area.value = value ?? "";
    const file = Web.node("input", { type: "file", "aria-label": `Text file with the elements of ${name}`, onchange: () => {
      const [chosen] = file.files;
      if (!chosen) return;
      file.setCustomValidity(chosen.size > TEXT_BYTES ? `Expected at most 3 MB, found ${Web.bytes(chosen.size)}: use pliant call ${name}=@FILE` : "");
      if (chosen.size > TEXT_BYTES) { file.reportValidity(); return; }
      Web.attempt(`elements of ${name}`, async () => {
        area.value = await chosen.text();
        area.dispatchEvent(new Event("input", { bubbles: true }));
      });
    } });
    const count = kind === "matrix" ? `${sizes[0]} rows of ${sizes[1]} numbers` : `${sizes[0]} numbers`;
    return Web.node("div", { class: "elements" },
      label(parameter, area, `${count} (${of}), separated by blanks, commas or ends of lines${kind === "matrix" ? ", row by row" : ""}`),
      Web.node("p", { class: "quiet" }, "or from a text file: ", file));
  };
  const field = (values, kept) => (parameter) => {
    const { name, kind, of, sizes } = parameter;
    if (kind === "vector" || kind === "matrix") return elements(parameter, values.get(name));
    if (kind === "file") {
      const input = Web.node("input", { type: "file", name, required: !kept.has(name) });
      return label(parameter, input, kept.has(name) ? "a file; without one, that of the earlier job" : "a file of at most 3 MB");
    }
    const input = Web.node("input", { name, autocomplete: "off", required: kind === "number", inputmode: kind === "number" ? "decimal" : undefined, value: values.get(name) });
    return label(parameter, input, kind === "number" ? RANGES[of] : sizes.length > 0 ? `a text of fewer than ${sizes[0]} bytes` : "a text");
  };

  const inputs = (selector) => [...box.querySelectorAll(selector)].filter(({ name }) => name);
  return {
    // Shows the fields of a service; `kept` are the names of files of an earlier job.
    show({ parameters }, values, kept) {
      const back = parameters.filter(({ direction }) => direction !== "in").map(declared);
      box.replaceChildren(...parameters.filter(goes).map(field(values, kept)),
        Web.node("p", { class: "quiet" }, back.length > 0 ? `It returns ${back.join(", ")}.` : "It returns nothing."));
    },
    work: ({ name, signature }) => ({
      kind: "call", name, signature,
      values: Object.fromEntries(inputs("input:not([type=file]), textarea").map((input) => [input.name, input.value])),
    }),
    files: () => inputs("input[type=file]").filter(({ files }) => files.length > 0).map(({ name, files: [file] }) => ({ name, file })),
    // What the form of a service takes: a type that these pages do not know is none.
    hasForm: ({ parameters }) => parameters.length > 0,
    hasFiles: ({ parameters }) => parameters.some((parameter) => goes(parameter) && isFile(parameter)),
  };
};

// The values of a call on the page of its job.
Web.callValues = (path) => {
  const shown = (value, label, more) => value === null ? "–" : {
    text: `${value.of} ${value.text}`,
    node: () => Web.node("div", {}, Web.node("small", { class: "quiet" }, value.of), Web.node("pre", { class: "value", tabindex: 0, role: "region", "aria-label": label }, value.text + (value.cut ? "…" : "")), more),
  };
  return {
    async show() {
      const call = await Web.read(`${path}/call`);
      const link = (name) => Web.node("a", { href: `/api/v1${path}/call/${encodeURIComponent(name)}`, download: `${name}.txt` }, "Download");
      const isElements = ({ of }) => of.includes("[");
      Web.rows(Web.$("call"), call.values.map(({ name, declared, argument, result }) => Web.row(name, [
        { text: declared, head: true, className: "mono" }, shown(argument, `${name}, as it went to the service`), shown(result, `${name}, as it came back`, result !== null && (result.cut || isElements(result)) ? link(name) : null),
      ])));
      const words = { completed: "", failed: `The call failed: ${call.why}.`, cancelled: "The call was cancelled." };
      Web.$("call-note").textContent = call.outcome === null ? "The values that come back are here when the call has ended." : words[call.outcome];
      Web.$("call-section").hidden = false;
      document.body.dataset.call = call.outcome ?? "open";
    },
  };
};
