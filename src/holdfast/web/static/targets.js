// The steps of a test as they are known, and the GPUs of a target while one looks at them.
"use strict";
(() => {
  const table = document.getElementById("targets");
  const words = table.dataset;
  const marks = {failed: ["bad", "✗"], warning: ["other", "!"], skipped: ["other", "–"], ok: ["good", "✓"]};
  const place = (inside) => {
    const row = inside.closest("tr").nextElementSibling;
    row.hidden = false;
    return row.cells[0];
  };

  async function check(form) {
    const cell = place(form);
    const list = document.createElement("ul");
    list.className = "plain";
    cell.replaceChildren(list);
    const button = form.querySelector("button");
    button.disabled = true;
    const show = (tick) => {
      const [kind, mark] = marks[tick.state] || marks.ok;
      const item = document.createElement("li");
      const head = document.createElement("span");
      head.className = `state ${kind}`;
      head.textContent = `${mark} ${tick.name}: `;
      item.append(head, tick.found + (tick.fix ? ` (${tick.fix})` : ""));
      list.append(item);
    };
    try {
      const answer = await fetch(form.action, {method: "POST", headers: {accept: "application/json", "content-type": "application/x-www-form-urlencoded"}, body: ""});
      if (!answer.ok) {
        const error = await answer.json();
        show({state: "failed", name: error.error, found: [error.answer, error.hint].filter(Boolean).join(" ")});
        return;
      }
      const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
      let rest = "";
      for (let part = await reader.read(); !part.done; part = await reader.read()) {
        const lines = (rest + part.value).split("\n");
        rest = lines.pop();
        lines.filter(Boolean).forEach((line) => show(JSON.parse(line)));
      }
    } finally { button.disabled = false; }
  }
  for (const form of document.querySelectorAll("form[data-check]")) {
    form.addEventListener("submit", (event) => { event.preventDefault(); check(form); });
    if ("now" in form.dataset) check(form);
  }

  function holders(card, queue) {
    const processes = (card.processes || []).map((one) => [one.run_number ? `${words.run} ${one.run_number}` : one.run_id, one.user, one.program].filter(Boolean).join(" "));
    const taken = queue.filter((one) => (one.taken || []).includes(card.uuid)).map((one) => `${one.run_number ? `${words.run} ${one.run_number}` : one.run_id} ${one.user}`);
    return [...new Set([...taken, ...processes])].join(", ") || words.free;
  }
  function show(cell, news) {
    if (news.problem) { cell.textContent = news.problem; return; }
    const {machine} = news;
    if (!machine) return;
    if (!machine.gpus.length) { cell.textContent = machine.trouble || words.none; return; }
    cell.replaceChildren(...machine.gpus.map((card) => {
      const row = document.createElement("div");
      row.className = "bar";
      const meter = document.createElement("meter");
      Object.assign(meter, {min: 0, max: 100, value: card.busy_percent || 0});
      meter.setAttribute("aria-label", `GPU ${card.index} ${words.busy}`);
      const memory = card.memory_total ? `${(card.memory_used / 1e9).toFixed(1)} / ${(card.memory_total / 1e9).toFixed(0)} GB` : "";
      row.append(`${card.index} ${card.name || ""}`, meter, `${Math.round(card.busy_percent || 0)} %`, ` ${memory} · ${holders(card, machine.queue)}`);
      return row;
    }));
    const waiting = machine.queue.filter((one) => !one.taken);
    const line = document.createElement("p");
    line.textContent = `${words.queue}: ${waiting.length ? waiting.map((one) => `${one.run_number ? `${words.run} ${one.run_number}` : one.run_id} ${one.user} (${one.count})`).join(", ") : 0}`;
    cell.append(line);
  }
  for (const button of document.querySelectorAll("button[data-live]")) {
    button.addEventListener("click", () => {
      if (button.getAttribute("aria-pressed") === "true") return;
      button.setAttribute("aria-pressed", "true");
      const cell = place(button);
      cell.textContent = "…";
      holdfast.listen(button.dataset.live, (news) => show(cell, news));
    });
  }
})();
