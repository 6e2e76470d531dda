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
  const pinned = Number(grid.dataset.pinned);
  let total = Number(grid.dataset.total);
  let shown = Number(grid.dataset.first);
  let asked = 0;

  const space = document.createElement("div");
  grid.append(space);

  function layOut() {
    space.style.height = `${(total + 1) * height}px`;
    space.style.width = "1px";
    table.style.top = `${shown * height}px`;
    pin();
  }

  // The first columns stay while one scrolls sideways; on a narrow page one of them is enough.
  function pin() {
    const wanted = grid.clientWidth < 600 ? Math.min(1, pinned) : pinned;
    const heads = [...table.tHead.rows[0].cells];
    let left = 0;
    const places = heads.slice(1, 1 + wanted).map((head) => { const at = left; left += head.offsetWidth; return at; });
    for (const line of table.rows) {
      places.forEach((at, index) => { line.cells[index + 1].classList.add("pinned"); line.cells[index + 1].style.left = `${at}px`; });
    }
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
  // ---- Selected runs
  const bar = document.getElementById("chosen");
  function tellChosen() {
    bar.hidden = !picked.size;
    document.getElementById("count").textContent = picked.size.toLocaleString("en");
    for (const box of body.querySelectorAll("input[name=run]")) box.checked = picked.has(box.value);
  }
  function pick(uids) {
    for (const uid of uids) if (picked.size < 1000) picked.add(uid);
    tellChosen();
  }
  body.addEventListener("change", ({target}) => {
    if (target.checked) picked.add(target.value);
    else picked.delete(target.value);
    tellChosen();
  });
  let last = null;
  body.addEventListener("click", (event) => { // with Shift: all rows from the one before
    if (!event.target.matches("input[name=run]")) return;
    const boxes = [...body.querySelectorAll("input[name=run]")];
    const now = boxes.indexOf(event.target);
    const before = boxes.findIndex((box) => box.value === last);
    if (event.shiftKey && before >= 0) pick(boxes.slice(Math.min(now, before), Math.max(now, before) + 1).map((box) => box.value));
    last = event.target.value;
  });
  document.getElementById("clear").addEventListener("click", () => { picked.clear(); tellChosen(); });
  document.getElementById("compare").addEventListener("submit", (event) => {
    event.preventDefault();
    if (picked.size < 2) return;
    location.href = "/compare?" + [...picked].map((uid) => `run=${uid}`).join("&");
  });
  document.getElementById("export").addEventListener("click", () => {
    const query = new URLSearchParams(Object.entries(state).filter(([, value]) => value));
    for (const uid of picked) query.append("run", uid);
    location.href = `/runs.csv?${query}`;
  });
  for (const form of document.querySelectorAll("form.on-chosen")) {
    form.addEventListener("submit", () => {
      if (form.elements.runs) form.elements.runs.value = [...picked].join(",");
      form.elements.view.value = location.search.slice(1);
    });
  }

  // ---- Jump to a row
  document.getElementById("jump").addEventListener("submit", (event) => {
    event.preventDefault();
    const number = Number(document.getElementById("row").value.replace(/[^0-9]/g, ""));
    if (!number) return;
    grid.scrollTop = (Math.min(number, total) - 1) * height;
    grid.focus({preventScroll: true});
  });

  // ---- Columns and saved views
  const panel = document.getElementById("columns");
  const order = document.getElementById("order");
  let columns = (panel.dataset.first.match(/`[^`]*(?:``[^`]*)*`|[^,]+/g) || []).map((name) => name.trim());
  function list() {
    order.replaceChildren(...columns.map((name, at) => {
      const row = document.createElement("li");
      row.append(name.slice(0, 120), " ");
      for (const [text, label, work] of [["◀", panel.dataset.up, -1], ["▶", panel.dataset.down, 1], ["✕", panel.dataset.remove, 0]]) {
        const button = document.createElement("button");
        button.type = "button";
        button.textContent = text;
        button.setAttribute("aria-label", `${label}: ${name}`);
        button.addEventListener("click", () => {
          columns.splice(at, 1);
          if (work) columns.splice(Math.max(0, at + work), 0, name);
          list();
          const again = order.children[Math.min(columns.length - 1, Math.max(0, at + work))];
          if (again) again.querySelectorAll("button")[work === -1 ? 0 : work === 1 ? 1 : 2].focus();
        });
        row.append(button);
      }
      return row;
    }));
  }
  async function offerNames() {
    const data = await holdfast.json("/names.json");
    document.getElementById("names").replaceChildren(...data.map((name) => new Option("", name)));
  }
  const choose = document.getElementById("choose");
  choose.addEventListener("click", () => {
    panel.hidden = !panel.hidden;
    choose.setAttribute("aria-expanded", String(!panel.hidden));
    if (!panel.hidden) { list(); offerNames().catch(() => {}); }
  });
  document.getElementById("add-column").addEventListener("click", () => {
    const field = document.getElementById("add");
    const name = field.value.trim();
    if (!name) return;
    columns.push(/[,`"' -]/.test(name) && !name.startsWith("`") ? `\`${name.replaceAll("`", "``")}\`` : name);
    field.value = "";
    list();
  });
  document.getElementById("use-columns").addEventListener("click", () => {
    const query = new URLSearchParams(location.search);
    query.set("columns", columns.join(","));
    query.set("pinned", document.getElementById("pinned").value);
    location.search = query;
  });
  document.getElementById("views").addEventListener("change", ({target}) => {
    if (target.value.startsWith("/runs")) location.href = target.value;
  });
  holdfast.grid = {pick, state, table};

  window.addEventListener("resize", () => { pin(); fetchRows(false).catch(() => {}); });

  layOut();
  if (shown) grid.scrollTop = shown * height;
  if (grid.clientHeight / height > body.rows.length && body.rows.length < total) fetchRows(true);
  if (!document.getElementById("mistake")) holdfast.listen("runs", holdfast.inTurn(() => fetchRows(true)));
  document.documentElement.dataset.ready = "1";
})();
