/* data.js - the report's data, and how numbers, times and nodes are made. Texts of runs become text nodes only.
 *
 * {generated, version, notes (optional), runs: [{name, path, state, written, last_step, problems, settings_text,
 *    settings: [[key, value, default, origin]]        of runs without events
 *    status: {step, time, fault, goodput, ranks: [...], n_ranks},
 *    events: {starts: [...], notes, samples, checkpoints, ends, resumed, validation, best},
 *    time_base, series: {name: {n, x: [steps], y: [means], low, high, last}}}]} */
const report = JSON.parse(document.getElementById("data").textContent);
/* A scalar may have the name of something that every object has. */
const plain = (object) => Object.assign(Object.create(null), object);
for (const run of report.runs) run.series = plain(run.series);

function el(tag, attributes, ...children) {
  const node = document.createElement(tag);
  for (const [key, value] of Object.entries(attributes || {})) {
    if (key === "text") node.textContent = value;
    else if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
    else if (value !== null && value !== undefined && value !== false) node.setAttribute(key, value);
  }
  for (const child of children) if (child !== null && child !== undefined) node.append(child);
  return node;
}

const list = (run, name) => run.events[name] || [];
const lastOf = (array) => array[array.length - 1];
const startOf = (run) => lastOf(list(run, "starts")) || {};
const settingsOf = (run) => startOf(run).settings || run.settings;
const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

function number(x) {
  if (x === null || x === undefined || !isFinite(x)) return "–";
  const size = Math.abs(x);
  if (x === 0) return "0";
  if (size >= 1e5 || size < 1e-3) return x.toExponential(2).replace("e+", "e");
  return size >= 1000 ? Math.round(x).toString() : parseFloat(x.toPrecision(4)).toString();
}
function count(x) {
  return x === null || x === undefined ? "–" : Math.round(x).toString().replace(/\B(?=(\d{3})+$)/g, ",");
}
function short(x) {
  const size = Math.abs(x);
  for (const [unit, letter] of [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]])
    if (size >= unit) return parseFloat((x / unit).toPrecision(3)) + letter;
  return size && size < 1e-3 ? x.toExponential(0) : parseFloat(x.toPrecision(4)).toString();
}
function bytes(x, digits = 3) {
  for (const [unit, word] of [[2 ** 40, "TiB"], [2 ** 30, "GiB"], [2 ** 20, "MiB"], [1024, "KiB"]])
    if (x >= unit) return parseFloat((x / unit).toPrecision(digits)) + " " + word;
  return Math.round(x) + " B";
}
function seconds(s) {
  if (s === null || s === undefined || !isFinite(s)) return "–";
  if (s < 60) return parseFloat(s.toPrecision(3)) + " s";
  const m = Math.floor(s / 60), h = Math.floor(m / 60), d = Math.floor(h / 24);
  if (m < 60) return m + " min " + Math.floor(s % 60) + " s";
  return h < 48 ? h + " h " + (m % 60) + " min" : d + " d " + (h % 24) + " h";
}
function date(s) {
  if (!s) return "–";
  const d = new Date(s * 1000), two = (x) => String(x).padStart(2, "0");
  return d.getFullYear() + "-" + two(d.getMonth() + 1) + "-" + two(d.getDate()) + " " + two(d.getHours()) + ":" +
    two(d.getMinutes()) + ":" + two(d.getSeconds());
}

/* --- the x axis: steps become tokens, or seconds since the first row --- */

const unitOf = () => startOf(report.runs[0]).unit || "tokens";
function perStep(run) {
  const start = startOf(run);
  return start.batch_size ? start.batch_size * (start.unit === "samples" ? 1 : start.block_size || 1) : null;
}
/* Seconds after the first row at each of these steps, in order. */
function timesAt(run, steps) {
  const time = run.series.time;
  if (!time || !time.x.length) return null;
  const y = time.high || time.y;
  let i = 0;
  return steps.map((step) => {
    while (i < time.x.length - 1 && time.x[i] < step) i++;
    if (i === 0 || time.x[i] <= step) return y[i];
    const part = (step - time.x[i - 1]) / (time.x[i] - time.x[i - 1]);
    return y[i - 1] + part * (y[i] - y[i - 1]);
  });
}
/* null: this run does not know it. */
function convert(run, axis, steps) {
  if (axis === "time") return timesAt(run, steps);
  if (axis === "tokens") return perStep(run) ? steps.map((step) => step * perStep(run)) : null;
  return steps;
}
const xText = (axis, x) => (axis === "time" ? seconds(x) : short(x));
