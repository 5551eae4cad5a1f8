// Draws DATA, which stands before this: see html.rs.
const MANY = DATA.lanes.length > 20, LANE = MANY ? 20 : 34, BAR = MANY ? 14 : 22, MOST_ARROWS = 4000;
const LEFT = Math.min(130, Math.max(70, window.innerWidth * 0.16)), CURVE = 46, TOP = 50 + CURVE, EXECUTING = 4;
const EDGE_COLOURS = ["#1565c0", "#e65100", "#6a1b9a"], EDGE_NAMES = ["steal", "wake", "result"];
const PHASES = ["first hand-off", "ramp-up", "full parallelism", "catch-up", "result hand-off", "unattributed"];
const PHASE_COLOURS = ["#90caf9", "#ffcc80", "#a5d6a7", "#ef9a9a", "#ce93d8", "#eeeeee"];

function decode(text, Type) {
  const raw = atob(text), bytes = new Uint8Array(raw.length);
  for (let i = 0; i < raw.length; i++) bytes[i] = raw.charCodeAt(i);
  return new Type(bytes.buffer);
}

/** From steps to times. A long step is two words, after one that says so. */
function summed(steps, count) {
  const times = new Float64Array(count);
  let time = 0;
  for (let i = 0, at = 0; i < count; i++) {
    let step = steps[at++];
    if (step === 0xffffffff) step = steps[at++] * 2 ** 32 + steps[at++];
    times[i] = time += step;
  }
  return times;
}

const lanes = DATA.lanes.map(l => ({
  name: l.name, dropped: l.dropped, t: decode(l.t, Uint32Array), s: decode(l.s, Uint8Array),
  p: decode(l.p, Uint16Array), c: decode(l.c, Float64Array), qt: decode(l.qt, Float64Array), q: decode(l.q, Uint16Array),
}));
for (const lane of lanes) {
  lane.t = summed(lane.t, lane.s.length);
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
let view = { from: 0, to: SPAN }, width = 0, height = 0, queued = false, wanted = null;
const hidden = new Set();
/** The lanes that are shown, in their order. */
let shown = lanes.map((_, i) => i);
const style = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
let ink = {};
function readInk() {
  ink = { page: style("--page"), text: style("--text"), soft: style("--soft"), line: style("--line"),
    accent: style("--accent"), band: style("--band"), span: style("--span") };
}
readInk();

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
  redraw();
}

function redraw() {
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

/** Where a lane is drawn; lanes scroll beneath the axis. */
const top0 = () => TOP - $("scroll").scrollTop;

function draw() {
  queued = false;
  const began = performance.now(), scale = window.devicePixelRatio || 1;
  width = canvas.clientWidth;
  const all = TOP + shown.length * LANE + 6;
  height = Math.min(all, Math.max(TOP + 5 * LANE, window.innerHeight * 0.72));
  $("scroll").style.height = height + "px";
  $("room").style.height = all + "px";
  canvas.style.height = height + "px";
  if (canvas.width !== Math.round(width * scale) || canvas.height !== Math.round(height * scale)) {
    canvas.width = Math.round(width * scale);
    canvas.height = Math.round(height * scale);
  }
  context.setTransform(scale, 0, 0, scale, 0, 0);
  context.clearRect(0, 0, width, height);
  context.font = "12px system-ui, sans-serif";
  context.textBaseline = "middle";
  const busy = new Float64Array(Math.max(Math.ceil(width - LEFT), 1));
  context.save();
  context.beginPath();
  context.rect(0, TOP - 2, width, height - TOP + 2);
  context.clip();
  tintRegions();
  lanes.forEach((lane, i) => drawLane(lane, shown.indexOf(i), busy));
  if ($("queues").checked && !MANY) shown.forEach((i, row) => drawQueue(lanes[i], row));
  if ($("onspan").checked) shown.forEach((i, row) => drawSpan(lanes[i], row));
  const arrows = $("arrows").checked ? drawArrows() : "";
  context.fillStyle = ink.page;
  context.fillRect(0, TOP - 2, LEFT - 1, height);
  context.fillStyle = ink.text;
  context.textAlign = "left";
  shown.forEach((i, row) => context.fillText(clip(lanes[i].name, LEFT - 10), 6, top0() + row * LANE + BAR / 2));
  context.restore();
  drawRegions();
  drawAxis();
  drawCurve(busy);
  $("status").textContent = human(view.from) + " to " + human(view.to) + " (" +
    human(view.to - view.from) + "), drawn in " + (performance.now() - began).toFixed(0) + " ms" + arrows;
  keepView();
}

/** As much of a text as there is room for. */
function clip(text, room) {
  if (context.measureText(text).width <= room) return text;
  let length = text.length;
  while (length > 1 && context.measureText(text.slice(0, length) + "…").width > room) length--;
  return text.slice(0, length) + "…";
}

/** How many workers are busy, as an average for each pixel. */
function drawCurve(busy) {
  const most = Math.max(DATA.width, 1), floor = TOP - 6, tall = CURVE - 8, perPixel = (view.to - view.from) / busy.length;
  context.fillStyle = ink.band;
  context.strokeStyle = ink.accent;
  context.beginPath();
  let sum = 0;
  for (let i = 0; i < busy.length; i++) {
    const at = busy[i] / perPixel;
    sum += at;
    const y = floor - tall * Math.min(at / most, 1);
    if (i) context.lineTo(LEFT + i, y); else context.moveTo(LEFT + i, y);
  }
  context.stroke();
  context.lineTo(width, floor); context.lineTo(LEFT, floor);
  context.fill();
  context.fillStyle = ink.soft;
  context.fillText("busy at once", 6, floor - tall / 2 - 7);
  context.fillText((sum / busy.length).toFixed(2) + " of " + most, 6, floor - tall / 2 + 7);
  context.strokeStyle = ink.line;
  context.beginPath();
  context.moveTo(LEFT, floor - tall); context.lineTo(width, floor - tall);
  context.moveTo(LEFT, floor); context.lineTo(width, floor);
  context.stroke();
}

/** What the span hangs on, as a line along the bottom of the lane. */
function drawSpan(lane, row) {
  const { c } = lane, y = top0() + row * LANE + BAR - 3;
  context.fillStyle = ink.span;
  let drawn = -1;
  for (let i = 2 * Math.floor(upTo(c, view.from) / 2); i < c.length && c[i] < view.to; i += 2) {
    const a = Math.max(x(c[i]), LEFT), b = Math.max(Math.min(x(c[i + 1]), width), a + 1);
    if (b <= drawn) continue;
    context.fillRect(a, y, b - a, 4);
    drawn = b;
  }
}

/** Calls `each` with the phases of regions that are in view: kind, from and to in pixels. */
function eachPhase(each) {
  for (const region of regions) {
    if (region.end < view.from || region.start > view.to) continue;
    let t = region.start;
    region.parts.forEach((part, i) => {
      const a = Math.max(x(t), LEFT), b = Math.min(x(t + part), width);
      if (b > a) each(i, a, b);
      t += part;
    });
  }
}

function tintRegions() {
  eachPhase((i, a, b) => {
    context.fillStyle = PHASE_COLOURS[i] + "28";
    if (b - a > 2) context.fillRect(a, TOP - 2, b - a, height);
  });
}

function drawRegions() {
  let labelled = -Infinity;
  eachPhase((i, a, b) => {
    context.fillStyle = PHASE_COLOURS[i];
    context.fillRect(a, 2, Math.max(b - a, 0.5), 16);
    context.fillStyle = "#1c2126";
    if (b - a > 7 * PHASES[i].length) context.fillText(PHASES[i], a + 3, 10);
  });
  for (const region of regions) {
    const a = Math.max(x(region.start), LEFT);
    if (region.end < view.from || region.start > view.to || a < labelled || x(region.end) - a < 20) continue;
    context.fillStyle = ink.soft;
    context.fillText(region.name, a, 26);
    labelled = a + context.measureText(region.name).width + 8;
  }
}

/** Labels that all differ: as many places as the step needs; beyond four, what is added to the first. */
function axisLabels(step, first) {
  const [unit, name] = view.to < 1e3 ? [1, "ns"] : view.to < 1e6 ? [1e3, "us"] : view.to < 1e9 ? [1e6, "ms"] : [1e9, "s"];
  const places = Math.max(0, Math.ceil(-Math.log10(step / unit) - 1e-9));
  if (places <= 4) return t => (t / unit).toFixed(places) + " " + name;
  return t => t === first ? (t / unit).toFixed(places) + " " + name : "+" + (t - first).toFixed(0) + " ns";
}

function drawAxis() {
  const goal = Math.max((view.to - view.from) / Math.max((width - LEFT) / 120, 1), 1);
  const power = Math.pow(10, Math.floor(Math.log10(goal)));
  const step = [1, 2, 5, 10].map(m => m * power).find(s => s >= goal) || 10 * power;
  const first = Math.ceil(view.from / step) * step, label = axisLabels(step, first);
  context.fillStyle = ink.soft;
  context.strokeStyle = ink.line;
  context.beginPath();
  for (let n = 0, t = first; t <= view.to; t = first + ++n * step) {
    const at = x(t);
    context.moveTo(at, 33); context.lineTo(at, 47);
    context.fillText(label(t), at + 3, 40);
  }
  context.stroke();
}

/** Segments narrower than a pixel are merged: each pixel shows the state that it was in the longest. */
function drawLane(lane, row, busy) {
  const { t, s, p } = lane, y = top0() + row * LANE, perPixel = (view.to - view.from) / (width - LEFT);
  const visible = row >= 0 && y > TOP - LANE && y < height;
  const dim = wanted && !wanted.lanes.has(lane);
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
  const paint = (state, from, pixels, name = 0) => {
    if (!visible) return;
    context.globalAlpha = dim && !(state === EXECUTING && wanted.names.has(name)) ? 0.18 : 1;
    context.fillStyle = DATA.states[state][1];
    context.fillRect(from, y, pixels, BAR);
    context.globalAlpha = 1;
  };
  for (let i = Math.max(upTo(t, view.from) - 1, 0); i < t.length && t[i] < view.to; i++) {
    const from = Math.max(t[i], view.from), to = Math.min(i + 1 < t.length ? t[i + 1] : SPAN, view.to);
    if (to <= from) continue;
    const a = x(from), at = Math.floor(a);
    if (s[i] === EXECUTING) count(busy, a - LEFT, x(to) - LEFT, perPixel);
    if (!visible) continue;
    if (to - from < perPixel) {
      if (at !== pixel) { flush(); pixel = at; }
      spent[s[i]] += to - from;
      if (wanted && s[i] === EXECUTING && wanted.names.has(p[i])) { paint(s[i], at, 1, p[i]); pixel = -1; spent.fill(0); }
      continue;
    }
    flush();
    if (s[i] === 0) continue;
    const b = x(to);
    paint(s[i], a, b - a, p[i]);
    if (b - a > 4) {
      context.strokeStyle = "rgba(0,0,0,0.25)";
      context.strokeRect(a + 0.5, y + 0.5, b - a - 1, BAR - 1);
    }
    if (b - a > 36) {
      const text = s[i] === EXECUTING ? DATA.names[p[i]] : DATA.states[s[i]][0];
      context.fillStyle = s[i] === 6 || s[i] === 7 ? "#fff" : "#14301a";
      if (text) context.fillText(clip(text, b - a - 8), a + 4, y + BAR / 2 - 1);
    }
  }
  flush();
}

/** Adds the time from one pixel to another, which may lie within one. */
function count(busy, a, b, perPixel) {
  for (let i = Math.max(Math.floor(a), 0); i < b && i < busy.length; i++) {
    busy[i] += (Math.min(b, i + 1) - Math.max(a, i)) * perPixel;
  }
}

function drawQueue(lane, row) {
  const { qt, q } = lane, y = top0() + row * LANE + LANE - 2, room = LANE - BAR - 4;
  if (!q.length) return;
  context.fillStyle = ink.soft;
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
    if (hidden.has(lane[2 * i]) || hidden.has(lane[2 * i + 1])) continue;
    if (t[2 * i + 1] >= view.from) seen.push(i);
  }
  if (seen.length > MOST_ARROWS) return ", too many arrows: zoom in";
  const middle = lane => top0() + shown.indexOf(lane) * LANE + BAR / 2;
  // So many that they would hide what they lie on are faint, all but their heads.
  const faint = Math.min(Math.max(width / (20 * seen.length), 0.08), 1), head = faint < 1 ? 5 : 7;
  for (const i of seen) {
    const a = x(t[2 * i]), b = x(t[2 * i + 1]), from = middle(lane[2 * i]), to = middle(lane[2 * i + 1]);
    context.strokeStyle = context.fillStyle = EDGE_COLOURS[kind[i]];
    context.beginPath();
    context.moveTo(a, from); context.lineTo(b, to);
    context.globalAlpha = faint;
    context.stroke();
    context.globalAlpha = 1;
    const angle = Math.atan2(to - from, b - a);
    context.beginPath();
    context.moveTo(b, to);
    for (const turn of [2.7, -2.7]) context.lineTo(b + head * Math.cos(angle + turn), to + head * Math.sin(angle + turn));
    context.fill();
  }
  return ", " + seen.length + " arrows";
}

// --- pointing ---

function describe(px, py) {
  const t = timeAt(px), row = Math.floor((py - top0()) / LANE);
  if (px < LEFT || py >= TOP && row >= shown.length) return "";
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
  const lane = lanes[shown[row]], i = upTo(lane.t, t) - 1;
  if (i < 0) return lane.name + ": nothing recorded yet";
  const end = i + 1 < lane.t.length ? lane.t[i + 1] : SPAN, name = DATA.names[lane.p[i]];
  let text = lane.name + ": " + DATA.states[lane.s[i]][0] + (name ? ", " + name : "") +
    "\n" + human(end - lane.t[i]) + ", from " + human(lane.t[i]);
  const q = upTo(lane.qt, t) - 1;
  if (q >= 0) text += "\nqueue: " + lane.q[q];
  if (upTo(lane.c, t) % 2) text += "\non the span: what follows waits for it";
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
  const row = Math.floor((event.offsetY - top0()) / LANE);
  if (event.offsetX < LEFT && event.offsetY > TOP && row < shown.length) {
    hidden.add(shown[row]);
    return showLanes();
  }
  drag = { x: event.clientX, y: event.clientY, from: view.from, to: view.to, scroll: $("scroll").scrollTop };
  // A pointer that a script has made up cannot be captured.
  try { canvas.setPointerCapture(event.pointerId); } catch { /* it is dragged without */ }
});
canvas.addEventListener("pointerup", () => { drag = null; });
canvas.addEventListener("pointerleave", () => { tip.style.display = "none"; });
canvas.addEventListener("pointermove", event => {
  if (drag) {
    const by = (drag.x - event.clientX) / (width - LEFT) * (drag.to - drag.from);
    $("scroll").scrollTop = drag.scroll + drag.y - event.clientY;
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
for (const box of ["arrows", "queues", "onspan"]) $(box).addEventListener("change", () => look(view.from, view.to));
$("regions").addEventListener("change", event => {
  const region = regions[event.target.value];
  if (!region) return;
  const margin = (region.end - region.start) * 0.1;
  look(region.start - margin, region.end + margin);
});
window.addEventListener("resize", () => look(view.from, view.to));

$("scroll").addEventListener("scroll", redraw);

// --- lanes, search, scheme, link ---

function showLanes() {
  shown = lanes.map((_, i) => i).filter(i => !hidden.has(i));
  $("lanes").style.display = hidden.size ? "" : "none";
  $("lanes").textContent = "show " + hidden.size + " hidden";
  redraw();
}
$("lanes").addEventListener("click", () => { hidden.clear(); showLanes(); });

const counted = (count, thing, more = "s") => count + " " + thing + (count === 1 ? "" : more);

/** Dims all that does not match. */
function search(text) {
  $("search").value = text;
  const lower = text.toLowerCase();
  wanted = null;
  $("found").textContent = "";
  if (lower) {
    const names = new Set(DATA.names.map((name, i) => [name, i]).filter(([name]) => name.toLowerCase().includes(lower)).map(found => found[1]));
    wanted = { names, lanes: new Set(lanes.filter(lane => lane.name.toLowerCase().includes(lower))) };
    let time = 0, count = 0, first = null;
    for (const lane of lanes) {
      for (let i = 0; i < lane.t.length; i++) {
        if (lane.s[i] !== EXECUTING || !names.has(lane.p[i])) continue;
        const end = i + 1 < lane.t.length ? lane.t[i + 1] : SPAN;
        time += end - lane.t[i];
        count++;
        if (first === null || lane.t[i] < first) first = lane.t[i];
      }
    }
    const found = wanted.lanes.size;
    $("found").textContent = (count ? counted(count, "stretch", "es") + ", " + human(time) : "no task") + (found ? ", " + counted(found, "lane") : "");
    wanted.first = first;
  }
  redraw();
}
$("search").addEventListener("input", event => search(event.target.value));
$("search").addEventListener("keydown", event => {
  if (event.key === "Enter" && wanted && wanted.first !== null) {
    const half = Math.min(view.to - view.from, SPAN / 20) / 2;
    look(wanted.first - half, wanted.first + half);
  }
});

$("scheme").addEventListener("click", () => {
  const root = document.documentElement, dark = window.matchMedia("(prefers-color-scheme: dark)").matches;
  const now = root.classList.contains("dark") || dark && !root.classList.contains("light");
  root.classList.remove("dark", "light");
  root.classList.add(now ? "light" : "dark");
  readInk(); drawSpeedup(); redraw();
});
window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { readInk(); drawSpeedup(); redraw(); });

/** The address carries what is seen, so that a link shows the same. */
let keeping = 0;
function keepView() {
  clearTimeout(keeping);
  keeping = setTimeout(() => {
    const parts = ["t=" + view.from.toFixed(0) + "-" + view.to.toFixed(0)];
    if (hidden.size) parts.push("hide=" + [...hidden].join("."));
    if ($("search").value) parts.push("q=" + encodeURIComponent($("search").value));
    if (location.hash.includes("=") || view.from > 0 || view.to < SPAN || parts.length > 1) {
      try { history.replaceState(null, "", "#" + parts.join("&")); } catch { /* some browsers keep files' addresses */ }
    }
  }, 300);
}
function takeView() {
  const parts = new Map(location.hash.slice(1).split("&").map(part => part.split(/=(.*)/s)));
  const [from, to] = (parts.get("t") || "").split("-").map(Number);
  // What the address does not say is not as it was before.
  hidden.clear();
  (parts.get("hide") || "").split(".").filter(i => /^\d+$/.test(i) && lanes[i]).forEach(i => hidden.add(Number(i)));
  showLanes();
  let text = parts.get("q") || "";
  try { text = decodeURIComponent(text); } catch { /* it was cut, or typed: it is searched for as it is */ }
  search(text);
  if (to > from) look(from, to); else look(0, SPAN);
}
window.addEventListener("hashchange", takeView);

// --- the first screen ---

const make = (tag, text, parent) => {
  const element = document.createElement(tag);
  if (text !== undefined) element.textContent = text;
  if (parent) parent.append(element);
  return element;
};
const times = value => value < 9.95 ? value.toFixed(1) + "x" : value < 1e5 ? value.toFixed(0) + "x" : ">99999x";

/** The speed-up that more processors would give: a band from a greedy schedule's worst to the bound, and what is expected. */
function drawSpeedup() {
  $("speedup").replaceChildren();
  const { scale } = DATA;
  if (!scale) return;
  make("h2", "Speed-up that more processors would give", $("speedup"));
  const W = 440, H = 210, L = 44, R = 18, T = 8, B = 30;
  const best = Math.max(2, ...scale.points.map(p => p.most), ...scale.measured.map(m => m[1]));
  const top = Math.min(10, Math.ceil(Math.log2(best) + 0.3)), right = Math.log2(scale.points[scale.points.length - 1].n);
  const px = n => L + Math.log2(Math.max(n, 1)) / right * (W - L - R), py = s => H - B - Math.log2(Math.max(s, 1)) / top * (H - T - B);
  const line = (points, y) => points.map((p, i) => (i ? "L" : "M") + px(p.n).toFixed(1) + " " + py(y(p)).toFixed(1)).join("");
  const grid = [], labels = [];
  for (let i = 0; i <= top; i++) {
    grid.push(`<path d="M${L} ${py(2 ** i)}H${W - R}" stroke="${ink.line}"/>`);
    labels.push(`<text x="${L - 6}" y="${py(2 ** i) + 4}" text-anchor="end">${2 ** i}x</text>`);
  }
  for (const p of scale.points) labels.push(`<text x="${px(p.n)}" y="${H - B + 15}" text-anchor="middle">${p.n}</text>`);
  const back = [...scale.points].reverse();
  const dots = scale.points.map(p => `<circle cx="${px(p.n)}" cy="${py(p.s)}" r="2.6" fill="${ink.accent}"><title>${p.n} processors: ${times(p.s)} expected, at least ${times(p.least)} if hand-offs were free, at most ${times(p.most)}</title></circle>`);
  const measured = scale.measured.map(([n, s]) => `<path d="M${px(n)} ${py(s) - 6}l5 6l-5 6l-5-6z" fill="${ink.span}"><title>measured on ${n}: ${times(s)}</title></path>`);
  const svg = `<svg viewBox="0 0 ${W} ${H}" width="${W}" height="${H}" role="img" aria-label="Expected speed-up by processors">${grid.join("")}
    <path d="M${px(1)} ${py(1)}L${px(2 ** Math.min(top, right))} ${py(2 ** Math.min(top, right))}" stroke="${ink.soft}" stroke-dasharray="3 4" fill="none"/>
    <path d="${line(scale.points, p => p.most)}${line(back, p => p.least).replace("M", "L")}Z" fill="${ink.band}"/>
    <path d="${line(scale.points, p => p.s)}" stroke="${ink.accent}" stroke-width="2" fill="none"/>${dots.join("")}${measured.join("")}${labels.join("")}
    <text x="${(L + W - R) / 2}" y="${H - 2}" text-anchor="middle">processors${measured.length ? " · ◆ measured" : ""}</text></svg>`;
  const holder = make("div", undefined, $("speedup"));
  holder.innerHTML = svg;
}

function table(parent, heads, rows) {
  const whole = make("table", undefined, parent), head = make("tr", undefined, whole);
  heads.forEach(text => make("th", text, head));
  for (const { name, cells, part } of rows) {
    const row = make("tr", undefined, whole);
    row.dataset.name = name;
    row.tabIndex = 0;
    row.addEventListener("click", () => search(name));
    row.addEventListener("keydown", event => {
      if (event.key !== "Enter" && event.key !== " ") return;
      event.preventDefault();
      search(name);
    });
    make("td", name, row).title = name;
    cells.forEach(text => make("td", text, row));
    if (part !== undefined) {
      const bar = make("span", undefined, make("td", undefined, row));
      bar.className = "bar";
      bar.style.width = Math.max(part * 90, 1) + "px";
    }
  }
}

$("verdict-text").textContent = DATA.verdict;
$("facts").textContent = DATA.facts;
drawSpeedup();
if (DATA.scale) {
  make("h2", "What the span hangs on, and the bound if it were split", $("places"));
  table($("places"), ["place", "on the span", "part", "work", "if split", ""], DATA.scale.places.slice(0, 7).map(([name, on, part, work, without]) =>
    ({ name, cells: [human(on), (part * 100).toFixed(0) + " %", human(work), times(without)], part })));
}
if (DATA.named.length) {
  make("h2", "Time by name", $("names"));
  const most = Math.max(...DATA.named.map(named => named[1]), 1);
  table($("names"), ["task", "own time", "count", "each", ""], DATA.named.map(([name, own, count]) =>
    ({ name, cells: [human(own), String(count), human(own / Math.max(count, 1))], part: own / most })));
}

const legend = (name, colour) => {
  const entry = document.createElement("span"), box = document.createElement("i");
  box.style.background = colour;
  entry.append(box, name);
  $("legend").append(entry);
};
DATA.states.slice(1).forEach(([name, colour]) => legend(name, colour));
EDGE_NAMES.forEach((name, i) => legend(name + " →", EDGE_COLOURS[i]));
if (DATA.on_span) legend("on the span", "var(--span)"); else $("onspan").parentNode.style.display = "none";
regions.slice(0, 1000).forEach((region, i) => {
  const option = document.createElement("option");
  option.value = i;
  option.textContent = region.name + ", " + human(region.end - region.start);
  $("regions").append(option);
});
$("drops").textContent = DATA.dropped ? DATA.dropped + " events dropped" : "";
$("drops").className = "warn";
$("summary").textContent = DATA.summary;
takeView();
