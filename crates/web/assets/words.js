// Times, lengths of time and states in words.

Web.now = () => Date.now() / 1000;

Web.dateForm = new Intl.DateTimeFormat(undefined, { weekday: "short", day: "numeric", month: "short" });
Web.clockForm = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
Web.fullForm = new Intl.DateTimeFormat(undefined, { dateStyle: "full", timeStyle: "long", hourCycle: "h23" });

// An instant: the clock, with the day unless it is today.
Web.instant = (seconds) => {
  const date = new Date(seconds * 1000), clock = Web.clockForm.format(date);
  return date.toDateString() === new Date().toDateString() ? clock : `${Web.dateForm.format(date)}, ${clock}`;
};

Web.full = (seconds) => Web.fullForm.format(new Date(seconds * 1000));

// How far an instant is from now.
Web.distance = (seconds) => {
  const apart = Math.round(seconds - Web.now());
  if (Math.abs(apart) < 1) return "now";
  return apart > 0 ? `in ${Pliant.span(apart)}` : `${Pliant.span(-apart)} ago`;
};

// An error of a promise with its sign.
Web.signed = (seconds) => seconds === 0 ? "0 s" : seconds > 0 ? `+${Pliant.span(seconds)}` : `−${Pliant.span(-seconds)}`;

Web.against = (seconds) => {
  if (seconds === null || seconds === undefined) return "";
  if (Math.abs(seconds) < 1) return "as promised";
  return seconds > 0 ? `${Pliant.span(seconds)} later than promised` : `${Pliant.span(-seconds)} earlier than promised`;
};

Web.counted = (count, word) => `${Pliant.count(count)} ${word}${count === 1 ? "" : "s"}`;

Web.STATES = { NEW: "new", QUEUED: "waiting", ACTIVE: "running", COMPLETED: "completed", FAILED: "failed", CANCELED: "cancelled" };
Web.stateWord = (state) => Web.STATES[state] ?? state;
Web.isFinal = (state) => state === "COMPLETED" || state === "FAILED" || state === "CANCELED";

Web.stateNode = (state) => Web.node("span", { class: `state ${state.toLowerCase()}` }, Web.stateWord(state));

// An instant as a node with everything of it in a title.
Web.time = (seconds, text = Web.instant(seconds)) => {
  const node = Web.node("time", { title: `${Web.full(seconds)} (${Web.distance(seconds)})` }, text);
  node.dateTime = new Date(seconds * 1000).toISOString();
  return node;
};

Web.timeCell = (seconds, before = "") => ({ sort: seconds, text: `${before}${Web.instant(seconds)}`, node: () => Web.time(seconds, `${before}${Web.instant(seconds)}`) });

Web.jobLink = (id) => Web.node("a", { href: `/jobs/${encodeURIComponent(id)}` }, id);

Web.start = (job) => job.started_s ?? job.expected.start_s;

Web.end = (job) => job.ended_s ?? (job.started_s === null ? job.expected.completion_s : job.started_s + job.walltime_s);

// When a job started or is to start; one that is due says so.
Web.startCell = (job) => {
  if (job.started_s === null && Web.isFinal(job.state)) return "–";
  return Web.timeCell(Web.start(job), job.started_s === null && Web.start(job) < Web.now() ? "due " : "");
};

Web.endCell = (job) => job.ended_s === null && Web.end(job) < Web.now() ? Web.timeCell(Web.end(job), "due ") : Web.timeCell(Web.end(job));

Web.MOVES = {
  "moved-earlier": "it completes earlier there",
  "resubmitted": "all waiting jobs were planned again",
  "first-start": "a sibling job was the first to start",
  "drained": "an operator had drained its server",
};
Web.moveWord = (reason) => Web.MOVES[reason] ?? reason;

Web.moveGain = ({ gain_s: gain }) => {
  if (gain === null) return "was not planned";
  if (gain === 0) return "the same";
  return gain > 0 ? `${Pliant.span(gain)} earlier` : `${Pliant.span(-gain)} later`;
};

Web.bytes = (count) => {
  const units = ["B", "kB", "MB", "GB", "TB"];
  let unit = 0;
  while (count >= 1000 && unit < units.length - 1) { count /= 1000; unit += 1; }
  return `${unit === 0 || count >= 100 ? Math.round(count) : count.toFixed(1)} ${units[unit]}`;
};

// Words as a shell splits them: quotes keep spaces, nothing is expanded.
Web.words = (text) => {
  const found = [];
  for (const [word] of text.matchAll(/(?:[^\s"']|"[^"]*"|'[^']*')+/g)) found.push(word.replace(/"([^"]*)"|'([^']*)'/g, (_, one, other) => one ?? other));
  return found;
};

// The text that is split into these words.
Web.quotedWords = (words) => words.map((word) => {
  if (/^[^\s"']+$/.test(word)) return word;
  return word.split("'").map((part) => part === "" ? "" : `'${part}'`).join(`"'"`) || "''";
}).join(" ");
