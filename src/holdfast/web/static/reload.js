// Replaces the parts of a page that show runs when runs have changed; each has an id and names its topic.
"use strict";
(() => {
  const parts = [...document.querySelectorAll("[data-reload]")];
  const late = new Set();
  const reload = holdfast.inTurn(async () => {
    const answer = await fetch(location.href);
    if (!answer.ok) return;
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    late.clear();
    for (const part of parts) {
      const now = page.getElementById(part.id);
      // Nothing is taken away below the keyboard.
      if (part.contains(document.activeElement)) late.add(part);
      else if (now && now.innerHTML !== part.innerHTML) part.replaceChildren(...now.childNodes);
    }
    // What is drawn by a script is there from the first sample on.
    const isNew = page.getElementById("charts") && !document.getElementById("charts");
    if (isNew && document.activeElement === document.body) location.reload();
  });
  for (const part of parts) part.addEventListener("focusout", () => setTimeout(() => late.has(part) && reload()));
  const topic = parts.length ? parts[0].dataset.reload : "";
  if (!holdfast.also(topic, reload)) holdfast.listen(topic, reload);
})();
