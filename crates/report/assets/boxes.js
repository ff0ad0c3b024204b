// Box plots of a campaign: a group for each workload, in it a box for each policy.

Pliant.boxPlot = (canvas, figure, colourOf) => {
  let places = [];
  const all = figure.boxes.flat().filter(Boolean);

  const range = (scale) => {
    let low = Math.min(...all.map((box) => box.min)), high = Math.max(...all.map((box) => box.max));
    if (figure.neutral !== null) { low = Math.min(low, figure.neutral); high = Math.max(high, figure.neutral); }
    // An axis from zero where that does not squeeze the boxes.
    if (low > 0 && low < high * .6) low = 0;
    if (low === high) { low = Math.min(0, low); high = high > 0 ? high * 1.2 : 1; }
    low *= scale; high *= scale;
    const step = Pliant.roundStep(high - low, 6);
    return [Math.floor(low / step + 1e-9) * step, Math.ceil(high / step - 1e-9) * step];
  };

  const drawBox = (context, box, y, scale, centre, half, colour) => {
    const at = (value) => y(value * scale);
    const line = (x0, y0, x1, y1) => { context.beginPath(); context.moveTo(x0, y0); context.lineTo(x1, y1); context.stroke(); };
    context.strokeStyle = colour;
    context.lineWidth = 1.4;
    line(centre, at(box.min), centre, at(box.q1));
    line(centre, at(box.q3), centre, at(box.max));
    line(centre - half * .6, at(box.min), centre + half * .6, at(box.min));
    line(centre - half * .6, at(box.max), centre + half * .6, at(box.max));
    const top = at(box.q3), tall = Math.max(1, at(box.q1) - top);
    context.globalAlpha = .28;
    context.fillStyle = colour;
    context.fillRect(centre - half, top, half * 2, tall);
    context.globalAlpha = 1;
    context.strokeRect(centre - half, top, half * 2, tall);
    context.lineWidth = 2.6;
    line(centre - half, at(box.median), centre + half, at(box.median));
    const size = Math.min(4.5, Math.max(2.5, half * .5)), mean = at(box.mean);
    context.beginPath();
    context.moveTo(centre, mean - size); context.lineTo(centre + size, mean); context.lineTo(centre, mean + size); context.lineTo(centre - size, mean);
    context.closePath();
    context.fillStyle = Pliant.colour("paper");
    context.fill();
    context.lineWidth = 1.4;
    context.strokeStyle = Pliant.colour("ink");
    context.stroke();
  };

  const groupLabels = (context, left, group, bottom, turned) => {
    context.fillStyle = Pliant.colour("ink");
    context.font = Pliant.font(12);
    figure.workloads.forEach((name, index) => {
      const centre = left + (index + .5) * group;
      context.save();
      context.translate(centre, bottom + 9);
      if (turned) {
        context.rotate(-Math.PI / 6);
        context.textAlign = "right";
        context.textBaseline = "middle";
        context.fillText(Pliant.fit(context, name, 110), 6, 4);
      } else {
        context.textAlign = "center";
        context.textBaseline = "top";
        context.fillText(name, 0, 0);
      }
      context.restore();
    });
  };

  const draw = () => {
    // Folded away: drawn when it is unfolded.
    if (canvas.closest("details:not([open])")) return 0;
    const { context, width, height } = Pliant.prepare(canvas, 300);
    const { scale, suffix } = Pliant.unit(figure.unit, Math.max(...all.map((box) => box.max)));
    const [low, high] = range(scale);
    context.font = Pliant.font(12);
    const widest = Math.max(...figure.workloads.map((name) => context.measureText(name).width)), turned = widest > (width - 78) / figure.workloads.length - 8;
    const left = 70, right = width - 8, top = 14, bottom = height - (turned ? 24 + Math.min(110, widest) / 2 : 32), group = (right - left) / figure.workloads.length;
    const y = Pliant.valueAxis(context, low, high, left, right, top, bottom, suffix);
    if (figure.neutral !== null) {
      const line = Math.round(y(figure.neutral * scale)) + .5;
      context.setLineDash([5, 4]);
      context.strokeStyle = Pliant.colour("quiet");
      context.beginPath(); context.moveTo(left, line); context.lineTo(right, line); context.stroke();
      context.setLineDash([]);
    }
    places = [];
    const slot = Math.min(64, group * .84 / figure.policies.length), half = Math.max(1.5, Math.min(17, slot * .36));
    figure.boxes.forEach((boxes, workload) => {
      if (workload > 0) {
        context.fillStyle = Pliant.colour("line");
        context.fillRect(Math.round(left + workload * group), top, 1, bottom - top);
      }
      boxes.forEach((box, policy) => {
        if (!box) return;
        const centre = left + (workload + .5) * group + (policy + .5 - figure.policies.length / 2) * slot;
        drawBox(context, box, y, scale, centre, half, colourOf(figure.policies[policy]));
        places.push({ centre, reach: slot / 2, workload, policy, box });
      });
    });
    groupLabels(context, left, group, bottom, turned);
    return places.length;
  };

  canvas.addEventListener("pointermove", (event) => {
    const x = event.clientX - canvas.getBoundingClientRect().left;
    const found = places.find((place) => Math.abs(place.centre - x) <= place.reach);
    if (!found) return Pliant.tip.hide();
    const { box } = found, { scale, suffix } = Pliant.unit(figure.unit, box.max);
    const text = (value) => (value * scale).toLocaleString("en-US", { maximumSignificantDigits: 4 }) + suffix;
    Pliant.tip.show(event, [
      Pliant.element("b", `${figure.policies[found.policy]}, ${figure.workloads[found.workload]}`),
      Pliant.facts([["greatest", text(box.max)], ["third quartile", text(box.q3)], ["median", text(box.median)], ["mean", text(box.mean)],
        ["first quartile", text(box.q1)], ["least", text(box.min)], ["runs", String(box.count)]]),
    ]);
  });
  canvas.addEventListener("pointerleave", () => Pliant.tip.hide());
  return draw;
};
