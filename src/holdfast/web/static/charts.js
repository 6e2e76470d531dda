// Curves, GPU lanes, events, idle stretches and log lines of a run on one time axis with one cursor.
// Zooming fetches the range again, with its peaks.
"use strict";
(() => {
  const place = document.getElementById("charts");
  if (!place) return;
  const names = document.getElementById("names");
  const logarithmic = document.getElementById("log-scale");
  const lane = document.getElementById("events");
  const printed = document.getElementById("printed");
  const colours = ["#3e7cb1", "#b5533c", "#2e8b57", "#8f6bb3", "#b07d2b", "#4fa3a5"];
  const left = 64;
  const sync = uPlot.sync("time");
  let charts = [];
  let data = {curves: [], lanes: [], events: [], idle: []};
  let limits = [0, 1];
  let range = null;
  let asked = 0;
  let timer = 0;
  let pinned = null;

  const style = (name) => getComputedStyle(document.documentElement).getPropertyValue(name);
  const short = (value) => {
    if (value === null || value === undefined) return "";
    const size = Math.abs(value);
    if (size >= 1e9) return `${+(value / 1e9).toPrecision(4)} G`;
    if (size >= 1e6) return `${+(value / 1e6).toPrecision(4)} M`;
    return String(+value.toPrecision(5));
  };

  function marks(self) {
    const {ctx, bbox} = self;
    ctx.save();
    ctx.beginPath();
    ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
    ctx.clip();
    ctx.fillStyle = style("--mark");
    for (const [begin, end] of data.idle) {
      const from = self.valToPos(begin, "x", true);
      ctx.fillRect(from, bbox.top, Math.max(1, self.valToPos(end, "x", true) - from), bbox.height);
    }
    ctx.fillStyle = style("--other");
    for (const event of data.events) ctx.fillRect(self.valToPos(event.second, "x", true), bbox.top, 1, bbox.height);
    if (pinned !== null) {
      ctx.fillStyle = style("--accent");
      ctx.fillRect(self.valToPos(pinned, "x", true), bbox.top, 2, bbox.height);
    }
    ctx.restore();
  }

  function chart(series, at, tall, last) {
    const box = document.createElement("div");
    box.className = "chart";
    const head = document.createElement("p");
    const value = document.createElement("b");
    head.append(`${series.name.slice(0, 120)} `, value);
    box.append(head);
    place.append(box);
    const axis = {stroke: style("--faint"), grid: {stroke: style("--line"), width: 1}, ticks: {stroke: style("--line"), width: 1}};
    const colour = colours[at % colours.length];
    const useLog = logarithmic.checked && tall && series.values.every((number) => number === null || number > 0);
    const final = [...series.values].reverse().find((number) => number !== null);
    value.textContent = short(final);
    const options = {
      width: place.clientWidth - 12,
      height: (tall ? 130 : 52) + (last ? 26 : 0),
      padding: [tall ? 4 : 8, 8, last ? 0 : 4, 0],
      cursor: {sync: {key: sync.key}, drag: {x: true, y: false, setScale: false}, y: false},
      legend: {show: false},
      scales: {x: {time: false, range: () => limits}, y: useLog ? {distr: 3} : {range: (_, low, high) => (tall ? uPlot.rangeNum(low, high, 0.1, true) : [0, Math.max(high, series.name.endsWith(".busy") ? 100 : high * 1.1, 1)])}},
      axes: [{...axis, size: last ? 26 : 0, values: last ? undefined : () => []}, {...axis, size: left, space: tall ? 30 : 20, values: (_, ticks) => ticks.map(short)}],
      series: [{}, {stroke: colour, fill: tall ? undefined : `${colour}33`, width: 1.25, spanGaps: true, points: {show: series.values.length < 60}}],
      hooks: {
        drawClear: [marks],
        setCursor: [(self) => {
          const index = self.cursor.idx;
          value.textContent = short(index === null ? final : series.values[index]) + (index === null ? "" : ` · ${short(series.seconds[index])} s · ${place.dataset.step} ${series.steps[index]}`);
          if (self === charts[0] && self.cursor.left >= 0) lines(self.posToVal(self.cursor.left, "x"));
        }],
        setSelect: [(self) => {
          if (self.select.width < 4) return;
          range = [self.posToVal(self.select.left, "x"), self.posToVal(self.select.left + self.select.width, "x")];
          draw();
        }],
      },
    };
    const made = new uPlot(options, [series.seconds, series.values], box);
    made.root.setAttribute("role", "img");
    made.root.setAttribute("aria-label", `${series.name}: ${series.points}`);
    charts.push(made);
  }

  // The lines that had been printed at this moment.
  function lines(second) {
    if (!data.has_log) return;
    clearTimeout(timer);
    timer = setTimeout(async () => {
      const found = await holdfast.json(`${place.dataset.run}/log.json?second=${second}&count=1500`).catch(() => null);
      if (!found) return;
      printed.hidden = false;
      const shown = found.lines.slice(-6).map(([at, pieces]) => {
        const row = document.createElement("a");
        row.href = `${place.dataset.run}/log?at=${at}`;
        row.textContent = pieces.map(([, text]) => text).join("") || " ";
        return row;
      });
      printed.replaceChildren(...shown);
    }, 60);
  }

  function point(second) {
    pinned = second;
    for (const one of charts) one.redraw(false);
    for (const one of charts) one.setCursor({left: one.valToPos(second, "x"), top: 10});
    lines(second);
  }

  // Events and idle stretches as buttons on the same axis, for the mouse and the keyboard.
  function lay() {
    const width = place.clientWidth - 12 - left - 8;
    const at = (second) => left + 5 + ((second - limits[0]) / (limits[1] - limits[0])) * width;
    const shown = (second) => second >= limits[0] && second <= limits[1];
    const buttons = [];
    for (const [begin, end] of data.idle) {
      if (!shown(begin) && !shown(end)) continue;
      buttons.push([Math.max(begin, limits[0]), `${lane.dataset.idle} ${short(begin)}–${short(end)} s`, "idle", at(Math.min(end, limits[1])) - at(Math.max(begin, limits[0]))]);
    }
    for (const event of data.events) if (shown(event.second)) buttons.push([event.second, `${event.type.replaceAll("_", " ")}${event.text ? ": " + event.text : ""} (${short(event.second)} s)`, "event", 0]);
    lane.replaceChildren(...buttons.map(([second, text, kind, wide]) => {
      const button = document.createElement("button");
      button.type = "button";
      button.className = kind;
      button.title = text;
      button.setAttribute("aria-label", text);
      button.style.left = `${at(second) - (kind === "event" ? 12 : 0)}px`;
      if (kind === "idle") button.style.width = `${Math.max(24, wide)}px`;
      button.addEventListener("click", () => { point(second); document.getElementById("said").textContent = text; });
      return button;
    }));
    lane.hidden = !buttons.length;
  }

  async function draw() {
    const turn = ++asked;
    const query = new URLSearchParams();
    for (const option of names.selectedOptions) query.append("name", option.value);
    if (range) { query.set("start", range[0]); query.set("end", range[1]); }
    const answer = await holdfast.json(`${place.dataset.run}/curves.json?${query}`);
    if (turn !== asked) return;
    data = answer;
    if (!names.options.length) {
      for (const name of data.names) names.add(new Option(name.slice(0, 200), name, false, data.curves.some((curve) => curve.name === name)));
      names.size = Math.min(4, Math.max(1, data.names.length));
      names.parentElement.hidden = !data.names.length;
    }
    const all = [...data.curves, ...data.lanes];
    const ends = all.flatMap((series) => [series.seconds[0], series.seconds[series.seconds.length - 1]]).filter((value) => value !== undefined);
    limits = range || [Math.min(0, ...ends), Math.max(1e-3, ...ends)];
    for (const old of charts) old.destroy();
    charts = [];
    place.replaceChildren();
    all.forEach((series, at) => chart(series, at, at < data.curves.length, at === all.length - 1));
    lay();
    place.dataset.drawn = charts.length;
  }

  names.addEventListener("change", draw);
  logarithmic.addEventListener("change", draw);
  document.getElementById("reset").addEventListener("click", () => { range = null; draw(); });
  place.tabIndex = 0;
  place.addEventListener("keydown", (event) => {
    const step = {ArrowLeft: -0.01, ArrowRight: 0.01, PageUp: -0.1, PageDown: 0.1}[event.key];
    if (!step || !charts.length) return;
    event.preventDefault();
    const from = pinned === null ? limits[0] : pinned;
    point(Math.min(limits[1], Math.max(limits[0], from + step * (limits[1] - limits[0]))));
  });
  window.addEventListener("resize", () => { for (const one of charts) one.setSize({width: place.clientWidth - 12, height: one.height}); lay(); });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  draw();
  holdfast.listen(place.dataset.topic, holdfast.inTurn(draw));
})();
