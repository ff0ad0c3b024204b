// A plot of points on a canvas: a number of each result against another.

// Round steps between two numbers, about `wanted` of them.
Web.steps = (low, high, wanted) => {
  const rough = (high - low) / Math.max(1, wanted), power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((one) => one >= rough);
  const found = [];
  for (let at = Math.ceil(low / step) * step; at <= high + step * 1e-9; at += step) found.push(Math.abs(at) < step * 1e-9 ? 0 : at);
  return found;
};

Web.figure = (number) => {
  const size = Math.abs(number);
  return size !== 0 && (size >= 1e6 || size < 1e-3) ? number.toExponential(2) : String(Number(number.toPrecision(6)));
};

Web.Plot = class {
  // `open` is called with the number of a point that was chosen.
  constructor(canvas, open) {
    Object.assign(this, { canvas, open, points: [], names: ["", ""], chosen: -1 });
    const place = (event) => {
      const box = canvas.getBoundingClientRect();
      return this.nearest(event.clientX - box.left, event.clientY - box.top);
    };
    canvas.addEventListener("pointermove", (event) => this.choose(place(event), event));
    canvas.addEventListener("pointerleave", () => { Pliant.tip.hide(); this.choose(-1); });
    canvas.addEventListener("click", (event) => { const found = place(event); if (found >= 0) this.open(this.points[found][2]); });
    canvas.addEventListener("keydown", (event) => {
      const count = this.points.length, by = { ArrowRight: 1, n: 1, ArrowLeft: -1, p: -1 }[event.key];
      if (event.key === "Enter" && this.chosen >= 0) this.open(this.points[this.chosen][2]);
      else if (by && count > 0) { event.preventDefault(); this.choose(this.chosen < 0 && by < 0 ? count - 1 : (this.chosen + by + count) % count); }
    });
    Pliant.watch(() => this.draw());
  }

  show(points, names) {
    // From left to right, so that the keyboard goes that way.
    this.points = [...points].sort((one, other) => one[0] - other[0] || one[1] - other[1]);
    this.names = names;
    this.chosen = -1;
    this.draw();
  }

  describe([x, y, number]) {
    return [Pliant.element("b", `Result ${number}`), Pliant.facts([[this.names[0], Web.figure(x)], [this.names[1], Web.figure(y)]])];
  }

  choose(index, event) {
    if (event) { if (index >= 0) Pliant.tip.show(event, this.describe(this.points[index])); else Pliant.tip.hide(); }
    if (index === this.chosen) return;
    this.chosen = index;
    if (!event && index >= 0) this.canvas.setAttribute("aria-label", `Result ${this.points[index][2]}: ${this.names[0]} ${Web.figure(this.points[index][0])}, ${this.names[1]} ${Web.figure(this.points[index][1])}`);
    this.draw();
  }

  nearest(x, y) {
    let best = -1, distance = 12 ** 2;
    this.points.forEach(([px, py], index) => {
      const away = (this.x(px) - x) ** 2 + (this.y(py) - y) ** 2;
      if (away < distance) { best = index; distance = away; }
    });
    return best;
  }

  draw() {
    const { context, width } = Pliant.prepare(this.canvas, 300), left = 78, right = width - 14, top = 12, bottom = 252;
    const range = (at) => {
      let low = Infinity, high = -Infinity;
      for (const point of this.points) { low = Math.min(low, point[at]); high = Math.max(high, point[at]); }
      if (low > high) return [0, 1];
      const more = (high - low) * .04 || Math.abs(high) * .1 || 1;
      return [low - more, high + more];
    };
    const [x0, x1] = range(0), [y0, y1] = range(1);
    this.x = (value) => left + (value - x0) / (x1 - x0) * (right - left);
    this.y = (value) => bottom - (value - y0) / (y1 - y0) * (bottom - top);
    context.fillStyle = Pliant.colour("lane");
    context.fillRect(left, top, right - left, bottom - top);
    context.font = Pliant.font(11);
    context.textBaseline = "middle";
    context.textAlign = "right";
    for (const at of Web.steps(y0, y1, 5)) {
      context.fillStyle = Pliant.colour("grid");
      context.fillRect(left, Math.round(this.y(at)), right - left, 1);
      context.fillStyle = Pliant.colour("quiet");
      context.fillText(Web.figure(at), left - 6, this.y(at));
    }
    context.textBaseline = "top";
    context.textAlign = "center";
    for (const at of Web.steps(x0, x1, Math.max(2, (right - left) / 110))) {
      context.fillStyle = Pliant.colour("grid");
      context.fillRect(Math.round(this.x(at)), top, 1, bottom - top);
      context.fillStyle = Pliant.colour("quiet");
      context.fillText(Web.figure(at), this.x(at), bottom + 6);
    }
    context.fillStyle = Pliant.colour("ink");
    context.fillText(Pliant.fit(context, this.names[0], right - left), (left + right) / 2, bottom + 26);
    context.save();
    context.translate(10, (top + bottom) / 2);
    context.rotate(-Math.PI / 2);
    context.textBaseline = "middle";
    context.fillText(Pliant.fit(context, this.names[1], bottom - top), 0, 0);
    context.restore();
    context.fillStyle = Pliant.colour("mine");
    context.globalAlpha = this.points.length > 500 ? .5 : .85;
    const size = this.points.length > 500 ? 2 : 3.5;
    for (const [x, y] of this.points) {
      context.beginPath();
      context.arc(this.x(x), this.y(y), size, 0, 2 * Math.PI);
      context.fill();
    }
    context.globalAlpha = 1;
    if (this.chosen < 0) return;
    const [x, y] = this.points[this.chosen];
    context.strokeStyle = Pliant.colour("ink");
    context.lineWidth = 2;
    context.beginPath();
    context.arc(this.x(x), this.y(y), 6, 0, 2 * Math.PI);
    context.stroke();
  }
};
