// Replaces the part of a page that shows runs when runs have changed.
"use strict";
(() => {
  const part = document.getElementById("reload");
  let busy = false;
  holdfast.listen(part.dataset.topic, async () => {
    if (busy || part.contains(document.activeElement)) return;
    busy = true;
    try {
      const answer = await fetch(location.href);
      if (!answer.ok) return;
      const page = new DOMParser().parseFromString(await answer.text(), "text/html").getElementById("reload");
      if (page) part.replaceChildren(...page.childNodes);
    } finally { busy = false; }
  });
})();
