// Charts over the grid: points of two axes, or parallel coordinates. Both brush the same limits, one pair an axis; what
// lies within all of them can be selected in the grid or become its filter. The limits can be typed as well.
"use strict";
(async () => {
  const section = document.getElementById("points");
  const canvas = document.getElementById("canvas");
  const field = document.getElementById("axis");
  const kind = section.dataset.kind;
  const {state, pick} = holdfast.grid;
  const limits = new Map();
  const edge = {left: kind === "points" ? 64 : 16, right: kind === "points" ? 24 : 16, top: 22, bottom: 30};
  const style = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const short = (value) => String(+value.toPrecision(4));
  let data = {uids: [], axes: [], columns: [], total: 0};
  let ranges = [];
  let drag = null;

  const names = await holdfast.json("/names.json");
  const known = new Set([...field.options].map((option) => option.value));
  const numeric = (name) => name.startsWith("metrics.") || name.startsWith("params.") || ["duration", "run_number", "exit_code"].includes(name);
  for (const name of names) if (numeric(name) && !known.has(name)) field.add(new Option(name.slice(0, 120), name));
  if (!field.selectedOptions.length) {
    const wanted = kind === "points" ? 2 : 5;
    const first = ["duration", ...names.filter((name) => name.startsWith("metrics.")), ...names.filter((name) => name.startsWith("params."))];
    const order = kind === "points" ? [first[0], first[1]] : [...names.filter((name) => name.startsWith("params.")).slice(0, 3), ...first];
    let count = 0;
    for (const name of order) for (const option of field.options) if (option.value === name && !option.selected && count < wanted) { option.selected = true; count += 1; }
  }

  const inside = (at) => data.axes.every((name, axis) => {
    const limit = limits.get(name);
    const value = data.columns[axis][at];
    return !limit || (value !== null && value >= limit[0] && value <= limit[1]);
  });
  const drawable = (at) => (kind === "points" ? data.columns.slice(0, 2) : data.columns).every((column) => column[at] !== null);
  const chosen = () => data.uids.filter((_, at) => inside(at) && (kind !== "points" || drawable(at)));

  // From a value to a place in the chart and back.
  const box = () => ({width: canvas.clientWidth - edge.left - edge.right, height: canvas.clientHeight - edge.top - edge.bottom});
  const share = (axis, value) => (ranges[axis][0] === ranges[axis][1] ? 0.5 : (value - ranges[axis][0]) / (ranges[axis][1] - ranges[axis][0]));
  const axisX = (axis) => edge.left + (data.axes.length > 1 ? (axis / (data.axes.length - 1)) * box().width : 0);
  const upward = (axis, value) => edge.top + (1 - share(axis, value)) * box().height;
  const across = (value) => edge.left + share(0, value) * box().width;
  const valueAtY = (axis, y) => ranges[axis][0] + (1 - (y - edge.top) / box().height) * (ranges[axis][1] - ranges[axis][0]);
  const valueAtX = (x) => ranges[0][0] + ((x - edge.left) / box().width) * (ranges[0][1] - ranges[0][0]);

  function draw() {
    const ratio = devicePixelRatio || 1;
    canvas.width = canvas.clientWidth * ratio;
    canvas.height = canvas.clientHeight * ratio;
    const pen = canvas.getContext("2d");
    pen.scale(ratio, ratio);
    pen.font = "12px system-ui, sans-serif";
    const usable = data.uids.map((_, at) => at).filter(drawable);
    document.getElementById("brushed").textContent = usable.length
      ? `${chosen().length.toLocaleString("en")} ${section.dataset.of} ${data.uids.length.toLocaleString("en")}${data.total > data.uids.length ? ` (${section.dataset.drawnOf} ${data.total.toLocaleString("en")})` : ""}`
      : section.dataset.none;
    section.dataset.ready = String(usable.length);
    if (!usable.length) return;
    if (kind === "points") drawPoints(pen, usable);
    else drawLines(pen, usable);
  }

  // The end of a name says more than its beginning: metrics.accuracy is ...accuracy where there is no room.
  function fitted(pen, text, width) {
    let end = text;
    while (end && pen.measureText(end === text ? end : `…${end}`).width > width) end = end.slice(1);
    return end === text ? text : `…${end}`;
  }

  // As many ticks as have room for their numbers; one for an axis on which all runs have the same value.
  function ticks(axis, room) {
    const [low, high] = ranges[axis];
    if (low === high) return [0.5];
    const count = Math.max(1, Math.min(4, Math.floor(room)));
    return Array.from({length: count + 1}, (_, at) => at / count);
  }

  function drawPoints(pen, usable) {
    pen.strokeStyle = style("--line");
    pen.fillStyle = style("--faint");
    const widest = Math.max(...[0, 0.25, 0.5, 0.75, 1].map((part) => pen.measureText(short(valueAtX(edge.left + part * box().width))).width));
    for (const part of ticks(0, box().width / (widest + 10))) {
      const x = edge.left + part * box().width;
      pen.beginPath();
      pen.moveTo(x, edge.top); pen.lineTo(x, edge.top + box().height);
      pen.stroke();
      pen.textAlign = "center";
      pen.fillText(short(valueAtX(x)), x, edge.top + box().height + 14);
    }
    for (const part of ticks(1, 4)) {
      const y = edge.top + (1 - part) * box().height;
      pen.beginPath();
      pen.moveTo(edge.left, y); pen.lineTo(edge.left + box().width, y);
      pen.stroke();
      pen.textAlign = "right";
      pen.fillText(short(valueAtY(1, y)), edge.left - 6, y + 4);
    }
    pen.textAlign = "center";
    pen.fillStyle = style("--ink");
    pen.fillText(fitted(pen, data.axes[0].slice(0, 80), box().width), edge.left + box().width / 2, canvas.clientHeight - 3);
    pen.textAlign = "left";
    pen.fillText(`${fitted(pen, data.axes[1].slice(0, 80), box().width)} ↑`, 2, 10);
    for (const at of usable) {
      const is = inside(at);
      pen.fillStyle = is ? style("--accent") : style("--line");
      const x = across(data.columns[0][at]);
      const y = upward(1, data.columns[1][at]);
      if (is) { pen.beginPath(); pen.arc(x, y, 3.5, 0, 7); pen.fill(); } else pen.fillRect(x - 2, y - 2, 4, 4);
    }
    const [a, b] = [limits.get(data.axes[0]), limits.get(data.axes[1])];
    if (a && b) { pen.strokeStyle = style("--ink"); pen.strokeRect(across(a[0]), upward(1, b[1]), across(a[1]) - across(a[0]), upward(1, b[0]) - upward(1, b[1])); }
  }

  function drawLines(pen, usable) {
    // Where neighbours would touch, the text of every other axis is in a row of its own.
    const most = data.axes.length - 1;
    const gap = box().width / Math.max(1, most);
    const part = (axis) => (axis === 0 || axis === most ? 0.5 : 1); // texts at the ends are not centred
    const texts = data.axes.map((name, axis) => [name.slice(0, 80), short(ranges[axis][1]), short(ranges[axis][0])]);
    const isTight = texts.some((of, axis) => of.some((text) => pen.measureText(text).width > part(axis) * gap - 8));
    edge.top = isTight ? 34 : 22;
    edge.bottom = isTight ? 56 : 30;
    for (const is of [false, true]) {
      pen.strokeStyle = is ? style("--accent") : style("--line");
      pen.globalAlpha = is ? Math.max(0.08, Math.min(1, 60 / usable.length)) : 0.5;
      for (const at of usable) {
        if (inside(at) !== is) continue;
        pen.beginPath();
        data.columns.forEach((column, axis) => pen.lineTo(axisX(axis), upward(axis, column[at])));
        pen.stroke();
      }
    }
    pen.globalAlpha = 1;
    data.axes.forEach((name, axis) => {
      const x = axisX(axis);
      const below = isTight && axis % 2 ? 12 : 0;
      const write = (text, y) => pen.fillText(fitted(pen, text, Math.min(part(axis) * gap * (isTight ? 2 : 1) - 8, box().width)), x, y);
      pen.strokeStyle = style("--ink");
      pen.fillStyle = style("--ink");
      pen.beginPath();
      pen.moveTo(x, edge.top); pen.lineTo(x, edge.top + box().height);
      pen.stroke();
      pen.textAlign = axis === 0 ? "left" : axis === data.axes.length - 1 ? "right" : "center";
      write(texts[axis][1], edge.top - 3 - below);
      write(texts[axis][2], edge.top + box().height + 12 + below);
      write(texts[axis][0], edge.top + box().height + (isTight ? 38 : 26) + below);
      const limit = limits.get(name);
      if (limit) { pen.globalAlpha = 0.25; pen.fillRect(x - 7, upward(axis, limit[1]), 14, upward(axis, limit[0]) - upward(axis, limit[1])); pen.globalAlpha = 1; }
    });
  }

  // The same limits as fields, for the keyboard.
  function fields() {
    document.getElementById("limits").replaceChildren(...data.axes.flatMap((name) => {
      const label = document.createElement("span");
      label.textContent = name.slice(0, 80);
      const inputs = [0, 1].map((side) => {
        const input = document.createElement("input");
        input.inputMode = "decimal";
        input.setAttribute("aria-label", `${name} ${side ? section.dataset.to : section.dataset.from}`);
        const limit = limits.get(name);
        input.value = limit && Number.isFinite(limit[side]) ? limit[side] : "";
        input.addEventListener("change", () => {
          const now = [...(limits.get(name) || [-Infinity, Infinity])];
          now[side] = input.value.trim() === "" || Number.isNaN(Number(input.value)) ? [-Infinity, Infinity][side] : Number(input.value);
          limits.set(name, now);
          draw();
        });
        return input;
      });
      return [label, ...inputs];
    }));
  }

  const place = (event) => { const area = canvas.getBoundingClientRect(); return [event.clientX - area.left, event.clientY - area.top]; };
  canvas.addEventListener("pointerdown", (event) => {
    if (!data.axes.length) return;
    const [x, y] = place(event);
    const axis = Math.max(0, Math.min(data.axes.length - 1, Math.round(((x - edge.left) / box().width) * (data.axes.length - 1))));
    drag = {x, y, axis};
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener("pointermove", (event) => {
    if (!drag) return;
    const [x, y] = place(event);
    if (Math.abs(x - drag.x) + Math.abs(y - drag.y) < 5) return;
    const axis = kind === "points" ? 1 : drag.axis;
    limits.set(data.axes[axis], [valueAtY(axis, Math.max(y, drag.y)), valueAtY(axis, Math.min(y, drag.y))]);
    if (kind === "points") limits.set(data.axes[0], [valueAtX(Math.min(x, drag.x)), valueAtX(Math.max(x, drag.x))]);
    draw();
  });
  canvas.addEventListener("pointerup", () => { drag = null; fields(); });
  document.getElementById("unbrush").addEventListener("click", () => { limits.clear(); fields(); draw(); });
  document.getElementById("pick").addEventListener("click", () => pick(chosen()));
  document.getElementById("as-filter").addEventListener("click", () => {
    const quoted = (name) => (/[,`"' -]/.test(name) ? `\`${name.replaceAll("`", "``")}\`` : name);
    const parts = [...limits].flatMap(([name, [low, high]]) => [Number.isFinite(low) ? `${quoted(name)} >= ${short(low)}` : "", Number.isFinite(high) ? `${quoted(name)} <= ${short(high)}` : ""]).filter(Boolean);
    const query = new URLSearchParams(location.search);
    if (state.where) parts.unshift(`(${state.where})`);
    query.set("where", parts.join(" and "));
    location.search = query;
  });
  document.getElementById("axes").addEventListener("submit", (event) => {
    event.preventDefault();
    const query = new URLSearchParams(location.search);
    query.delete("axis");
    query.set("chart", document.getElementById("kind").value);
    for (const option of field.selectedOptions) query.append("axis", option.value);
    location.search = query;
  });
  window.addEventListener("resize", draw);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);

  async function load() {
    const query = new URLSearchParams(Object.entries(state).filter(([name, value]) => value && name !== "columns"));
    for (const option of field.selectedOptions) query.append("axis", option.value);
    const found = await holdfast.json(`/points.json?${query}`);
    if (kind === "points") { found.axes = found.axes.slice(0, 2); found.columns = found.columns.slice(0, 2); }
    if (kind === "points" && found.axes.length < 2) return;
    data = found;
    ranges = data.columns.map((column) => column.reduce(([low, high], value) => (value === null ? [low, high] : [Math.min(low, value), Math.max(high, value)]), [Infinity, -Infinity]));
    fields();
    draw();
  }
  load();
  holdfast.also("runs", holdfast.inTurn(load));
})();
