// Appended to a page of `raddle trace html`: does to it what a user does, and writes what came of it.
(async () => {
  // What was seen before the page was loaded again by its own link, if it was.
  const before = window.name ? JSON.parse(window.name) : null, redraws = Number(location.hash.slice(1));
  const faults = before ? before.faults : [], notes = before ? before.notes : [];
  const check = (what, holds) => { if (!holds) faults.push(what); };
  // Timers, because the browser's virtual time waits for those; frames come in between.
  const frame = () => new Promise(done => setTimeout(() => { if (queued) draw(); done(); }, 60));
  const scale = window.devicePixelRatio || 1;
  const hex = d => "#" + [d[0], d[1], d[2]].map(n => n.toString(16).padStart(2, "0")).join("");
  const colours = new Set(DATA.states.slice(1).map(s => s[1]));
  const row = i => {
    const y = Math.round((top0() + i * LANE + BAR / 2) * scale);
    const data = context.getImageData(LEFT * scale, y, canvas.width - LEFT * scale, 1).data;
    const seen = [];
    for (let i = 0; i < data.length; i += 4) seen.push(hex(data.subarray(i, i + 4)));
    return seen;
  };
  const mouse = (kind, x, y, more = {}) => {
    const box = canvas.getBoundingClientRect();
    const Kind = kind === "wheel" ? WheelEvent : PointerEvent;
    canvas.dispatchEvent(new Kind(kind, { clientX: box.left + x, clientY: box.top + y, bubbles: true,
      cancelable: true, pointerId: 1, ...more }));
  };
  const seen = () => ({ from: Math.round(view.from), to: Math.round(view.to), hidden: [...hidden].sort().join(), q: $("search").value });
  const told = value => JSON.stringify(value);
  const quiet = () => new Promise(done => setTimeout(done, 1000));
  const use = async () => {
    $("arrows").checked = false;
    look(0, SPAN);
    await frame();
    check("there are lanes", lanes.length > 0);
    let pixels = 0;
    lanes.forEach((lane, i) => {
      $("scroll").scrollTop = Math.max(0, i * LANE - 60);
      draw();
      const drawn = row(i).filter(c => colours.has(c)).length;
      // A thread that came late, or never, has nothing to show; edges and neighbours take some pixels of what is narrow.
      const stretch = j => (j + 1 < lane.t.length ? lane.t[j + 1] : SPAN) - lane.t[j];
      const wide = lane.t.some((_, j) => lane.s[j] > 0 && stretch(j) > 8 * SPAN / (width - LEFT));
      check("lane " + lane.name + " is drawn", drawn > 0 || !wide);
      notes.push(lane.name + ": " + drawn + " pixels");
      pixels += drawn;
    });
    check("something is drawn", pixels > 0);
    $("scroll").scrollTop = 0;
    draw();
    const drawn = lanes.map((_, i) => row(i).join()).join("\n"), status = $("status").textContent;
    mouse("wheel", LEFT + (width - LEFT) * 0.5, TOP + 5, { deltaY: -300 });
    await frame();
    check("the wheel zooms in", view.to - view.from < SPAN * 0.5);
    check("and what is drawn changes", lanes.map((_, i) => row(i).join()).join("\n") !== drawn);
    check("and is told", $("status").textContent !== status);
    const { from } = view;
    mouse("pointerdown", LEFT + 200, TOP + 5);
    mouse("pointermove", LEFT + 100, TOP + 5);
    mouse("pointerup", LEFT + 100, TOP + 5);
    check("dragging moves", view.from > from);
    canvas.dispatchEvent(new KeyboardEvent("keydown", { key: "+" }));
    canvas.dispatchEvent(new KeyboardEvent("keydown", { key: "Home" }));
    check("Home shows all", view.from === 0 && view.to === SPAN);
    for (let i = 0; i < 200; i++) mouse("wheel", LEFT + 50, TOP + 5, { deltaY: -300 });
    await frame();
    check("zooming ends somewhere", view.to - view.from >= CLOSEST * 0.99);
    // Labels of the axis all differ, however near one looks.
    const texts = [], fill = context.fillText;
    context.fillText = (text, px, py) => { if (Math.abs(py - 40) < 1) texts.push(text); };
    for (const span of [SPAN, SPAN / 1e3, 200, CLOSEST]) {
      texts.length = 0;
      look(SPAN / 2, SPAN / 2 + span);
      drawAxis();
      check("labels differ at " + span + ": " + texts.join(", "), texts.length > 1 && new Set(texts).size === texts.length);
    }
    context.fillText = fill;
    check("the first sentence says something", $("verdict-text").textContent.length > 10);
    check("a speed-up is drawn if there is one", !DATA.scale === !document.querySelector("#speedup svg circle"));
    const legends = $("legend").textContent.includes("on the span"), box = $("onspan").parentNode.style.display !== "none";
    check("a span that is marked can be told and hidden, and no other", legends === DATA.on_span && box === DATA.on_span);
    check("what is marked is in the data", DATA.on_span === lanes.some(lane => lane.c.length > 0));
    search("raddle-0");
    check("search finds lanes", wanted.lanes.size > 0);
    search(DATA.names.find(name => name) || "");
    await frame();
    search("");
    const named = document.querySelector("tr[data-name]");
    if (named) {
      named.focus();
      check("a row of a table can be gone to by keys", document.activeElement === named);
      for (const key of ["Enter", " "]) {
        named.dispatchEvent(new KeyboardEvent("keydown", { key, cancelable: true }));
        check("and searched for by '" + key + "'", $("search").value === named.dataset.name);
        search("");
      }
    }
    const count = shown.length;
    hidden.add(0); showLanes();
    check("a lane is hidden", shown.length === count - 1);
    $("lanes").click();
    check("and shown again", shown.length === count);
    const page = ink.page;
    $("scheme").click();
    await frame();
    check("there is a dark scheme", ink.page !== page);
    $("scheme").click();
    $("all").click();
    const lane = lanes.findIndex(l => l.t.length > 0);
    const at = x((lanes[lane].t[0] + SPAN) / 2);
    $("scroll").scrollTop = 0;
    mouse("pointermove", at, TOP + lane * LANE + 3);
    check("pointing tells", tip.style.display === "block" && tip.textContent.startsWith(lanes[lane].name));
    if (regions.length) {
      $("regions").value = "0";
      $("regions").dispatchEvent(new Event("change"));
      await frame();
      check("a region is gone to", view.from <= regions[0].start && view.to >= regions[0].end);
    }
    $("arrows").checked = true;
    $("all").click();
    await frame();
    // Timed from outside: in here time is virtual.
    for (let i = redraws; i > 0; i--) draw();
    row(0);
    notes.push(DATA.events + " events");
  };
  // A view of a part, with a lane hidden and something searched for: its link is the page's address once nothing has moved for a while.
  const leave = async () => {
    hidden.add(lanes.length - 1); showLanes();
    search("raddle-0 & 100 % = all?");
    look(SPAN / 4, SPAN / 2);
    await frame();
    await quiet();
    faults.push(...window.faultsSoFar);
    window.name = JSON.stringify({ faults, notes, seen: seen(), link: location.hash });
    location.reload();
  };
  const come = async () => {
    check("the link is the address: " + before.link, before.link.startsWith("#t=") && location.hash === before.link);
    check("a link shows the same: " + told(seen()) + ", not " + told(before.seen), told(seen()) === told(before.seen));
    check("and hides the same lanes", shown.length === lanes.length - 1);
    // Another link in the same window: what it does not say is not left over.
    location.hash = "#t=0-" + SPAN.toFixed(0);
    await quiet();
    check("another link shows another: " + told(seen()), told(seen()) === told({ from: 0, to: SPAN, hidden: "", q: "" }));
    check("with all lanes", shown.length === lanes.length && wanted === null);
    // And one that was typed, or cut, shows what can be made of it.
    for (const [link, q] of [["#q=%", "%"], ["#hide=map.-1.x&q=%e4", "%e4"], ["#t=x-y&q=a=b", "a=b"], ["#t&hide&=&q", ""]]) {
      location.hash = link;
      await quiet();
      const whole = { from: 0, to: Math.round(SPAN), hidden: "", q };
      check("a link of nonsense, " + link + ", shows all: " + told(seen()), told(seen()) === told(whole));
    }
  };
  try {
    await (before ? come() : use());
    if (!before) return await leave();
  } catch (error) {
    faults.push("" + error);
  }
  faults.push(...window.faultsSoFar);
  const verdict = document.createElement("pre");
  verdict.id = "verdict";
  verdict.textContent = (faults.length ? "FAULTS: " + faults.join("; ") : "OK") + " | " + notes.join(", ");
  document.body.append(verdict);
})();
