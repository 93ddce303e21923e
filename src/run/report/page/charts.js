/* charts.js - the curves: selects the scalars that share a chart, and draws each chart with uPlot. If levin was built
 * without uPlot, the page shows the drawing of each run's loss instead (run.curve). */
const titles = plain({
  loss: "Loss", lr: "Learning rate", grad_norm: "Gradient norm", tokens_per_s: "Throughput", memory_bytes: "Memory",
  f1: "F1", mse: "Mean squared error", loss_scale: "Loss scale", restart_seconds: "Seconds of the last restart",
});
const title = (name) => titles[name] || (name[0].toUpperCase() + name.slice(1)).replace(/_/g, " ");
const units = plain({ memory_bytes: "bytes", restart_seconds: "seconds" });
const shown = { axis: "steps", log: false, smoothing: 0.6, zoom: null };
const charts = [];

/* Scalars that change only where a run was continued; the table of attempts has them, too. */
const attempts = ["goodput", "restarts", "restart_seconds"];
const isConstant = (series) => !series || series.y.every((y) => y === series.y[0]);

/* [{name, scalars: [...]}]: val_x and train_x are drawn with x. */
function chartGroups() {
  const groups = new Map();
  for (const run of report.runs)
    for (const name of Object.keys(run.series)) {
      const group = name.replace(/^(val|train)_(?=.)/, "");
      if (name === "time") continue;
      if (!groups.has(group)) groups.set(group, new Set());
      groups.get(group).add(name);
    }
  for (const name of attempts) if (report.runs.every((run) => isConstant(run.series[name]))) groups.delete(name);
  const isMetric = (g) => [...groups.get(g)].some((name) => name.startsWith("val_"));
  const later = ["lr", "grad_norm", "tokens_per_s", "memory_bytes"];
  const least = ["epoch", ...attempts];
  const rank = (g) => (g === "loss" ? 0 : isMetric(g) ? 1 : later.includes(g) ? 2 + later.indexOf(g) : least.includes(g) ? 9 : 8);
  return [...groups.keys()].sort((a, b) => rank(a) - rank(b)).map((g) => ({ name: g, scalars: [...groups.get(g)].sort() }));
}

/* Exponential moving average, corrected for the bias toward its initial 0 (as in Adam). */
function smooth(y, weight) {
  let sum = 0, total = 0;
  return y.map((v) => {
    sum = sum * weight + v * (1 - weight);
    total = total * weight + (1 - weight);
    return sum / total;
  });
}

/* Scalars without noise: smoothing would only delay them. */
const exact = ["lr", "memory_bytes", "epoch"];

/* The lines of a chart: one for each run and scalar. */
function linesOf(group) {
  const lines = [];
  const many = report.runs.length > 1;
  report.runs.forEach((run, r) => {
    for (const name of group.scalars) {
      const series = run.series[name];
      const x = series && series.x.length ? convert(run, shown.axis, series.x) : null;
      if (!x) continue;
      const validation = name.startsWith("val_");
      const rare = validation || name.startsWith("train_");
      const role = validation ? 1 : name.startsWith("train_") && group.scalars.includes(group.name) ? 2 : 0;
      lines.push({
        label: many ? run.name + (group.scalars.length > 1 ? " " + name : "") : name, x, series,
        color: "--c" + (many ? r % 8 : role), dashed: many && (validation || r >= 8), points: series.x.length < 60,
        smoothed: !rare && !exact.includes(name) && series.n >= 50 && shown.smoothing > 0, run, name,
      });
    }
  });
  return lines;
}

/* All lines over one ascending x: [x, y...], null where a line has no value. A log scale omits values of 0 and less. */
function align(columns) {
  const x = [...new Set(columns.flatMap((c) => c.x))].sort((a, b) => a - b);
  const index = new Map(x.map((v, i) => [v, i]));
  return [x, ...columns.map((c) => {
    const y = new Array(x.length).fill(null);
    c.x.forEach((v, i) => { if (!shown.log || c.y[i] > 0) y[index.get(v)] = c.y[i]; });
    return y;
  })];
}

function fade(hex, alpha) {
  const n = parseInt(hex.slice(1), 16);
  return "rgba(" + (n >> 16) + "," + ((n >> 8) & 255) + "," + (n & 255) + "," + alpha + ")";
}

function columnsOf(lines) {
  const columns = [], series = [{}], bands = [];
  for (const line of lines) {
    const c = color(line.color), y = line.series.y;
    const add = (values, options) => {
      columns.push({ x: line.x, y: values });
      series.push({ spanGaps: true, points: { show: false }, show: !line.hidden, ...options });
    };
    line.first = series.length;
    if (line.series.low) {
      add(line.series.high, { stroke: "transparent", width: 0 });
      add(line.series.low, { stroke: "transparent", width: 0 });
      bands.push({ series: [line.first, line.first + 1], fill: fade(c, 0.16) });
    }
    line.raw = series.length;
    if (line.smoothed) add(y, { stroke: fade(c, 0.35), width: 1 });
    add(line.smoothed ? smooth(y, shown.smoothing) : y, {
      stroke: c, width: 2, dash: line.dashed ? [6, 4] : undefined,
      points: { show: line.points && !line.smoothed, size: 5, fill: c, stroke: c },
    });
    line.end = series.length;
  }
  return { data: align(columns), series, bands };
}

const valueText = (name, y) => (name === "memory_bytes" ? bytes(y) : number(y));
const tickText = (name, y) => (name === "memory_bytes" ? bytes(y, 5) : short(y));

/* Steps between ticks of bytes: 1, 2, 4, ... */
const byteSteps = (name) => (name === "memory_bytes" ? Array.from({ length: 50 }, (_, i) => 2 ** i) : undefined);

/* Dashed lines where a run was continued. */
function drawRestarts(u) {
  const ctx = u.ctx;
  ctx.save();
  ctx.strokeStyle = color("--muted");
  ctx.setLineDash([3, 4]);
  for (const run of report.runs)
    for (const start of list(run, "starts").filter((s) => s.event === "resume")) {
      const x = convert(run, shown.axis, [start.step]);
      if (!x || x[0] < u.scales.x.min || x[0] > u.scales.x.max) continue;
      const at = Math.round(u.valToPos(x[0], "x", true)) + 0.5;
      ctx.beginPath();
      ctx.moveTo(at, u.bbox.top);
      ctx.lineTo(at, u.bbox.top + u.bbox.height);
      ctx.stroke();
    }
  ctx.restore();
}

/* One zoom for all charts. */
function zoomAll(from, min, max) {
  shown.zoom = min === null ? null : [min, max];
  for (const chart of charts)
    if (chart.plot && chart.plot !== from && !chart.zooming) {
      chart.zooming = true;
      const x = chart.plot.data[0];
      chart.plot.setScale("x", shown.zoom ? { min, max } : { min: x[0], max: lastOf(x) });
      chart.zooming = false;
    }
}

function showValues(chart, i) {
  for (const line of chart.lines) {
    const end = convert(line.run, shown.axis, [line.run.last_step]);
    if (i !== null && i !== undefined && end && chart.plot.data[0][i] > end[0]) { /* this run has ended before */
      line.value.textContent = "–";
      continue;
    }
    let k = i === null || i === undefined ? line.until : Math.min(i, line.until);
    while (k > 0 && line.plotted[k] === null) k--;
    line.value.textContent = valueText(line.name, k === line.until ? lastValue(line.run, line.name) : line.plotted[k]);
  }
  const x = i === null || i === undefined ? null : chart.plot.data[0][i];
  chart.at.textContent = x === null || x === undefined ? "" : shown.axis === "time" ? "after " + xText("time", x) :
    (shown.axis === "tokens" ? unitOf().replace(/s$/, "") : "step") + " " + count(x);
}

/* Wide enough for ticks of bytes to differ. */
function memoryRange(min, max) {
  const half = 0.6 * Math.max(max - min, 0.02 * max), middle = (min + max) / 2;
  return min === null ? [min, max] : [middle - half, middle + half];
}

/* From the first digit of the lowest value to that of the highest: 1.5 to 4.2 is drawn from 1 to 5. */
function logRange(min, max) {
  if (min === null) return [null, null];
  const low = 10 ** Math.floor(Math.log10(min)), high = 10 ** Math.floor(Math.log10(max));
  const from = Math.floor(min / low) * low, to = Math.ceil(max / high) * high;
  return [from, to > from ? to : from + low];
}

function options(chart, built, width) {
  const text = color("--muted"), grid = { stroke: color("--grid"), width: 1 };
  const font = "12px system-ui, 'Liberation Sans', 'DejaVu Sans', sans-serif";
  const name = chart.group.name;
  return {
    width, height: chart.wide ? 340 : 220, series: built.series, bands: built.bands, legend: { show: false },
    cursor: { sync: { key: "report" }, points: { size: 7 }, drag: { x: true, y: false } },
    scales: {
      x: { time: false, range: (u, min, max) => (min === max && min !== null ? [min - 1, max + 1] : [min, max]) },
      y: name === "memory_bytes" ? { range: (u, min, max) => memoryRange(min, max) }
        : shown.log ? { distr: 3, range: (u, min, max) => logRange(min, max) } : {},
    },
    axes: [
      { stroke: text, font, grid, ticks: grid, space: 64, size: 32, values: (u, all) => all.map((x) => xText(shown.axis, x)) },
      { stroke: text, font, grid, ticks: grid, incrs: byteSteps(name),
        size: (u, all) => Math.max(44, 18 + 7.7 * Math.max(0, ...(all || []).map((text) => text.length))),
        values: (u, all) => all.map((y) => (y === null ? "" : tickText(name, y))) },
    ],
    hooks: {
      draw: [drawRestarts],
      setCursor: [(u) => { if (chart.plot) showValues(chart, u.cursor.idx); }],
      setSelect: [(u) => {
        if (u.select.width > 4) zoomAll(u, u.posToVal(u.select.left, "x"), u.posToVal(u.select.left + u.select.width, "x"));
      }],
    },
  };
}

function legendButton(chart, line) {
  line.value = el("b");
  return el("button", {
    type: "button", "aria-pressed": "true", title: "show or hide " + line.label,
    onclick: (event) => {
      line.hidden = !line.hidden;
      event.currentTarget.setAttribute("aria-pressed", String(!line.hidden));
      for (let i = line.first; i < line.end; i++) chart.plot.setSeries(i, { show: !line.hidden });
    },
  }, el("span", { class: "swatch" + (line.dashed ? " dashed" : ""), style: "border-color: var(" + line.color + ")" }),
  el("span", { class: "name", text: line.label }), line.value);
}

/* Draw the chart again, over the axis, scale and smoothing that are set. */
function drawChart(chart) {
  if (chart.plot) chart.plot.destroy();
  chart.plot = null;
  chart.lines = linesOf(chart.group);
  chart.card.hidden = !chart.lines.length;
  if (!chart.lines.length) return;
  const built = columnsOf(chart.lines);
  chart.legend.replaceChildren(...chart.lines.map((line) => legendButton(chart, line)));
  for (const line of chart.lines) {
    line.plotted = built.data[line.raw];
    line.until = line.plotted.length - 1;
    while (line.until > 0 && line.plotted[line.until] === null) line.until--;
  }
  const plot = new uPlot(options(chart, built, chart.box.clientWidth || 400), built.data, chart.box);
  chart.plot = plot;
  plot.over.addEventListener("dblclick", () => zoomAll(plot, null, null));
  if (shown.zoom) plot.setScale("x", { min: shown.zoom[0], max: shown.zoom[1] });
  showValues(chart, null);
}

function drawCharts() {
  charts.forEach(drawChart);
}

function drawnSection() {
  const drawings = report.runs.filter((run) => run.curve).map((run) => el("img", { class: "curve", alt: "loss of " + run.name, width: "100%",
    src: "data:image/svg+xml," + encodeURIComponent(run.curve) }));
  return el("section", { class: "card", "aria-label": "curves" }, ...drawings, el("p", { class: "muted small",
    text: "This levin was built without uPlot, which draws all curves: install it (tools/setup.sh) and build levin again. " +
      "The values of all steps are in metrics.csv in the folder of the run." }));
}

function chartSection() {
  const section = el("section", { class: "charts", "aria-label": "curves" });
  const groups = chartGroups();
  groups.forEach((group, i) => {
    const chart = { group, wide: i === 0, plot: null, lines: [] };
    const unit = group.name === "tokens_per_s" ? unitOf() + " per second" : units[group.name];
    chart.at = el("span", { class: "muted small" });
    chart.legend = el("div", { class: "legend" });
    chart.box = el("div", { class: "plot" });
    chart.card = el("div", { class: "card" + (chart.wide ? " wide" : "") },
      el("header", {}, el("h3", { text: title(group.name) }),
        unit ? el("span", { class: "muted small", text: unit }) : null, chart.at),
      chart.legend, chart.box);
    section.append(chart.card);
    charts.push(chart);
  });
  new ResizeObserver(() => {
    for (const chart of charts)
      if (chart.plot && Math.abs(chart.box.clientWidth - chart.plot.width) > 1)
        chart.plot.setSize({ width: chart.box.clientWidth, height: chart.wide ? 340 : 220 });
  }).observe(section);
  return section;
}
