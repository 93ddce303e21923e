/* tables.js - what is known of a run besides its curves: facts, settings, machine, samples, confusion matrix. */
function fact(name, value, more) {
  return el("div", {}, el("dt", { text: name }), el("dd", { text: value }, more ? el("small", { text: more }) : null));
}

/* The last point of a thinned series is a mean. */
function lastValue(run, name) {
  const s = run.series[name];
  return s ? (s.last === undefined ? lastOf(s.y) : s.last) : null;
}
function bestOf(run, name, higher) {
  const s = run.series[name];
  if (!s || !s.x.length) return null;
  let best = 0;
  const y = higher ? s.high || s.y : s.low || s.y;
  y.forEach((v, i) => { if (higher ? v > y[best] : v < y[best]) best = i; });
  return { value: y[best], step: s.x[best] };
}
function duration(run) {
  const time = run.series.time;
  return time && time.x.length ? lastOf(time.high || time.y) : null;
}

function facts(run) {
  const start = startOf(run), best = bestOf(run, "val_loss", false);
  const rate = run.series.tokens_per_s, at = best ? "at step " + count(best.step) : null;
  const box = el("dl", { class: "facts" });
  box.append(fact("steps", count(run.last_step), start.max_steps ? "of " + count(start.max_steps) : null));
  if (run.series.loss) box.append(fact("last loss", number(lastValue(run, "loss"))));
  if (best) box.append(fact("best validation loss", number(best.value), at));
  for (const name of Object.keys(run.series).filter((n) => n.startsWith("val_") && n !== "val_loss").slice(0, 3))
    box.append(fact("validation " + name.slice(4), number(lastValue(run, name)), "last"));
  if (duration(run) !== null) box.append(fact("duration", seconds(duration(run)), "from first to last step"));
  if (rate) box.append(fact(unitOf() + " a second", count(rate.y.reduce((a, b) => a + b, 0) / rate.y.length), "mean"));
  if (run.series.memory_bytes) box.append(fact("memory", bytes(lastValue(run, "memory_bytes")), "of a rank, mean"));
  if (start.parameters)
    box.append(fact("parameters", short(start.parameters),
      start.trained !== start.parameters ? short(start.trained) + " trained" : null));
  return box;
}

function table(heads, rows, classes) {
  const cell = (tag, x, i) => (x instanceof Node ? el(tag, { class: classes[i] }, x) : el(tag, { class: classes[i], text: x }));
  return el("div", { class: "scroll" }, el("table", {},
    el("thead", {}, el("tr", {}, ...heads.map((h, i) => cell("th", h, i)))),
    el("tbody", {}, ...rows.map((row) => el("tr", {}, ...row.map((x, i) => cell("td", x, i)))))));
}

/* --- settings --- */

/* A key, which may be broken after its dots and underscores. */
const breakable = (tag, text) => el(tag, {}, ...text.match(/[^._]*[._]|[^._]+/g).flatMap((word) => [word, el("wbr")]));
const keyCell = (key) => breakable("code", key);
/* A long value scrolls in its cell. */
const valueCell = (value) => (value.length > 300 ? el("div", { class: "long", tabindex: 0, text: value }) : value);

function settingsSection(run) {
  const rows = settingsOf(run), differing = rows.filter(([, value, usual]) => value !== usual);
  const same = rows.length - differing.length;
  const shownRows = differing.map(([key, value, usual, origin]) => [keyCell(key), valueCell(value), valueCell(usual || "(none)"), breakable("span", origin)]);
  return el("section", { class: "card settings" }, el("h2", { text: "Settings that differ from their defaults" }),
    differing.length ? table(["key", "value", "default", "from"], shownRows, ["key", "value", "value muted", "value muted"]) :
      el("p", { class: "muted", text: "none is known" }),
    same ? el("p", { class: "muted small", text: same + " more were given or derived, and equal their defaults" }) : null,
    run.settings_text ? el("details", {}, el("summary", { text: "settings.yaml" }), el("pre", { text: run.settings_text })) : null);
}

/* --- machine --- */

function machineSection(run) {
  const start = startOf(run), rows = [], hosts = [...new Set(start.host || [])];
  const add = (name, value) => { if (value !== undefined && value !== null && value !== "") rows.push([name, String(value)]); };
  add("ranks", start.ranks ? start.ranks + " on " + start.hosts + (start.hosts === 1 ? " host" : " hosts") : null);
  add("hosts", hosts.slice(0, 20).join(", ") + (hosts.length > 20 ? " and " + (hosts.length - 20) + " more" : ""));
  add("processor", start.cpu);
  add("device", start.device);
  add("instructions", start.isa);
  add("threads of a rank", start.threads);
  add("memory of the host", start.memory ? bytes(start.memory) : null);
  add("batch", start.batch_size ? start.batch_size + " in micro-batches of " + start.micro_batch_size : null);
  add("data", start.train_tokens ? count(start.train_tokens) + " tokens to train, " + count(start.val_tokens) + " to validate" :
    start.train_samples ? count(start.train_samples) + " samples to train, " + count(start.val_samples) + " to validate" : null);
  add("last sign of life", run.written ? date(run.written) : null);
  add("fault", run.status.fault);
  const ranks = run.status.ranks || [];
  return el("section", { class: "card" }, el("h2", { text: "Machine" }),
    rows.length ? table(["", ""], rows, ["key muted", "value"]) : el("p", { class: "muted", text: "not known" }),
    ranks.length ? el("details", {}, el("summary", { text: "Ranks (" + run.status.n_ranks + ")" }),
      table(["rank", "host", "state", "step", "rate", "compute", "memory"],
        ranks.map((r) => [r.rank, r.host, r.state, r.step, count(r.tokens_per_s), seconds(r.compute_s), bytes(r.memory_bytes || 0)])
          .map((row) => row.map(String)), ["number", "", "", "number", "number", "number", "number"])) : null);
}

function attemptsSection(run) {
  const starts = list(run, "starts"), resumed = list(run, "resumed");
  if (starts.length < 2) return null;
  const rows = starts.map((start, i) => {
    const until = starts[i + 1] ? starts[i + 1].time : Infinity;
    const first = resumed.find((r) => r.time >= start.time && r.time < until) || {};
    return [String(i + 1), date(start.time), count(start.step), start.ranks ? String(start.ranks) : "–",
      start.goodput ? (100 * start.goodput).toFixed(1) + " %" : "–", seconds(first.restart_seconds)];
  });
  return el("section", { class: "card" }, el("h2", { text: "Attempts" }),
    table(["", "begun", "at step", "ranks", "goodput", "restart took"], rows,
      ["number", "key", "number", "number", "number", "number"]));
}

/* --- samples --- */

function samplesSection(run) {
  const samples = list(run, "samples");
  if (!samples.length) return null;
  const text = el("pre"), label = el("span", { class: "muted" });
  const choose = (i) => {
    label.textContent = "step " + count(samples[i].step) + ", " + date(samples[i].time);
    text.replaceChildren(el("span", { class: "prompt", text: samples[i].prompt || "", title: "the prompt" }), samples[i].text || "");
  };
  choose(samples.length - 1);
  return el("section", { class: "card" }, el("h2", { text: "Samples" }), el("div", { class: "runs" },
    el("label", {}, el("input", { type: "range", min: 0, max: samples.length - 1, value: samples.length - 1,
      "aria-label": "which sample", oninput: (event) => choose(Number(event.target.value)) })), label), text);
}

/* --- confusion matrix --- */

function matrixTable(event) {
  const matrix = event.confusion, names = event.classes || [], n = matrix.length;
  const name = (k) => (/^LABEL_\d+$/.test(names[k] || "") ? String(k) : names[k] || String(k));
  const sum = (array) => array.reduce((a, b) => a + b, 0), percent = (x, of) => (of ? (100 * x / of).toFixed(1) + " %" : "–");
  const rows = matrix.map((row, k) => {
    const all = sum(row);
    return el("tr", {}, el("th", { scope: "row", text: name(k) }), ...row.map((x, j) => {
      const share = all ? x / all : 0;
      return el("td", { style: "background: rgba(var(--heat)," + (0.5 * share).toFixed(3) + ")",
        title: name(k) + " predicted as " + name(j) + ": " + count(x) + " (" + percent(x, all) + ")", text: count(x) });
    }), n > 20 ? null : el("td", { class: "muted", text: percent(row[k], all) }));
  });
  const precision = n > 20 ? null : el("tr", {}, el("th", { scope: "row", text: "precision" }),
    ...matrix.map((_, j) => el("td", { class: "muted", text: percent(matrix[j][j], sum(matrix.map((row) => row[j]))) })), el("td"));
  return el("div", { class: "scroll" }, el("table", { class: "confusion" + (n > 12 ? " dense" : "") },
    el("thead", {}, el("tr", {}, el("th", { text: "true \\ predicted" }), ...matrix.map((_, j) => el("th", { scope: "col", text: name(j) })),
      n > 20 ? null : el("th", { text: "recall" }))),
    el("tbody", {}, ...rows, precision)));
}

function confusionSection(run) {
  const last = run.events.validation, best = run.events.best;
  const has = (e) => e && Array.isArray(e.confusion) && e.confusion.every(Array.isArray);
  if (!has(last)) return null;
  const section = el("section", { class: last.confusion.length > 5 ? "card whole" : "card" }, el("h2", { text: "Confusion matrix" }));
  const add = (event, word) => section.append(el("p", { class: "muted small", text: word + ", step " + count(event.step) +
    (event.val_accuracy !== undefined ? ", accuracy " + number(event.val_accuracy) : "") }), matrixTable(event));
  add(last, "last validation");
  if (has(best) && best.step !== last.step) add(best, "best validation");
  return section;
}
