// The Gantt chart: a lane for each cluster, time from left to right, processors from bottom to top.

Pliant.LANES = 12;
// With more rectangles than this in a lane they are filled as pixels, which is faster than the canvas but
// rounds them to whole pixels.
Pliant.RECTANGLES = 1500;

Pliant.Gantt = class {
  // `states` names the colours of the states of jobs.
  constructor(canvas, end, states = ["stayed", "moved", "local"]) {
    this.canvas = canvas;
    this.end = end;
    this.states = states;
    this.view = { t0: 0, t1: end };
    this.raster = new Pliant.Raster();
    // The chart without outlines: what the pointer meets changes often, the rest does not.
    this.base = document.createElement("canvas");
    this.hover = this.pin = null;
    this.drawn = 0;
    this.onView = this.onPin = this.describe = () => {};
    this.listen();
  }

  // Shows the lanes [{ name, procs, jobs, cluster }].
  show(lanes) {
    this.lanes = lanes;
    this.hover = null;
    this.draw();
  }

  place() {
    const gap = 12, top = 4, total = Math.max(320, Math.min(720, 190 * this.lanes.length));
    const procs = this.lanes.reduce((sum, lane) => sum + lane.procs, 0);
    const least = Math.min(56, total / this.lanes.length);
    const spare = total - least * this.lanes.length;
    let y = top;
    for (const lane of this.lanes) {
      lane.top = y;
      lane.height = Math.round(least + spare * lane.procs / procs);
      y += lane.height + gap;
    }
    return y - gap;
  }

  draw() {
    const left = 118, bottom = this.place();
    const { context, width } = Pliant.prepare(this.canvas, bottom + 26);
    const right = width - 6, { t0, t1 } = this.view;
    this.area = { left, right, bottom };
    const { states } = this;
    const colours = states.map((name) => Pliant.rgb(Pliant.colour(name)));
    const shades = states.flatMap((name) => [Pliant.colour(name), Pliant.colour(`${name}-2`)]);
    this.pixels = shades.map(Pliant.abgr);
    this.inks = shades.map(Pliant.textOn);
    context.fillStyle = Pliant.colour("lane");
    for (const lane of this.lanes) context.fillRect(left, lane.top, right - left, lane.height);
    for (const lane of this.lanes) this.grid(context, t0, t1, lane);
    Pliant.timeAxis(context, t0, t1, left, right, bottom, bottom);
    this.drawn = 0;
    for (const lane of this.lanes) {
      context.save();
      context.beginPath();
      context.rect(left, lane.top, right - left, lane.height);
      context.clip();
      this.drawn += this.lane(context, lane, colours, shades);
      context.restore();
      this.title(context, lane);
    }
    this.base.width = this.canvas.width;
    this.base.height = this.canvas.height;
    this.base.getContext("2d").drawImage(this.canvas, 0, 0);
    this.outlines(context);
  }

  outlines(context) {
    if (this.hover) this.outline(context, this.hover, 1.5);
    if (this.pin) this.outline(context, this.pin, 2);
  }

  // Draws the outlines again over the chart as it is.
  mark() {
    if (this.asked) return;
    const context = this.canvas.getContext("2d");
    context.save();
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.clearRect(0, 0, this.canvas.width, this.canvas.height);
    context.drawImage(this.base, 0, 0);
    context.restore();
    this.outlines(context);
  }

  grid(context, t0, t1, lane) {
    const { left, right } = this.area, step = Pliant.timeStep(t1 - t0, (right - left) / 92);
    context.fillStyle = Pliant.colour("grid");
    for (let time = Math.ceil(t0 / step) * step; time <= t1; time += step) {
      context.fillRect(Math.round(left + (time - t0) / (t1 - t0) * (right - left)), lane.top, 1, lane.height);
    }
  }

  title(context, lane) {
    const { left } = this.area, middle = lane.top + lane.height / 2;
    context.textAlign = "left";
    context.textBaseline = "middle";
    context.fillStyle = Pliant.colour("ink");
    context.font = `600 ${Pliant.font(12.5)}`;
    context.fillText(Pliant.fit(context, lane.name, left - 34), 0, middle - 8);
    context.fillStyle = Pliant.colour("quiet");
    context.font = Pliant.font(11);
    context.fillText(Pliant.fit(context, `${Pliant.count(lane.procs)} procs`, left - 34), 0, middle + 8);
    context.textAlign = "right";
    context.textBaseline = "top";
    context.fillText(Pliant.count(lane.procs), left - 6, lane.top - 1);
    context.textBaseline = "bottom";
    context.fillText("0", left - 6, lane.top + lane.height + 2);
  }

  // The jobs of a lane; returns how many are in view.
  lane(context, lane, colours, shades) {
    const { jobs, procs, top, height } = lane, { left, right } = this.area, { t0, t1 } = this.view;
    const kx = (right - left) / (t1 - t0), ky = height / procs, width = Math.floor(right - left);
    // All jobs before `first` ended before the view begins; all jobs from `last` start after its end.
    const first = Pliant.above(jobs.latestEnd, t0), last = Pliant.above(jobs.start, t1);
    const wide = [], labels = [];
    let seen = 0;
    this.raster.begin(width, height, this.states.length);
    for (let i = first; i < last; i++) {
      if (jobs.end[i] < t0) continue;
      seen++;
      const x0 = (jobs.start[i] - t0) * kx, x1 = (jobs.end[i] - t0) * kx;
      for (let piece = jobs.pieceBegin[i]; piece < jobs.pieceBegin[i + 1]; piece++) {
        const low = jobs.pieceFirst[piece], count = jobs.pieceCount[piece];
        const y0 = height - (low + count) * ky, y1 = height - low * ky;
        if (x1 - x0 >= 3 && y1 - y0 >= 2) {
          const from = Math.max(-2, x0), to = Math.min(width + 2, x1);
          wide.push(from, y0, to - from, y1 - y0, jobs.state[i] * 2 + jobs.id[i] % 2);
          if (to - from > 46 && y1 - y0 >= 13) labels.push(jobs.label?.[i] ?? String(jobs.id[i]), Math.max(0, from), (y0 + y1) / 2, Math.min(width, to) - Math.max(0, from), jobs.state[i] * 2 + jobs.id[i] % 2);
        } else {
          this.raster.add(x0, y0, Math.max(x1, x0 + .35), y1, jobs.state[i]);
        }
      }
    }
    const many = wide.length > Pliant.RECTANGLES * 5;
    if (many) for (let i = 4; i < wide.length; i += 5) wide[i] = this.pixels[wide[i]];
    this.raster.paint(context, left, top, colours, many ? wide : []);
    if (!many) this.rectangles(context, wide, shades, left, top);
    context.font = Pliant.font(10.5);
    context.textAlign = "left";
    context.textBaseline = "middle";
    for (let i = 0; i < labels.length; i += 5) {
      const text = labels[i];
      context.fillStyle = this.inks[labels[i + 4]];
      if (context.measureText(text).width + 8 < labels[i + 3]) context.fillText(text, left + labels[i + 1] + 4, top + labels[i + 2]);
    }
    return seen;
  }

  rectangles(context, wide, shades, left, top) {
    for (let i = 0; i < wide.length; i += 5) {
      const gapX = wide[i + 2] > 8 ? 1 : 0, gapY = wide[i + 3] > 5 ? 1 : 0;
      context.fillStyle = shades[wide[i + 4]];
      context.fillRect(left + wide[i], top + wide[i + 1], wide[i + 2] - gapX, wide[i + 3] - gapY);
    }
  }

  outline(context, { lane, index }, line) {
    if (!this.lanes.includes(lane)) return;
    const { jobs, procs, top, height } = lane, { left, right } = this.area, { t0, t1 } = this.view;
    const kx = (right - left) / (t1 - t0), ky = height / procs;
    context.save();
    context.beginPath();
    context.rect(left, top - 2, right - left, height + 4);
    context.clip();
    context.strokeStyle = Pliant.colour("ink");
    context.lineWidth = line;
    for (let piece = jobs.pieceBegin[index]; piece < jobs.pieceBegin[index + 1]; piece++) {
      const x = Math.max(-9, (jobs.start[index] - t0) * kx), to = Math.min(right - left + 9, (jobs.end[index] - t0) * kx);
      const y = height - (jobs.pieceFirst[piece] + jobs.pieceCount[piece]) * ky;
      context.strokeRect(left + x, top + y, Math.max(2, to - x), Math.max(2, jobs.pieceCount[piece] * ky));
    }
    context.restore();
  }

  // The job at a point of the canvas, if any; thin jobs are met within two pixels.
  pick(x, y) {
    const { left, right } = this.area, { t0, t1 } = this.view;
    const lane = this.lanes.find((one) => y >= one.top && y <= one.top + one.height);
    if (!lane || x < left || x > right) return null;
    const { jobs } = lane, perPixel = (t1 - t0) / (right - left), time = t0 + (x - left) * perPixel;
    const row = (lane.top + lane.height - y) / lane.height * lane.procs, slack = lane.procs / lane.height;
    let best = null, distance = Infinity;
    for (let i = Pliant.above(jobs.start, time + 2 * perPixel) - 1; i >= 0 && jobs.latestEnd[i] >= time - 2 * perPixel; i--) {
      const away = Math.max(jobs.start[i] - time, time - jobs.end[i], 0);
      if (away > 2 * perPixel || away >= distance) continue;
      for (let piece = jobs.pieceBegin[i]; piece < jobs.pieceBegin[i + 1]; piece++) {
        const low = jobs.pieceFirst[piece], high = low + jobs.pieceCount[piece];
        if (row >= low - slack / 2 && row <= high + slack / 2) { best = { lane, index: i }; distance = away; }
      }
    }
    return best;
  }

  // Shows t0..t1, kept within the run and no shorter than ten seconds.
  look(t0, t1) {
    const length = Math.min(this.end, Math.max(10, t1 - t0));
    t0 = Math.max(0, Math.min(this.end - length, t0));
    this.view = { t0, t1: t0 + length };
    this.ask();
  }

  zoom(factor, x) {
    const { left, right } = this.area, { t0, t1 } = this.view;
    const share = x === undefined ? .5 : Math.min(1, Math.max(0, (x - left) / (right - left)));
    const length = Math.min(this.end, Math.max(10, (t1 - t0) * factor)), centre = t0 + (t1 - t0) * share;
    this.look(centre - length * share, centre + length * (1 - share));
  }

  pan(share) {
    const { t0, t1 } = this.view, by = (t1 - t0) * share;
    this.look(t0 + by, t1 + by);
  }

  // Pins the next job in view (`by` 1) or the previous one (-1), cluster after cluster.
  step(by) {
    const { lanes } = this, { t0, t1 } = this.view;
    const before = (lane) => by > 0 ? -1 : lane.jobs.count;
    let place = this.pin ? lanes.indexOf(this.pin.lane) : -1, index = this.pin?.index;
    if (place < 0) { place = by > 0 ? 0 : lanes.length - 1; index = before(lanes[place]); }
    for (; lanes[place]; place += by, index = lanes[place] && before(lanes[place])) {
      const { jobs } = lanes[place];
      for (index += by; index >= 0 && index < jobs.count; index += by) {
        if (jobs.end[index] < t0 || jobs.start[index] > t1) continue;
        return this.hold({ lane: lanes[place], index });
      }
    }
  }

  // Pins a job, or none.
  hold(found) {
    this.pin = found;
    this.onPin(found);
    this.mark();
  }

  // One redraw a frame, however many events.
  ask() {
    if (this.asked) return;
    this.asked = true;
    requestAnimationFrame(() => { this.asked = false; this.draw(); this.onView(); });
  }

  listen() {
    const { canvas } = this;
    let drag = null, moved = false;
    const point = (event) => {
      const box = canvas.getBoundingClientRect();
      return [event.clientX - box.left, event.clientY - box.top];
    };
    canvas.addEventListener("wheel", (event) => {
      // Where there is no more to zoom out of, the wheel scrolls the page.
      if (!event.shiftKey && event.deltaY > 0 && this.view.t1 - this.view.t0 >= this.end) return;
      event.preventDefault();
      if (event.shiftKey) this.pan(Math.sign(event.deltaY || event.deltaX) * .1);
      else this.zoom(Math.exp(Math.sign(event.deltaY) * Math.min(.5, Math.abs(event.deltaY) / 240)), point(event)[0]);
    }, { passive: false });
    canvas.addEventListener("pointerdown", (event) => {
      drag = { x: event.clientX, ...this.view };
      moved = false;
      canvas.setPointerCapture(event.pointerId);
    });
    canvas.addEventListener("pointermove", (event) => {
      if (drag) {
        const by = event.clientX - drag.x;
        moved ||= Math.abs(by) > 3;
        const time = by / (this.area.right - this.area.left) * (drag.t1 - drag.t0);
        if (moved) { Pliant.tip.hide(); this.look(drag.t0 - time, drag.t1 - time); }
        return;
      }
      const found = this.pick(...point(event));
      if (found?.index !== this.hover?.index || found?.lane !== this.hover?.lane) { this.hover = found; this.mark(); }
      if (found) Pliant.tip.show(event, this.describe(found)); else Pliant.tip.hide();
    });
    canvas.addEventListener("pointerup", (event) => {
      if (drag && !moved) this.hold(this.pick(...point(event)));
      drag = null;
    });
    canvas.addEventListener("pointercancel", () => { drag = null; });
    canvas.addEventListener("pointerleave", () => { Pliant.tip.hide(); this.hover = null; this.mark(); });
    canvas.addEventListener("dblclick", () => this.look(0, this.end));
    canvas.addEventListener("keydown", (event) => {
      const act = {
        "+": () => this.zoom(.7), "=": () => this.zoom(.7), "-": () => this.zoom(1 / .7), "0": () => this.look(0, this.end),
        ArrowLeft: () => this.pan(-.15), ArrowRight: () => this.pan(.15), ArrowUp: () => this.zoom(.7), ArrowDown: () => this.zoom(1 / .7),
        n: () => this.step(1), p: () => this.step(-1), Escape: () => this.hold(null),
      }[event.key];
      if (act && !event.ctrlKey && !event.metaKey && !event.altKey) { event.preventDefault(); act(); }
    });
  }
};
