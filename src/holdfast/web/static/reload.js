// Replaces the part of a page that shows runs when runs have changed.
"use strict";
(() => {
  const part = document.getElementById("reload");
  let isLate = false;
  const reload = holdfast.inTurn(async () => {
    isLate = part.contains(document.activeElement); // nothing is taken away below the keyboard
    if (isLate) return;
    const answer = await fetch(location.href);
    if (!answer.ok) return;
    const page = new DOMParser().parseFromString(await answer.text(), "text/html").getElementById("reload");
    if (page) part.replaceChildren(...page.childNodes);
  });
  part.addEventListener("focusout", () => setTimeout(() => isLate && reload()));
  holdfast.listen(part.dataset.topic, reload);
})();
