// Keyboard shortcuts; Settings turns them off.
"use strict";
(() => {
  if (document.documentElement.dataset.shortcuts === "off") return;
  const places = {p: "/projects", r: "/runs", j: "/jobs", t: "/targets", s: "/settings"};
  let before = "";
  function row(step) {
    const boxes = [...document.querySelectorAll("#grid tbody input[name=run]")];
    const at = boxes.indexOf(document.activeElement);
    const next = boxes[at < 0 ? 0 : Math.max(0, Math.min(boxes.length - 1, at + step))];
    if (!next) return;
    next.focus();
    next.scrollIntoView({block: "nearest"});
  }
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
    const field = event.target;
    const isTyped = field.matches("textarea, select, input:not([type=checkbox])");
    if (isTyped) return;
    const key = event.key;
    if (before === "g" && places[key]) location.href = places[key];
    else if (key === "?") location.href = "/help";
    else if (key === "/") {
      const search = document.querySelector("#where, #text");
      if (!search) return;
      event.preventDefault();
      search.focus();
    } else if (key === "j") row(1);
    else if (key === "k") row(-1);
    else if (key === "x" && field.matches("input[name=run]")) field.click();
    else if (key === "c") document.querySelector("#chosen:not([hidden]) button[form=compare]")?.click();
    before = key;
  });
})();
