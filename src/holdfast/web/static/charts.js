// Curves and GPU lanes of a run on one time axis with one cursor. Zooming fetches the range again, with its peaks.
"use strict";
(() => {
  const place = document.getElementById("charts");
  if (!place) return;
  const names = document.getElementById("names");
  const logarithmic = document.getElementById("log-scale");
  const colours = ["#3e7cb1", "#b5533c", "#2e8b57", "#8f6bb3", "#b07d2b", "#4fa3a5"];
  const sync = uPlot.sync("time");
  let charts = [];
  let range = null;
  let asked = 0;

  const ink = () => getComputedStyle(document.documentElement).getPropertyValue("--faint");
  const grid = () => getComputedStyle(document.documentElement).getPropertyValue("--line");

  function chart(series, at, limits, tall) {
    const box = document.createElement("div");
    box.className = "chart";
    box.setAttribute("role", "img");
    box.setAttribute("aria-label", `${series.name}: ${series.points}`);
    place.append(box);
    const axis = {stroke: ink(), grid: {stroke: grid(), width: 1}, ticks: {stroke: grid(), width: 1}};
    const colour = colours[at % colours.length];
    const useLog = logarithmic.checked && tall && series.values.every((value) => value === null || value > 0);
    const options = {
      width: place.clientWidth - 12,
      height: tall ? 180 : 92,
      cursor: {sync: {key: sync.key}, drag: {x: true, y: false, setScale: false}},
      legend: {live: true},
      scales: {x: {time: false, min: limits[0], max: limits[1]}, y: useLog ? {distr: 3} : {}},
      axes: [{...axis, size: 28}, {...axis, size: 64}],
      series: [{label: place.dataset.seconds},
        {label: series.name.slice(0, 80), stroke: colour, width: 1.25, spanGaps: true, points: {show: series.values.length < 60}}],
      hooks: {setSelect: [(self) => {
        if (self.select.width < 4) return;
        range = [self.posToVal(self.select.left, "x"), self.posToVal(self.select.left + self.select.width, "x")];
        draw();
      }]},
    };
    charts.push(new uPlot(options, [series.seconds, series.values], box));
  }

  async function draw() {
    const turn = ++asked;
    const query = new URLSearchParams();
    for (const option of names.selectedOptions) query.append("name", option.value);
    if (range) { query.set("start", range[0]); query.set("end", range[1]); }
    const data = await holdfast.json(`${place.dataset.curves}?${query}`);
    if (turn !== asked) return;
    if (!names.options.length) {
      for (const name of data.names) names.add(new Option(name.slice(0, 200), name, false, data.curves.some((curve) => curve.name === name)));
      names.size = Math.min(4, Math.max(1, data.names.length));
    }
    const all = [...data.curves, ...data.lanes];
    const ends = all.flatMap((series) => [series.seconds[0], series.seconds[series.seconds.length - 1]]).filter((value) => value !== undefined);
    const limits = range || [Math.min(0, ...ends), Math.max(1e-3, ...ends)];
    for (const old of charts) old.destroy();
    charts = [];
    place.replaceChildren();
    data.curves.forEach((series, at) => chart(series, at, limits, true));
    data.lanes.forEach((series, at) => chart(series, at + data.curves.length, limits, false));
    place.dataset.drawn = charts.length;
  }

  names.addEventListener("change", draw);
  logarithmic.addEventListener("change", draw);
  document.getElementById("reset").addEventListener("click", () => { range = null; draw(); });
  window.addEventListener("resize", () => { for (const one of charts) one.setSize({width: place.clientWidth - 12, height: one.height}); });
  draw();
  holdfast.listen(place.dataset.topic, holdfast.inTurn(draw));
})();
