// What every chart needs: a record of errors, packed columns, words for times, colours, the tooltip.

const Pliant = {};

// Errors are written on the body, where a test of the page finds them.
(() => {
  const errors = [];
  const record = (text) => {
    errors.push(String(text));
    document.body.dataset.errors = JSON.stringify(errors);
  };
  document.body.dataset.errors = "[]";
  window.addEventListener("error", (event) => record(event.message));
  window.addEventListener("unhandledrejection", (event) => record(event.reason));
  const print = console.error.bind(console);
  console.error = (...values) => { record(values.join(" ")); print(...values); };
})();

// Reads numbers of seven bits a byte, least first, from base64 (written by html/pack.rs).
Pliant.Reader = class {
  constructor(text) {
    const raw = atob(text);
    this.bytes = new Uint8Array(raw.length);
    for (let i = 0; i < raw.length; i++) this.bytes[i] = raw.charCodeAt(i);
    this.at = 0;
  }
  next() {
    let byte = this.bytes[this.at++];
    let number = byte & 127;
    // Multiplied, not shifted: shifts are limited to 32 bits.
    for (let scale = 128; byte & 128; scale *= 128) {
      byte = this.bytes[this.at++];
      number += (byte & 127) * scale;
    }
    return number;
  }
  signed() {
    const number = this.next();
    return number % 2 ? -(number + 1) / 2 : number / 2;
  }
};

Pliant.STAYED = 0; Pliant.MOVED = 1; Pliant.LOCAL = 2;
Pliant.STATES = [["stayed", "ran where it was first sent"], ["moved", "moved while it waited"], ["local", "local, outside the federation"]];

// The jobs of one cluster, by start, as columns (written by html/charts.rs).
Pliant.decodeJobs = (packed) => {
  const count = packed.count, reader = new Pliant.Reader(packed.data);
  const floats = () => new Float64Array(count);
  const jobs = {
    count, id: floats(), start: floats(), end: floats(), wait: floats(), walltime: floats(),
    procs: new Uint32Array(count), moves: new Uint32Array(count), state: new Uint8Array(count), reason: new Uint8Array(count),
    pieceBegin: new Uint32Array(count + 1), pieceFirst: null, pieceCount: null,
    // The latest end up to and including each job: where a search for what runs at a time may stop.
    latestEnd: floats(),
  };
  const first = [], size = [];
  let id = 0, start = 0, latest = -Infinity;
  for (let i = 0; i < count; i++) {
    jobs.id[i] = id += reader.signed();
    jobs.start[i] = start += reader.signed();
    jobs.wait[i] = reader.signed();
    jobs.end[i] = start + reader.signed();
    jobs.procs[i] = reader.next();
    jobs.walltime[i] = reader.signed();
    const flags = reader.next();
    jobs.reason[i] = flags % 8;
    const managed = (flags >> 3) & 1;
    jobs.moves[i] = Math.floor(flags / 16);
    jobs.state[i] = !managed ? Pliant.LOCAL : jobs.moves[i] > 0 ? Pliant.MOVED : Pliant.STAYED;
    jobs.pieceBegin[i] = first.length;
    for (let pieces = reader.next(); pieces > 0; pieces--) { first.push(reader.next()); size.push(reader.next()); }
    jobs.latestEnd[i] = latest = Math.max(latest, jobs.end[i]);
  }
  jobs.pieceBegin[count] = first.length;
  jobs.pieceFirst = Uint32Array.from(first);
  jobs.pieceCount = Uint32Array.from(size);
  return jobs;
};

// The first position of a sorted column whose value is above `value`.
Pliant.above = (column, value) => {
  let low = 0, high = column.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (column[middle] > value) high = middle; else low = middle + 1;
  }
  return low;
};

Pliant.count = (number) => Math.round(number).toLocaleString("en-US");

// Seconds as days, hours, minutes and seconds, the two largest that say something.
Pliant.span = (seconds) => {
  const sign = seconds < 0 ? "-" : "";
  let rest = Math.round(Math.abs(seconds));
  const parts = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];
  const words = [];
  for (const [size, unit] of parts) {
    const whole = Math.floor(rest / size);
    rest -= whole * size;
    if (whole > 0) words.push(`${whole} ${unit}`);
    else if (words.length) break;
    if (words.length === 2) break;
  }
  return words.length ? sign + words.join(" ") : "0 s";
};

// An instant since the first submission.
Pliant.instant = (seconds) => {
  const days = Math.floor(seconds / 86400), rest = Math.round(seconds - days * 86400);
  const two = (number) => String(number).padStart(2, "0");
  return `day ${days}, ${two(Math.floor(rest / 3600))}:${two(Math.floor(rest / 60) % 60)}:${two(rest % 60)}`;
};

// An instant to the minute.
Pliant.moment = (seconds) => Pliant.instant(Math.floor(seconds / 60) * 60).slice(0, -3);

// Colours are the style sheet's, so that light and dark are defined in one place.
Pliant.colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
Pliant.series = (index) => Pliant.colour(`c${index % 12}`);
Pliant.font = (size) => `${size}px system-ui, "Segoe UI", Roboto, "DejaVu Sans", sans-serif`;

// A canvas of `height` at the screen's resolution; draws in page pixels.
Pliant.prepare = (canvas, height) => {
  const ratio = Math.min(window.devicePixelRatio || 1, 2);
  const width = Math.max(200, canvas.parentElement.clientWidth);
  if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
    canvas.style.height = `${height}px`;
  }
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);
  return { context, width, height };
};

Pliant.element = (tag, text, className) => {
  const node = document.createElement(tag);
  if (text !== undefined) node.textContent = text;
  if (className) node.className = className;
  return node;
};

Pliant.facts = (pairs) => {
  const list = Pliant.element("dl", undefined, "facts");
  for (const [name, value] of pairs) list.append(Pliant.element("dt", name), Pliant.element("dd", value));
  return list;
};

Pliant.tip = (() => {
  let box = null;
  return {
    show(event, nodes) {
      if (!box) document.body.append(box = Pliant.element("div", undefined, "tip"));
      box.replaceChildren(...nodes);
      box.hidden = false;
      const { offsetWidth: width, offsetHeight: height } = box;
      const left = event.clientX + 16 + width > innerWidth ? event.clientX - 16 - width : event.clientX + 16;
      const top = Math.min(event.clientY + 14, innerHeight - height - 8);
      box.style.left = `${Math.max(4, left)}px`;
      box.style.top = `${Math.max(4, top)}px`;
    },
    hide() { if (box) box.hidden = true; },
  };
})();

// Charts redraw together, once a frame, when the page's width or its colours change.
Pliant.charts = [];
Pliant.watch = (draw) => Pliant.charts.push(draw);
Pliant.redraw = (() => {
  let asked = false;
  return () => {
    if (asked) return;
    asked = true;
    requestAnimationFrame(() => { asked = false; for (const draw of Pliant.charts) draw(); });
  };
})();
