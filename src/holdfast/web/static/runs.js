// The grid of runs: rows are fetched by window as one scrolls; the address stays the state of the view.
"use strict";
(() => {
  const grid = document.getElementById("grid");
  const table = grid.querySelector("table");
  const body = table.tBodies[0];
  const state = JSON.parse(grid.dataset.state);
  const marks = {good: "✓", bad: "✗", live: "▶", other: "○"};
  const height = 26;
  const margin = 20;
  const picked = new Set();
  let total = Number(grid.dataset.total);
  let shown = Number(grid.dataset.first);
  let asked = 0;

  const space = document.createElement("div");
  grid.append(space);

  function layOut() {
    space.style.height = `${(total + 1) * height}px`;
    space.style.width = "1px";
    table.style.top = `${shown * height}px`;
    for (const head of table.tHead.rows[0].cells) head.style.top = "0";
  }

  function row(data, entry, number) {
    const line = document.createElement("tr");
    line.setAttribute("aria-rowindex", number + 2);
    const pick = line.insertCell();
    pick.className = "pick";
    const box = document.createElement("input");
    Object.assign(box, {type: "checkbox", name: "run", value: entry.uid, checked: picked.has(entry.uid)});
    box.setAttribute("form", "compare");
    box.setAttribute("aria-label", `${grid.dataset.select} ${entry.cells[0]}`);
    pick.append(box);
    entry.cells.forEach((text, at) => {
      const cell = line.insertCell();
      if (data.numeric[at]) cell.className = "number";
      if (at === 0) {
        const link = document.createElement("a");
        link.href = `/runs/${entry.uid}`;
        link.textContent = text || entry.uid.slice(0, 8);
        cell.append(link);
      } else if (data.columns[at] === "status") {
        cell.className = `state ${entry.state}`;
        cell.textContent = `${marks[entry.state]} ${text}`;
      } else {
        cell.textContent = text;
        if (text.length > 36) cell.title = text;
      }
    });
    return line;
  }

  async function fetchRows(force) {
    const visible = Math.ceil(grid.clientHeight / height);
    const first = Math.max(0, Math.floor(grid.scrollTop / height) - margin);
    const last = Math.min(total, first + visible + 2 * margin);
    const have = shown <= Math.max(0, first - 0) && shown + body.rows.length >= last;
    if (have && !force) return;
    const turn = ++asked;
    const query = new URLSearchParams({...state, from: first, count: visible + 3 * margin});
    const data = await holdfast.json(`/rows.json?${query}`);
    if (turn !== asked) return;
    const active = document.activeElement;
    const focused = active && body.contains(active)
      ? (active.name === "run" ? `input[value="${active.value}"]` : `a[href="${active.getAttribute("href")}"]`) : null;
    body.replaceChildren(...data.rows.map((entry, at) => row(data, entry, first + at)));
    shown = first;
    total = data.total;
    document.querySelector("#total b").textContent = total.toLocaleString("en");
    table.setAttribute("aria-rowcount", total + 1);
    layOut();
    if (focused) body.querySelector(focused)?.focus();
  }

  let waiting = 0;
  grid.addEventListener("scroll", () => {
    if (waiting) return;
    waiting = requestAnimationFrame(() => { waiting = 0; fetchRows(false).catch(() => {}); });
  });
  body.addEventListener("change", ({target}) => (target.checked ? picked.add(target.value) : picked.delete(target.value)));
  document.getElementById("compare").addEventListener("submit", (event) => {
    event.preventDefault();
    if (picked.size < 2) return;
    location.href = "/compare?" + [...picked].map((uid) => `run=${uid}`).join("&");
  });
  window.addEventListener("resize", () => fetchRows(false).catch(() => {}));

  layOut();
  if (shown) grid.scrollTop = shown * height;
  if (grid.clientHeight / height > body.rows.length && body.rows.length < total) fetchRows(true);
  if (!document.getElementById("mistake")) holdfast.listen("runs", holdfast.inTurn(() => fetchRows(true)));
  document.documentElement.dataset.ready = "1";
})();
