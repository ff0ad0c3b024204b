// Axes: ticks at round values, labels that never overlap.

// A step from 1, 2, 2.5, 5 times a power of ten that gives about `count` ticks up to `range`.
Pliant.roundStep = (range, count) => {
  const raw = range / Math.max(1, count), power = 10 ** Math.floor(Math.log10(raw));
  for (const factor of [1, 2, 2.5, 5, 10]) if (factor * power >= raw) return factor * power;
  return 10 * power;
};

Pliant.timeStep = (range, count) => {
  const minute = 60, hour = 3600, day = 86400;
  const steps = [1, 2, 5, 10, 20, 30, minute, 2 * minute, 5 * minute, 10 * minute, 20 * minute, 30 * minute, hour, 2 * hour,
    3 * hour, 6 * hour, 12 * hour, day, 2 * day, 5 * day, 7 * day, 14 * day, 28 * day];
  const raw = range / Math.max(1, count);
  for (const step of steps) if (step >= raw) return step;
  return day * Pliant.roundStep(range / day, count);
};

// The label of an instant; zoomed in, the first one says which day it is.
Pliant.timeLabel = (seconds, step, first) => {
  const days = Math.floor(seconds / 86400), rest = Math.round(seconds - days * 86400);
  if (step >= 86400 || (rest === 0 && step >= 3600)) return `day ${days}`;
  const two = (number) => String(number).padStart(2, "0");
  const clock = `${two(Math.floor(rest / 3600))}:${two(Math.floor(rest / 60) % 60)}`;
  const bare = step >= 60 ? clock : `${clock}:${two(rest % 60)}`;
  return first ? `day ${days}, ${bare}` : bare;
};

// Vertical grid lines and their labels from `t0` to `t1` over `x0..x1`; labels hang at `bottom`.
Pliant.timeAxis = (context, t0, t1, x0, x1, top, bottom) => {
  const step = Pliant.timeStep(t1 - t0, (x1 - x0) / 92);
  const x = (time) => x0 + (time - t0) / (t1 - t0) * (x1 - x0);
  context.font = Pliant.font(11);
  context.textAlign = "center";
  context.textBaseline = "top";
  let free = -Infinity;
  for (let time = Math.ceil(t0 / step) * step; time <= t1; time += step) {
    context.strokeStyle = Pliant.colour("grid");
    context.beginPath();
    context.moveTo(Math.round(x(time)) + .5, top);
    context.lineTo(Math.round(x(time)) + .5, bottom);
    context.stroke();
    const label = Pliant.timeLabel(time, step, free === -Infinity), half = context.measureText(label).width / 2;
    const at = Math.min(Math.max(x(time), x0 + half - 14), x1 - half);
    if (at - half < free) continue;
    context.fillStyle = Pliant.colour("quiet");
    context.fillText(label, at, bottom + 6);
    free = at + half + 10;
  }
  return step;
};

// The unit that suits a value measured in `unit`: { scale, suffix }.
Pliant.unit = (unit, greatest) => {
  if (unit === "percent") return { scale: 1, suffix: " %" };
  if (unit === "share") return { scale: 100, suffix: " %" };
  if (unit !== "s") return { scale: 1, suffix: "" };
  if (greatest >= 3 * 86400) return { scale: 1 / 86400, suffix: " d" };
  if (greatest >= 2 * 3600) return { scale: 1 / 3600, suffix: " h" };
  if (greatest >= 600) return { scale: 1 / 60, suffix: " min" };
  return { scale: 1, suffix: " s" };
};

Pliant.decimals = (value, step) => {
  // A step of 2.5 needs one more digit than its power of ten.
  const power = Math.floor(Math.log10(step) + 1e-9), fraction = Math.abs(step / 10 ** power - 2.5) < 1e-6 ? 1 : 0;
  const digits = Math.max(0, Math.min(6, fraction - power));
  return value.toLocaleString("en-US", { minimumFractionDigits: digits, maximumFractionDigits: digits });
};

// Horizontal grid lines and labels of values `low..high` (in shown units) over `bottom..top`; no step is
// smaller than `least`.
Pliant.valueAxis = (context, low, high, x0, x1, top, bottom, suffix, ticks = (bottom - top) / 38, least = 0) => {
  const step = Math.max(least, Pliant.roundStep(high - low, ticks));
  const y = (value) => bottom - (value - low) / (high - low) * (bottom - top);
  context.font = Pliant.font(11);
  context.textAlign = "right";
  context.textBaseline = "middle";
  for (let tick = Math.ceil(low / step - 1e-9); tick * step <= high + step * 1e-9; tick++) {
    const line = Math.round(y(tick * step)) + .5;
    context.strokeStyle = Pliant.colour("grid");
    context.beginPath();
    context.moveTo(x0, line);
    context.lineTo(x1, line);
    context.stroke();
    context.fillStyle = Pliant.colour("quiet");
    // Adding 0 turns a tick of -0 into 0.
    context.fillText(Pliant.decimals(tick * step + 0, step) + suffix, x0 - 7, line);
  }
  return y;
};

// Text cut to a width.
Pliant.fit = (context, text, width) => {
  if (context.measureText(text).width <= width) return text;
  let low = 0, high = text.length;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (context.measureText(`${text.slice(0, middle)}…`).width <= width) low = middle; else high = middle - 1;
  }
  return low > 0 ? `${text.slice(0, low)}…` : "";
};
