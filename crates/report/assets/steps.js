// Step charts over time with a fixed number of bins: utilization, queue length, moves.

// Draws { values, width, title, unit, colour, most, window } and shows the values under the pointer.
Pliant.stepChart = (canvas, read) => {
  let area = null;
  const draw = () => {
    const chart = read();
    if (!chart) return;
    const { context, width, height } = Pliant.prepare(canvas, 136);
    const left = 58, right = width - 8, top = 24, bottom = height - 24, span = chart.values.length * chart.width;
    area = { left, right, span };
    const measured = chart.most ?? Math.max(...chart.values, chart.unit === "" ? 1 : 0);
    const { scale, suffix } = Pliant.unit(chart.unit, measured);
    const whole = chart.unit === "" ? 1 : 0, step = Math.max(whole, Pliant.roundStep(measured * scale, 3)), most = Math.max(step, Math.ceil(measured * scale / step - 1e-9) * step);
    Pliant.timeAxis(context, 0, span, left, right, top, bottom);
    const y = Pliant.valueAxis(context, 0, most, left, right, top, bottom, suffix, 3, whole);
    const x = (bin) => left + bin / chart.values.length * (right - left);
    if (chart.window) {
      const [from, to] = chart.window.map((time) => left + Math.min(1, time / span) * (right - left));
      context.globalAlpha = .1;
      context.fillStyle = Pliant.colour("accent");
      context.fillRect(from, top, Math.max(2, to - from), bottom - top);
      context.globalAlpha = 1;
    }
    context.beginPath();
    context.moveTo(left, y(0));
    chart.values.forEach((value, bin) => { context.lineTo(x(bin), y(value * scale)); context.lineTo(x(bin + 1), y(value * scale)); });
    context.lineTo(right, y(0));
    context.globalAlpha = .22;
    context.fillStyle = chart.colour;
    context.fill();
    context.globalAlpha = 1;
    context.strokeStyle = chart.colour;
    context.lineWidth = 1.2;
    context.stroke();
    context.fillStyle = Pliant.colour("ink");
    context.font = `600 ${Pliant.font(12)}`;
    context.textAlign = "left";
    context.textBaseline = "top";
    context.fillText(Pliant.fit(context, chart.title, right - left), left, 2);
  };
  canvas.addEventListener("pointermove", (event) => {
    const chart = read();
    if (!chart || !area) return;
    const share = (event.clientX - canvas.getBoundingClientRect().left - area.left) / (area.right - area.left);
    if (share < 0 || share >= 1) return Pliant.tip.hide();
    const bin = Math.floor(share * chart.values.length), { scale, suffix } = Pliant.unit(chart.unit, chart.most ?? chart.values[bin]);
    const value = chart.values[bin] * scale;
    Pliant.tip.show(event, [
      Pliant.element("b", `${value.toLocaleString("en-US", { maximumFractionDigits: 1 })}${suffix}`),
      Pliant.element("div", chart.title),
      Pliant.element("div", `${Pliant.instant(bin * chart.width)}, ${Pliant.span(chart.width)}`),
    ]);
  });
  canvas.addEventListener("pointerleave", () => Pliant.tip.hide());
  return draw;
};
