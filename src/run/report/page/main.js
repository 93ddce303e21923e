/* main.js - puts the report together: head, comparison, controls, curves, and the sections of the run that is chosen. */
function stateOf(run) {
  return el("span", { class: "state " + run.state, text: run.state });
}

function headSection() {
  const runs = report.runs, one = runs.length === 1 ? runs[0] : null;
  document.title = (one ? one.name : runs.length + " runs") + " – levin report";
  return el("header", {}, el("h1", { text: one ? one.name : runs.length + " runs" }), one ? stateOf(one) : null,
    el("p", { class: "muted small", text: (one ? one.path + " · " : "") + "drawn " + date(report.generated) + " by levin " +
      report.version }));
}

function notesSection() {
  return report.notes ? el("section", { class: "card" }, el("h2", { text: "Notes" }), el("pre", { text: report.notes })) : null;
}

function problemsSection() {
  const all = report.runs.flatMap((run) => run.problems.split("\n").filter((p) => p));
  if (!all.length) return null;
  return el("section", { class: "card problems", role: "note" }, el("h2", { text: "What could not be read" }),
    el("ul", {}, ...all.map((p) => el("li", { text: p }))));
}

/* --- several runs --- */

function nameCell(run, r) {
  return el("span", {}, el("span", { class: "swatch" + (r >= 8 ? " dashed" : ""),
    style: "display: inline-block; vertical-align: middle; margin-right: 6px; border-color: var(--c" + (r % 8) + ")" }), run.name);
}

function comparison() {
  const metrics = [...new Set(report.runs.flatMap((run) => Object.keys(run.series)))]
    .filter((n) => n.startsWith("val_") && n !== "val_loss").slice(0, 6);
  const rows = report.runs.map((run, r) => {
    const best = bestOf(run, "val_loss", false), rate = run.series.tokens_per_s;
    return [nameCell(run, r), run.state, count(run.last_step), number(lastValue(run, "loss")), best ? number(best.value) : "–",
      ...metrics.map((m) => number(lastValue(run, m))), seconds(duration(run)),
      rate ? count(rate.y.reduce((a, b) => a + b, 0) / rate.y.length) : "–"];
  });
  const classes = ["value", "", ...new Array(metrics.length + 5).fill("number")];
  return el("section", { class: "card" }, el("h2", { text: "Runs" }), table(["run", "state", "steps", "last loss", "best val_loss",
    ...metrics, "duration", unitOf() + "/s"], rows, classes));
}

/* Keys whose values are not the same in all runs. A run that was not given a key has its default. */
function differences() {
  const maps = report.runs.map((run) => new Map(settingsOf(run).map(([key, value]) => [key, value])));
  const usual = new Map(report.runs.flatMap((run) => settingsOf(run).map(([key, , value]) => [key, value])));
  const value = (map, key) => (map.has(key) ? map.get(key) : usual.get(key));
  const keys = [...usual.keys()].filter((key) => key !== "name" && key !== "run_dir" &&
    new Set(maps.map((map) => value(map, key))).size > 1);
  const rows = keys.map((key) => [keyCell(key), ...maps.map((map) =>
    el("span", { class: map.has(key) ? "" : "muted" }, valueCell(value(map, key) || "(none)")))]);
  return el("section", { class: "card" }, el("h2", { text: "Settings that differ between the runs" }),
    rows.length ? table(["key", ...report.runs.map(nameCell)], rows, ["key", ...report.runs.map(() => "value")]) :
      el("p", { class: "muted", text: "none" }));
}

/* --- controls; the address contains what is chosen, so that it outlives a reload --- */

function readAddress() {
  const asked = new URLSearchParams(location.hash.slice(1));
  if (["steps", "tokens", "time"].includes(asked.get("x"))) shown.axis = asked.get("x");
  shown.log = asked.get("log") === "1";
  const weight = parseFloat(asked.get("smooth"));
  if (weight >= 0 && weight < 1) shown.smoothing = weight;
  shown.live = asked.get("live") === "1";
}
function writeAddress() {
  history.replaceState(null, "", "#x=" + shown.axis + "&log=" + (shown.log ? 1 : 0) + "&smooth=" + shown.smoothing +
    (shown.live ? "&live=1" : ""));
}

function controls(redraw) {
  const change = () => { writeAddress(); redraw(); };
  const choice = el("span", { class: "choice", role: "group", "aria-label": "x axis" });
  for (const axis of ["steps", "tokens", "time"]) {
    if (!report.runs.some((run) => convert(run, axis, [0]))) continue;
    choice.append(el("button", { type: "button", "aria-pressed": String(axis === shown.axis),
      text: axis === "tokens" ? unitOf() : axis, onclick: (event) => {
        shown.axis = axis;
        shown.zoom = null;
        for (const b of choice.children) b.setAttribute("aria-pressed", String(b === event.currentTarget));
        change();
      } }));
  }
  const weight = el("output", { text: String(shown.smoothing) });
  const slider = el("input", { type: "range", min: 0, max: 0.99, step: 0.01, value: shown.smoothing, oninput: (event) => {
    shown.smoothing = Number(event.target.value);
    weight.textContent = String(shown.smoothing);
    change();
  } });
  const box = (name, key) => {
    const input = el("input", { type: "checkbox", onchange: (event) => { shown[key] = event.target.checked; change(); } });
    input.checked = Boolean(shown[key]);
    return el("label", {}, input, name);
  };
  const live = report.runs.some((run) => run.state === "running") ? box("reload", "live") : null;
  return el("div", { class: "card controls" }, choice, box("log scale", "log"), el("label", {}, "smoothing", slider, weight), live,
    el("span", { class: "muted small", text: "drag to zoom, double click to return" }));
}

function detailsOf(run) {
  const timeline = timelineSection(run);
  const box = el("div", {}, timeline, el("div", { class: "pair" }, confusionSection(run), samplesSection(run)),
    el("div", { class: "pair" }, settingsSection(run), el("div", {}, machineSection(run), attemptsSection(run))));
  return { box, draw: timeline.draw };
}

function main() {
  readAddress();
  const runs = report.runs, page = document.getElementById("report"), place = el("div");
  let details;
  const choose = (run) => {
    details = detailsOf(run);
    place.replaceChildren(details.box);
    details.draw();
  };
  const redraw = () => { drawCharts(); details.draw(); };
  page.append(headSection());
  for (const section of [notesSection(), problemsSection(), runs.length === 1 ? facts(runs[0]) : comparison(),
    runs.length === 1 ? null : differences(), ...(window.uPlot ? [controls(redraw), chartSection()] : [drawnSection()])]) if (section) page.append(section);
  if (runs.length > 1)
    page.append(el("p", { class: "card runs" }, el("label", { for: "run", text: "More of" }), el("select", { id: "run",
      onchange: (event) => choose(runs[Number(event.target.value)]) },
    ...runs.map((run, i) => el("option", { value: i, text: run.name })))));
  page.append(place);
  drawCharts();
  choose(runs[0]);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
  let width = innerWidth;
  addEventListener("resize", () => { if (innerWidth !== width) { width = innerWidth; details.draw(); } });
  setInterval(() => { if (shown.live) location.reload(); }, 10000);
}
main();
