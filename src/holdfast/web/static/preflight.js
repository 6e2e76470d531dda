// What the target says to the plan: its checks, and its GPUs with their holders.
"use strict";
(async () => {
  const list = document.getElementById("preflight");
  const words = list.dataset;
  const marks = {failed: ["bad", "✗"], warning: ["other", "!"], skipped: ["other", "–"], ok: ["good", "✓"]};
  const add = (kind, mark, name, text) => {
    const item = document.createElement("li");
    const head = document.createElement("span");
    head.className = `state ${kind}`;
    head.textContent = `${mark} ${name} `;
    item.append(head, text);
    list.append(item);
  };
  const fields = new URLSearchParams(new FormData(document.getElementById("start")));
  fields.delete("ticket");
  const answer = await fetch(words.address, {method: "POST", headers: {accept: "application/json"}, body: fields});
  const data = await answer.json();
  list.replaceChildren();
  if (!answer.ok) {
    add("bad", "✗", data.error, [data.where, data.answer, data.hint].filter(Boolean).join(" · "));
    list.dataset.ready = "1";
    return;
  }
  for (const tick of data.ticks) {
    const [kind, mark] = marks[tick.state] || marks.ok;
    let text = tick.found + (tick.fix ? ` (${tick.fix})` : "");
    if (tick.name === "packages" && data.last_environment) text += text.includes(data.last_environment) ? `, ${words.same}` : `, ${words.other} ${data.last_environment}`;
    add(kind, mark, tick.name, text);
  }
  const {gpus, queue, trouble} = data.machine;
  const name = (one) => `${one.run_number ? `${words.run} ${one.run_number}` : one.run_id || one.program || ""} ${one.user || ""}`.trim();
  for (const card of gpus) {
    const held = [...queue.filter((one) => (one.taken || []).includes(card.uuid)), ...(card.processes || [])].map(name);
    add(held.length ? "other" : "good", held.length ? "●" : "○", `GPU ${card.index}`, `${card.name || ""} ${Math.round(card.busy_percent || 0)} % · ${[...new Set(held)].join(", ") || words.free}`);
  }
  if (!gpus.length && trouble) add("other", "–", "GPU", trouble);
  const waiting = queue.filter((one) => !one.taken);
  if (waiting.length) add("other", "!", words.queue, waiting.map(name).join(", "));
  list.dataset.ready = "1";
})();
