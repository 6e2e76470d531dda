// The steps of what a target or a command does, as they are known.
"use strict";
(() => {
  const marks = {failed: ["bad", "✗"], warning: ["other", "!"], skipped: ["other", "–"], ok: ["good", "✓"]};

  async function check(form) {
    const row = form.closest("tr")?.nextElementSibling;
    const cell = row ? row.cells[0] : document.getElementById(form.dataset.into);
    (row || cell).hidden = false;
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
      head.textContent = tick.name ? `${mark} ${tick.name}: ` : "";
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
})();
