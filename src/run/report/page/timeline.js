/* timeline.js - what happened when: a lane for each kind of event, and the list of all of them. */
const lanes = [
  ["restarts", "--c1", (run) => list(run, "starts").filter((s) => s.event === "resume")],
  ["notes", "--c4", (run) => list(run, "notes")],
  ["checkpoints", "--c2", (run) => list(run, "checkpoints")],
  ["samples", "--c3", (run) => list(run, "samples")],
  ["ends", "--c7", (run) => list(run, "ends")],
];
const words = { start: "start", resume: "restart", note: "note", checkpoint: "checkpoint", sample: "sample", end: "end",
  resumed: "first step after the restart" };

function eventText(event) {
  if (event.event === "start") return "begun by levin " + (event.version || "?");
  if (event.event === "resume")
    return "continued by levin " + (event.version || "?") + (event.checkpoint ? " from " + event.checkpoint : "") +
      (event.goodput ? "; goodput " + (100 * event.goodput).toFixed(1) + " %" : "");
  if (event.event === "resumed")
    return (event.restart_seconds ? "the restart took " + seconds(event.restart_seconds) : "") +
      (event.goodput ? ", goodput " + (100 * event.goodput).toFixed(1) + " %" : "");
  return event.text || "";
}

function svg(tag, attributes, ...children) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  node.append(...children);
  return node;
}

/* A mark is a diamond of its lane's color, with its text as a tooltip; the text of the one that was clicked is shown below. */
function mark(x, y, name, event, told) {
  const text = words[event.event] + " at step " + count(event.step) + ", " + date(event.time) + ": " + eventText(event);
  const node = svg("path", { class: "mark", d: "M" + x + "," + (y - 6) + "l6,6l-6,6l-6,-6z", fill: "var(" + name + ")" });
  const tip = svg("title", {});
  tip.textContent = text.slice(0, 400);
  node.append(tip);
  node.addEventListener("click", () => { told.textContent = text; });
  return node;
}

function axisStep(span, most) {
  const power = 10 ** Math.floor(Math.log10(span / most)), x = span / most / power;
  return (x <= 1 ? 1 : x <= 2 ? 2 : x <= 5 ? 5 : 10) * power;
}

function drawTimeline(run, box, told) {
  const width = Math.max(box.clientWidth, 200), left = 6, right = 14, gap = 34;
  const used = lanes.map(([name, c, of]) => [name, c, of(run)]).filter(([, , events]) => events.length);
  const steps = [run.last_step, 1, ...used.flatMap(([, , events]) => events.map((e) => e.step))];
  const most = convert(run, shown.axis, [Math.max(...steps)]);
  if (!most || !used.length) {
    box.replaceChildren(el("p", { class: "muted", text: "no events" }));
    return;
  }
  const height = used.length * gap + 24, end = most[0] || 1;
  const at = (x) => left + 8 + (x / end) * (width - left - right - 16);
  const picture = svg("svg", { height, width, role: "img", "aria-label": "events over the run; they are listed below" });
  used.forEach(([name, c, events], lane) => {
    const y = lane * gap + 24;
    const word = svg("text", { x: left, y: y - 11 });
    word.textContent = name + " (" + events.length + ")";
    picture.append(word, svg("line", { x1: left, x2: width - right, y1: y, y2: y, stroke: "var(--line)" }));
    const x = convert(run, shown.axis, events.map((e) => e.step));
    events.forEach((event, i) => picture.append(mark(Math.round(at(x[i])), y, c, event, told)));
  });
  const step = axisStep(end, Math.max(2, Math.floor(width / 110)));
  for (let x = 0; x <= end * 1.001; x += step) {
    const tick = svg("text", { x: at(x), y: height - 3, "text-anchor": at(x) > width - 40 ? "end" : x ? "middle" : "start" });
    tick.textContent = xText(shown.axis, x);
    picture.append(tick);
  }
  box.replaceChildren(picture);
}

function eventList(run) {
  const all = ["starts", "resumed", "notes", "checkpoints", "samples", "ends"].flatMap((name) => list(run, name));
  all.sort((a, b) => (a.time || 0) - (b.time || 0));
  const rows = all.map((event) => el("tr", {}, el("td", { class: "key", text: date(event.time) }),
    el("td", { class: "number", text: count(event.step) }), el("td", { class: "key", text: words[event.event] }),
    el("td", { class: "text", text: eventText(event).slice(0, 300) })));
  return el("details", {}, el("summary", { text: "All events (" + all.length + ")" }), el("div", { class: "scroll" },
    el("table", {}, el("thead", {}, el("tr", {}, el("th", { text: "time" }), el("th", { class: "number", text: "step" }),
      el("th", { text: "event" }), el("th", {}))), el("tbody", {}, ...rows))));
}

function timelineSection(run) {
  const box = el("div"), told = el("p", { class: "small", "aria-live": "polite", style: "white-space: pre-wrap" });
  const section = el("section", { class: "card timeline" }, el("h2", { text: "Time line" }), box, told, eventList(run));
  section.draw = () => drawTimeline(run, box, told);
  return section;
}
