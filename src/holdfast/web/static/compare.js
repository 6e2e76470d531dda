// Curves of several runs over each other, one chart for each metric that at least one of them has.
"use strict";
(async () => {
  const place = document.getElementById("charts");
  const uids = place.dataset.uids.split(",").slice(0, 20);
  const names = place.dataset.names.split("\n");
  const colours = ["#3e7cb1", "#b5533c", "#2e8b57", "#8f6bb3", "#b07d2b", "#4fa3a5"];
  const style = getComputedStyle(document.documentElement);
  const found = await Promise.all(uids.map((uid) => holdfast.json(`/runs/${uid}/curves.json`)));
  const metrics = new Map();
  found.forEach((data, run) => data.curves.forEach((curve) => {
    if (!metrics.has(curve.name)) metrics.set(curve.name, []);
    metrics.get(curve.name).push({run, curve});
  }));
  let charts = [];
  function draw() {
    const axis = {stroke: style.getPropertyValue("--faint"), grid: {stroke: style.getPropertyValue("--line"), width: 1}};
    for (const old of charts) old.destroy();
    place.replaceChildren();
    charts = [];
    for (const [name, curves] of metrics) {
      if (curves.every(({curve}) => curve.points < 2)) continue;
      const box = document.createElement("div");
      box.className = "chart";
      box.setAttribute("role", "img");
      box.setAttribute("aria-label", name);
      place.append(box);
      const data = uPlot.join(curves.map(({curve}) => [curve.steps, curve.values]));
      charts.push(new uPlot({
        title: name.slice(0, 80), width: place.clientWidth - 12, height: 190, cursor: {sync: {key: "time"}},
        scales: {x: {time: false}}, axes: [{...axis, size: 28}, {...axis, size: 64}],
        series: [{label: place.dataset.step}, ...curves.map(({run}) => ({label: names[run], stroke: colours[run % colours.length], width: 1.25, spanGaps: true, points: {show: false}}))],
      }, data, box));
    }
  }
  draw();
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  window.addEventListener("resize", () => { for (const one of charts) one.setSize({width: place.clientWidth - 12, height: one.height}); });
  place.dataset.drawn = "1";
})();
