// The GPUs of a target while one looks at them.
"use strict";
(() => {
  const table = document.getElementById("targets");
  const words = table.dataset;
  const place = (inside) => {
    const row = inside.closest("tr").nextElementSibling;
    row.hidden = false;
    return row.cells[0];
  };

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
