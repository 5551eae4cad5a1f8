// Draws DATA, which stands before this: see html.rs.
const LANE = 34, BAR = 22, LEFT = 120, TOP = 46, MOST_ARROWS = 4000;
const EDGE_COLOURS = ["#1565c0", "#e65100", "#6a1b9a"], EDGE_NAMES = ["steal", "wake", "result"];
const PHASES = ["first hand-off", "ramp-up", "full parallelism", "catch-up", "result hand-off", "unattributed"];
const PHASE_COLOURS = ["#90caf9", "#ffcc80", "#a5d6a7", "#ef9a9a", "#ce93d8", "#eeeeee"];

function decode(text, Type) {
  const raw = atob(text), bytes = new Uint8Array(raw.length);
  for (let i = 0; i < raw.length; i++) bytes[i] = raw.charCodeAt(i);
  return new Type(bytes.buffer);
}

const lanes = DATA.lanes.map(l => ({
  name: l.name, dropped: l.dropped, t: decode(l.t, Float64Array), s: decode(l.s, Uint8Array),
  k: decode(l.k, Uint32Array), qt: decode(l.qt, Float64Array), q: decode(l.q, Uint16Array),
}));
for (const lane of lanes) {
  lane.most = 1;
  for (const q of lane.q) if (q > lane.most) lane.most = q;
}
const edges = {
  kind: decode(DATA.edges.kind, Uint8Array), lane: decode(DATA.edges.lane, Uint32Array),
  t: decode(DATA.edges.t, Float64Array),
};
const regions = DATA.regions.map(([name, start, ...parts]) =>
  ({ name, start, parts, end: start + parts.reduce((a, b) => a + b, 0) }));
const SPAN = Math.max(DATA.span, 1), CLOSEST = 20;

const $ = id => document.getElementById(id);
const canvas = $("view"), context = canvas.getContext("2d"), tip = $("tip");
let view = { from: 0, to: SPAN }, width = 0, queued = false;

// --- time and places ---

const x = t => LEFT + (t - view.from) / (view.to - view.from) * (width - LEFT);
const timeAt = px => view.from + (px - LEFT) / (width - LEFT) * (view.to - view.from);

/** The number of values in `a`, which ascends, that are at most `t`. */
function upTo(a, t) {
  let low = 0, high = a.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (a[middle] <= t) low = middle + 1; else high = middle;
  }
  return low;
}

function human(ns) {
  const a = Math.abs(ns);
  if (a < 1e3) return ns.toFixed(0) + " ns";
  if (a < 1e6) return (ns / 1e3).toFixed(a < 1e4 ? 2 : 1) + " us";
  if (a < 1e9) return (ns / 1e6).toFixed(a < 1e7 ? 3 : 1) + " ms";
  return (ns / 1e9).toFixed(3) + " s";
}

function look(from, to) {
  let span = Math.min(Math.max(to - from, CLOSEST), SPAN);
  from = Math.min(Math.max(from, 0), SPAN - span);
  view = { from, to: from + span };
  if (!queued) { queued = true; requestAnimationFrame(draw); }
}

function zoom(factor, at) {
  const t = Math.min(Math.max(at, view.from), view.to);
  look(t - (t - view.from) * factor, t + (view.to - t) * factor);
}

function move(part) {
  const by = (view.to - view.from) * part;
  look(view.from + by, view.to + by);
}

// --- drawing ---

function draw() {
  queued = false;
  const began = performance.now(), scale = window.devicePixelRatio || 1;
  width = canvas.clientWidth;
  const height = TOP + lanes.length * LANE + 6;
  canvas.style.height = height + "px";
  if (canvas.width !== Math.round(width * scale) || canvas.height !== Math.round(height * scale)) {
    canvas.width = Math.round(width * scale);
    canvas.height = Math.round(height * scale);
  }
  context.setTransform(scale, 0, 0, scale, 0, 0);
  context.clearRect(0, 0, width, height);
  context.font = "12px system-ui, sans-serif";
  context.textBaseline = "middle";
  drawRegions(height);
  drawAxis();
  lanes.forEach(drawLane);
  if ($("queues").checked) lanes.forEach(drawQueue);
  const arrows = $("arrows").checked ? drawArrows() : "";
  context.fillStyle = "#fff";
  context.fillRect(0, TOP, LEFT - 1, height);
  context.fillStyle = "#222";
  lanes.forEach((lane, i) => {
    const name = lane.name.length > 17 ? lane.name.slice(0, 16) + "…" : lane.name;
    context.fillText(name, 6, TOP + i * LANE + BAR / 2);
  });
  $("status").textContent = human(view.from) + " to " + human(view.to) + " (" +
    human(view.to - view.from) + "), drawn in " + (performance.now() - began).toFixed(0) + " ms" + arrows;
}

function drawRegions(height) {
  let labelled = -Infinity;
  for (const region of regions) {
    if (region.end < view.from || region.start > view.to) continue;
    let t = region.start;
    region.parts.forEach((part, i) => {
      const a = Math.max(x(t), LEFT), b = Math.min(x(t + part), width);
      if (b > a) {
        context.fillStyle = PHASE_COLOURS[i];
        context.fillRect(a, 2, Math.max(b - a, 0.5), 16);
        context.fillStyle = PHASE_COLOURS[i] + "30";
        if (b - a > 2) context.fillRect(a, TOP, b - a, height - TOP);
        context.fillStyle = "#222";
        if (b - a > 7 * PHASES[i].length) context.fillText(PHASES[i], a + 3, 10);
      }
      t += part;
    });
    const a = Math.max(x(region.start), LEFT);
    if (a > labelled && x(region.end) - a > 20) {
      context.fillStyle = "#555";
      context.fillText(region.name, a, 25);
      labelled = a + context.measureText(region.name).width + 8;
    }
  }
}

function drawAxis() {
  const goal = (view.to - view.from) / Math.max((width - LEFT) / 110, 1);
  const power = Math.pow(10, Math.floor(Math.log10(goal)));
  const step = [1, 2, 5, 10].map(m => m * power).find(s => s >= goal) || 10 * power;
  context.fillStyle = "#666";
  context.strokeStyle = "#ddd";
  context.beginPath();
  for (let t = Math.ceil(view.from / step) * step; t <= view.to; t += step) {
    const at = x(t);
    context.moveTo(at, 34); context.lineTo(at, TOP - 4);
    context.fillText(human(t), at + 2, 37);
  }
  context.stroke();
}

/** Segments narrower than a pixel are merged: each pixel shows the state that it was in the longest. */
function drawLane(lane, row) {
  const { t, s } = lane, y = TOP + row * LANE, perPixel = (view.to - view.from) / (width - LEFT);
  const spent = new Float64Array(DATA.states.length);
  let pixel = -1;
  const flush = () => {
    if (pixel < 0) return;
    let most = 0;
    for (let i = 1; i < spent.length; i++) if (spent[i] > spent[most]) most = i;
    if (most > 0) paint(most, pixel, 1);
    spent.fill(0);
    pixel = -1;
  };
  const paint = (state, from, pixels) => {
    context.fillStyle = DATA.states[state][1];
    context.fillRect(from, y, pixels, BAR);
  };
  for (let i = Math.max(upTo(t, view.from) - 1, 0); i < t.length && t[i] < view.to; i++) {
    const from = Math.max(t[i], view.from), to = Math.min(i + 1 < t.length ? t[i + 1] : SPAN, view.to);
    if (to <= from) continue;
    const a = x(from), at = Math.floor(a);
    if (to - from < perPixel) {
      if (at !== pixel) { flush(); pixel = at; }
      spent[s[i]] += to - from;
      continue;
    }
    flush();
    if (s[i] === 0) continue;
    const b = x(to);
    paint(s[i], a, b - a);
    if (b - a > 4) {
      context.strokeStyle = "rgba(0,0,0,0.25)";
      context.strokeRect(a + 0.5, y + 0.5, b - a - 1, BAR - 1);
    }
  }
  flush();
}

function drawQueue(lane, row) {
  const { qt, q } = lane, y = TOP + row * LANE + LANE - 2, room = LANE - BAR - 4;
  if (!q.length) return;
  context.fillStyle = "#37474f";
  let i = Math.max(upTo(qt, view.from) - 1, 0);
  while (i < qt.length && qt[i] < view.to) {
    const a = Math.max(x(qt[i]), LEFT);
    let high = q[i], next = i + 1;
    while (next < qt.length && x(qt[next]) < a + 1) { if (q[next] > high) high = q[next]; next++; }
    const b = Math.min(next < qt.length ? x(qt[next]) : x(SPAN), width);
    const tall = room * high / lane.most;
    context.fillRect(a, y - tall, Math.max(b - a, 1), tall);
    i = next;
  }
}

function drawArrows() {
  const { kind, lane, t } = edges;
  const seen = [];
  for (let i = 0; i < kind.length && seen.length <= MOST_ARROWS; i++) {
    if (t[2 * i] > view.to) break;
    if (t[2 * i + 1] >= view.from) seen.push(i);
  }
  if (seen.length > MOST_ARROWS) return ", too many arrows: zoom in";
  const middle = row => TOP + row * LANE + BAR / 2;
  for (const i of seen) {
    const a = x(t[2 * i]), b = x(t[2 * i + 1]), from = middle(lane[2 * i]), to = middle(lane[2 * i + 1]);
    context.strokeStyle = context.fillStyle = EDGE_COLOURS[kind[i]];
    context.beginPath();
    context.moveTo(a, from); context.lineTo(b, to);
    context.stroke();
    const angle = Math.atan2(to - from, b - a);
    context.beginPath();
    context.moveTo(b, to);
    for (const turn of [2.7, -2.7]) context.lineTo(b + 7 * Math.cos(angle + turn), to + 7 * Math.sin(angle + turn));
    context.fill();
  }
  return ", " + seen.length + " arrows";
}

// --- pointing ---

function describe(px, py) {
  const t = timeAt(px), row = Math.floor((py - TOP) / LANE);
  if (px < LEFT || row >= lanes.length) return "";
  if (py < TOP) {
    const region = regions.find(r => r.start <= t && t <= r.end);
    if (!region) return "";
    let at = region.start;
    const phases = region.parts.map((part, i) => {
      const here = at <= t && t < at + part;
      at += part;
      return (here ? "> " : "  ") + PHASES[i].padEnd(17) + human(part);
    });
    return region.name + ", " + human(region.end - region.start) + "\n" + phases.join("\n");
  }
  const lane = lanes[row], i = upTo(lane.t, t) - 1;
  if (i < 0) return lane.name + ": nothing recorded yet";
  const end = i + 1 < lane.t.length ? lane.t[i + 1] : SPAN, task = lane.k[i];
  let text = lane.name + ": " + DATA.states[lane.s[i]][0] + (task === 0xffffffff ? "" : ", task " + task) +
    "\n" + human(end - lane.t[i]) + ", from " + human(lane.t[i]);
  const q = upTo(lane.qt, t) - 1;
  if (q >= 0) text += "\nqueue: " + lane.q[q];
  return text;
}

canvas.addEventListener("wheel", event => {
  event.preventDefault();
  const by = event.deltaMode === 1 ? event.deltaY * 30 : event.deltaY;
  if (event.shiftKey) move(by / 800);
  else zoom(Math.exp(Math.max(-300, Math.min(300, by)) / 300), timeAt(event.offsetX));
}, { passive: false });
let drag = null;
canvas.addEventListener("pointerdown", event => {
  drag = { x: event.clientX, from: view.from, to: view.to };
  // A pointer that a script has made up cannot be captured.
  try { canvas.setPointerCapture(event.pointerId); } catch { /* it is dragged without */ }
});
canvas.addEventListener("pointerup", () => { drag = null; });
canvas.addEventListener("pointerleave", () => { tip.style.display = "none"; });
canvas.addEventListener("pointermove", event => {
  if (drag) {
    const by = (drag.x - event.clientX) / (width - LEFT) * (drag.to - drag.from);
    look(drag.from + by, drag.to + by);
    return;
  }
  const text = describe(event.offsetX, event.offsetY);
  tip.style.display = text ? "block" : "none";
  tip.textContent = text;
  tip.style.left = Math.min(event.clientX + 14, window.innerWidth - 260) + "px";
  tip.style.top = event.clientY + 14 + "px";
});
canvas.addEventListener("keydown", event => {
  const middle = (view.from + view.to) / 2;
  const keys = { "+": () => zoom(0.5, middle), "=": () => zoom(0.5, middle), "-": () => zoom(2, middle),
    ArrowLeft: () => move(-0.2), ArrowRight: () => move(0.2), Home: () => look(0, SPAN) };
  if (keys[event.key]) { event.preventDefault(); keys[event.key](); }
});
$("all").addEventListener("click", () => look(0, SPAN));
for (const box of ["arrows", "queues"]) $(box).addEventListener("change", () => look(view.from, view.to));
$("regions").addEventListener("change", event => {
  const region = regions[event.target.value];
  if (!region) return;
  const margin = (region.end - region.start) * 0.1;
  look(region.start - margin, region.end + margin);
});
window.addEventListener("resize", () => look(view.from, view.to));

// --- the rest of the page ---

const legend = (name, colour) => {
  const entry = document.createElement("span"), box = document.createElement("i");
  box.style.background = colour;
  entry.append(box, name);
  $("legend").append(entry);
};
DATA.states.slice(1).forEach(([name, colour]) => legend(name, colour));
EDGE_NAMES.forEach((name, i) => legend(name + " →", EDGE_COLOURS[i]));
regions.slice(0, 1000).forEach((region, i) => {
  const option = document.createElement("option");
  option.value = i;
  option.textContent = region.name + ", " + human(region.end - region.start);
  $("regions").append(option);
});
$("drops").textContent = DATA.dropped + " events dropped";
if (DATA.dropped) $("drops").className = "warn";
$("summary").textContent = DATA.summary;
look(0, SPAN);
