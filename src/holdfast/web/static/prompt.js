// A command prompt: draws the lines that the server sends, and sends what is typed. Nothing that is printed acts here.
"use strict";
(() => {
  const place = document.getElementById("prompt");
  const screen = document.getElementById("screen");
  const field = document.getElementById("keys");
  const base = `/prompts/${place.dataset.id}`;
  const most = 2000;
  let state = {serial: -1, rows: 0};
  let above = 0;
  let waiting = "";
  let size = "";
  let busy = false;

  function line(pieces, cursor) {
    const row = document.createElement("div");
    let at = 0;
    for (const [style, text] of pieces) {
      const letters = [...text];
      const inside = cursor !== null && cursor >= at && cursor < at + letters.length;
      const parts = inside ? [letters.slice(0, cursor - at), letters.slice(cursor - at, cursor - at + 1), letters.slice(cursor - at + 1)] : [letters];
      parts.forEach((part, number) => {
        if (!part.length) return;
        const piece = document.createElement("span");
        piece.className = `${style}${inside && number === 1 ? " cursor" : ""}`;
        piece.textContent = part.join("");
        row.append(piece);
      });
      at += letters.length;
    }
    if (cursor !== null && cursor >= at) {
      const piece = document.createElement("span");
      piece.className = "cursor";
      piece.textContent = " ";
      row.append(" ".repeat(Math.min(500, cursor - at)), piece);
    }
    return row;
  }

  const lines = new Map();
  function draw(news) {
    const atEnd = place.scrollTop + place.clientHeight > place.scrollHeight - 40;
    const rows = news.above.map((pieces) => line(pieces, null));
    for (const row of rows) screen.insertBefore(row, screen.children[above++] || null);
    while (above > most) { screen.firstElementChild.remove(); above--; }
    for (const [number, pieces] of Object.entries(news.lines)) lines.set(Number(number), pieces);
    for (const number of lines.keys()) if (number >= news.rows) lines.delete(number);
    const cursor = (number) => (news.cursor && news.cursor[0] === number && !news.ended ? news.cursor[1] : null);
    const stale = new Set([...Object.keys(news.lines).map(Number), state.cursor ? state.cursor[0] : 0, news.cursor ? news.cursor[0] : 0]);
    while (screen.childElementCount > above + news.rows) screen.lastElementChild.remove();
    for (let number = 0; number < news.rows; number++) {
      const old = screen.children[above + number];
      if (old && !stale.has(number)) continue;
      const row = line(lines.get(number) || [], cursor(number));
      if (old) old.replaceWith(row);
      else screen.append(row);
    }
    state = news;
    if (news.ended) document.getElementById("ended").textContent = document.getElementById("ended").dataset.text;
    if (atEnd) place.scrollTop = place.scrollHeight;
    place.dataset.ready = "1";
  }

  const whole = holdfast.inTurn(async () => {
    const news = await holdfast.json(`${base}.json`);
    if (news.serial < state.serial) return; // newer lines came while it was on its way
    screen.replaceChildren();
    lines.clear();
    above = 0;
    draw(news);
  });

  async function send() {
    if (busy) return;
    busy = true;
    try {
      while (waiting || size) {
        const body = new URLSearchParams(size);
        if (waiting) body.set("keys", waiting.slice(0, 20000));
        waiting = waiting.slice(20000);
        size = "";
        const answer = await fetch(`${base}/keys`, {method: "POST", headers: {accept: "application/json"}, body});
        if (!answer.ok) whole();
      }
    } catch (error) { waiting = ""; } finally { busy = false; }
  }
  function type(text) { waiting += text; place.scrollTop = place.scrollHeight; send(); }

  const named = {Enter: "\r", Backspace: "\x7f", Tab: "\t", Escape: "\x1b", Insert: "\x1b[2~", Delete: "\x1b[3~", PageUp: "\x1b[5~", PageDown: "\x1b[6~", F1: "\x1bOP", F2: "\x1bOQ", F3: "\x1bOR", F4: "\x1bOS", F5: "\x1b[15~", F6: "\x1b[17~", F7: "\x1b[18~", F8: "\x1b[19~", F9: "\x1b[20~", F10: "\x1b[21~"};
  const moved = {ArrowUp: "A", ArrowDown: "B", ArrowRight: "C", ArrowLeft: "D", Home: "H", End: "F"};
  field.addEventListener("keydown", (event) => {
    if (event.isComposing || event.metaKey) return;
    const {key} = event;
    let text = "";
    if (event.shiftKey && (key === "Tab" || key === "PageUp" || key === "PageDown" || key === "Insert")) return;
    if (event.ctrlKey && event.shiftKey) return; // copy and paste of the browser
    if (event.ctrlKey && key === "c" && String(getSelection())) return;
    if (named[key]) text = (event.altKey ? "\x1b" : "") + named[key];
    else if (moved[key]) text = `\x1b${state.application_keys && !event.ctrlKey ? "O" : "["}${event.ctrlKey ? "1;5" : ""}${moved[key]}`;
    else if (event.ctrlKey && key.length === 1 && /[a-z@[\\\]^_ ]/i.test(key) && key !== "v") text = String.fromCharCode(key.toUpperCase().charCodeAt(0) & 31);
    else if (event.altKey && key.length === 1 && !event.ctrlKey) text = `\x1b${key}`;
    if (!text) return;
    event.preventDefault();
    event.stopPropagation();
    type(text);
  });
  field.addEventListener("input", (event) => {
    if (event.isComposing) return;
    const text = field.value;
    field.value = "";
    if (text) type(text.replace(/\r?\n/g, "\r"));
  });
  field.addEventListener("compositionend", () => {
    const text = field.value;
    field.value = "";
    if (text) type(text);
  });
  field.addEventListener("paste", (event) => {
    event.preventDefault();
    const text = event.clipboardData.getData("text/plain").replace(/\r?\n/g, "\r").replace(/[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]/g, "");
    type(state.bracketed_paste ? `\x1b[200~${text}\x1b[201~` : text);
  });
  screen.addEventListener("mouseup", () => { if (!String(getSelection())) field.focus({preventScroll: true}); });

  function measure() {
    const row = document.createElement("div"); // a line is higher than its letters
    const probe = document.createElement("span");
    probe.textContent = "m".repeat(50);
    row.append(probe);
    screen.append(row);
    const {width} = probe.getBoundingClientRect();
    const {height} = row.getBoundingClientRect();
    row.remove();
    const rows = Math.floor((place.clientHeight - 14) / height);
    size = new URLSearchParams({rows, columns: Math.floor((place.clientWidth - 24) / (width / 50))}).toString();
    send();
  }
  window.addEventListener("resize", measure);

  field.focus();
  whole().then(() => {
    measure();
    holdfast.listen(`prompt:${place.dataset.id}`, (news) => {
      if (news.serial === undefined || news.serial > state.serial + 1) whole();
      else if (news.serial > state.serial) draw(news);
    });
  });
})();
