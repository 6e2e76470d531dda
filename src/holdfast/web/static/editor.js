// The text of a file with line numbers, findings in the margin and syntax colours, which lie below the text field.
"use strict";
(() => {
  const editor = document.querySelector(".editor");
  if (!editor) return;
  const field = editor.querySelector("textarea");
  const findings = JSON.parse(editor.dataset.findings || "{}");
  const form = document.getElementById("text-form");
  const most = 200000; // characters that are painted at once
  const words = "and as assert async await break class continue def del elif else except finally for from global if import in is lambda match nonlocal not or pass raise return try while with yield True False None case do done echo esac export fi function local then unset";
  const kinds = [
    ["c", /#[^\n]*|\/\/[^\n]*/],
    ["t", /[rbfu]{0,2}"""[\s\S]*?(?:"""|$)|[rbfu]{0,2}'''[\s\S]*?(?:'''|$)|[rbfu]{0,2}"(?:\\.|[^"\\\n])*"?|[rbfu]{0,2}'(?:\\.|[^'\\\n])*'?/],
    ["k", new RegExp(`\\b(?:${words.split(" ").join("|")})\\b`)],
    ["k", /^[ \t-]*[\w.-]+(?=:(?:\s|$))/],
    ["n", /\b\d[\w.]*\b/],
  ];
  const name = editor.dataset.name;
  const isPython = /\.(py|sh|toml|cfg|ini)$/.test(name);
  const isMap = /\.(ya?ml|compute|runconfig|json|ipynb)$/.test(name);
  const used = kinds.filter((_, at) => (at === 0 ? isPython || isMap : at === 2 ? isPython : at === 3 ? isMap : isPython || isMap));
  const pattern = used.length ? new RegExp(used.map(([, expression]) => `(${expression.source})`).join("|"), "gm") : null;

  const gutter = document.createElement("pre");
  gutter.className = "gutter mono";
  gutter.setAttribute("aria-hidden", "true");
  const sheet = document.createElement("div");
  sheet.className = "sheet";
  const paint = document.createElement("pre");
  paint.className = "paint mono";
  paint.setAttribute("aria-hidden", "true");
  sheet.append(paint, field);
  editor.append(gutter, sheet);
  const saved = field.value;
  let waiting = 0;

  function numbers() {
    const count = field.value.split("\n").length;
    if (gutter.childElementCount === count) return;
    gutter.replaceChildren(...Array.from({length: Math.min(count, 20000)}, (_, at) => {
      const line = document.createElement("span");
      line.textContent = `${at + 1}\n`;
      const severity = findings[at + 1];
      if (severity) line.className = severity === "error" ? "error" : "warning";
      return line;
    }));
  }

  function colours() {
    waiting = 0;
    numbers();
    const text = field.value;
    const isPainted = pattern !== null && text.length <= most;
    editor.classList.toggle("painted", isPainted);
    paint.replaceChildren();
    if (!isPainted) return;
    const parts = [];
    let at = 0;
    for (const match of text.matchAll(pattern)) {
      if (match.index > at) parts.push(text.slice(at, match.index));
      const piece = document.createElement("span");
      piece.className = used[match.slice(1).findIndex((group) => group !== undefined)][0];
      piece.textContent = match[0];
      parts.push(piece);
      at = match.index + match[0].length;
    }
    parts.push(`${text.slice(at)}\n`);
    paint.append(...parts);
    scroll();
  }
  function scroll() {
    paint.scrollTop = gutter.scrollTop = field.scrollTop;
    paint.scrollLeft = field.scrollLeft;
  }
  field.addEventListener("scroll", scroll);
  field.addEventListener("input", () => { if (!waiting) waiting = requestAnimationFrame(colours); });
  for (const button of document.querySelectorAll("button[data-line]")) {
    button.addEventListener("click", () => {
      const lines = field.value.split("\n");
      const line = Number(button.dataset.line);
      const begin = lines.slice(0, line - 1).join("\n").length + (line > 1 ? 1 : 0);
      field.focus();
      field.setSelectionRange(begin, begin + (lines[line - 1] || "").length);
      field.scrollTop = (line - 5) * 18;
    });
  }
  document.addEventListener("keydown", (event) => {
    if (event.key !== "s" || !(event.ctrlKey || event.metaKey) || field.readOnly) return;
    event.preventDefault();
    form.requestSubmit();
  });
  let isLeaving = false;
  form.addEventListener("submit", () => { isLeaving = true; });
  window.addEventListener("beforeunload", (event) => { if (!isLeaving && field.value !== saved) event.preventDefault(); });
  colours();
})();
