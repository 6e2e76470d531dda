// A window into the log by byte offset: more is fetched at either edge, and what is printed follows by the stream.
"use strict";
(() => {
  const view = document.getElementById("log");
  const base = `${view.dataset.base}`;
  const attempt = view.dataset.attempt;
  const follow = document.getElementById("follow");
  const most = 6000; // lines on the page
  let start = 0;
  let end = 0;
  let size = 0;
  let busy = false;
  let matches = [];
  let match = -1;
  let searched = "";
  let more = null;
  let shows = 0; // windows that were shown

  const address = (name, query) => `${base}/${name}?${new URLSearchParams({...query, attempt})}`;

  function line([at, pieces]) {
    const row = document.createElement("div");
    row.dataset.at = at;
    const head = document.createElement("span");
    head.className = "at";
    head.textContent = at;
    const text = document.createElement("span");
    for (const [style, content] of pieces) {
      const piece = document.createElement("span");
      if (style) piece.className = style;
      piece.textContent = content;
      text.append(piece);
    }
    row.append(head, text);
    return row;
  }

  function noted(data) {
    size = data.size;
    document.getElementById("size").textContent = `${size.toLocaleString("en")} B`;
  }

  async function show(query, where) {
    try {
      const data = await holdfast.json(address("log.json", query));
      view.replaceChildren(...data.lines.map(line));
      shows++;
      start = data.start;
      end = data.end;
      noted(data);
      view.scrollTop = where === "end" ? view.scrollHeight : 0;
    } catch (error) {
      view.textContent = view.dataset.none;
      start = end = 0;
    }
    view.dataset.ready = "1";
  }

  const later = holdfast.inTurn(async () => {
    do {
      const atEnd = view.scrollTop + view.clientHeight > view.scrollHeight - 40;
      // The last line may have been cut where it was still being written: it is read again.
      const last = view.lastElementChild && view.lastElementChild.dataset.at ? Number(view.lastElementChild.dataset.at) : 0;
      const turn = shows;
      const data = await holdfast.json(address("log.json", {at: last, count: 262144}));
      // Meanwhile an event may have brought these lines, or another window may be shown.
      if (turn !== shows || data.end < end) return;
      noted(data);
      if (data.end === end && data.lines.length < 2) return;
      if (!view.firstElementChild) view.replaceChildren();
      while (view.lastElementChild && Number(view.lastElementChild.dataset.at) >= data.start) view.lastElementChild.remove();
      view.append(...data.lines.map(line));
      end = data.end;
      while (view.childElementCount > most) view.firstElementChild.remove();
      if (view.firstElementChild) start = Number(view.firstElementChild.dataset.at);
      if (follow.checked && atEnd) view.scrollTop = view.scrollHeight;
    } while (follow.checked && end < size);
  });

  // The lines of an event, where they begin at the end of what is shown; the last line may have been cut.
  function shown(news) {
    if (!news.lines || !follow.checked || !view.firstElementChild) return false;
    const final = Number(view.lastElementChild.dataset.at);
    if (news.end <= end) return true;
    if (news.begin !== end && news.begin !== final) return false;
    const atEnd = view.scrollTop + view.clientHeight > view.scrollHeight - 40;
    if (news.begin === final) view.lastElementChild.remove();
    view.append(...news.lines.map(line));
    end = news.end;
    noted(news);
    while (view.childElementCount > most) view.firstElementChild.remove();
    if (view.firstElementChild) start = Number(view.firstElementChild.dataset.at);
    if (atEnd) view.scrollTop = view.scrollHeight;
    return end >= size;
  }

  async function earlier() {
    if (busy || start <= 0) return;
    busy = true;
    try {
      const data = await holdfast.json(address("log.json", {before: start, count: 65536}));
      const old = view.scrollHeight;
      view.prepend(...data.lines.map(line));
      start = data.start;
      while (view.childElementCount > most) view.lastElementChild.remove();
      if (view.lastElementChild) end = Math.min(end, Number(view.lastElementChild.dataset.at));
      view.scrollTop += view.scrollHeight - old;
    } finally { busy = false; }
  }

  view.addEventListener("scroll", () => {
    if (view.scrollTop < 200) earlier();
    else if (view.scrollTop + view.clientHeight > view.scrollHeight - 200 && end < size) later();
  });
  document.getElementById("begin").addEventListener("click", () => { follow.checked = false; show({at: 0}); });
  document.getElementById("end").addEventListener("click", () => show({at: -1}, "end"));
  document.getElementById("jump").addEventListener("submit", (event) => {
    event.preventDefault();
    follow.checked = false;
    const {line: number, byte} = Object.fromEntries(new FormData(event.target));
    show(number ? {line: number} : {at: byte || 0});
  });

  async function go(step) {
    match += step;
    if (match >= matches.length && more !== null) {
      const data = await holdfast.json(address("search.json", {text: searched, from: more}));
      matches = matches.concat(data.matches);
      more = data.next;
    }
    match = Math.max(0, Math.min(match, matches.length - 1));
    document.getElementById("found").textContent =
      `${matches.length ? match + 1 : 0} / ${matches.length}${more === null ? "" : "+"} ${view.dataset.matches}`;
    for (const name of ["previous", "next"]) document.getElementById(name).hidden = matches.length < 2;
    if (!matches.length) return;
    follow.checked = false;
    await show({at: Math.max(0, matches[match] - 2000)});
    const rows = [...view.children].filter((row) => Number(row.dataset.at) <= matches[match]);
    const hit = rows[rows.length - 1];
    if (hit) { hit.classList.add("hit"); hit.scrollIntoView({block: "center"}); }
  }
  document.getElementById("find").addEventListener("submit", async (event) => {
    event.preventDefault();
    searched = new FormData(event.target).get("text");
    if (!searched) return;
    const data = await holdfast.json(address("search.json", {text: searched}));
    matches = data.matches;
    more = data.next;
    match = 0;
    go(0);
  });
  document.getElementById("next").addEventListener("click", () => go(1));
  document.getElementById("previous").addEventListener("click", () => go(-1));

  const at = new URLSearchParams(location.search).get("at");
  (at === null ? show({at: -1}, "end") : show({at})).then(() => {
    holdfast.listen(view.dataset.topic, (news) => {
      if (news.attempt && String(news.attempt) !== attempt) return;
      if (shown(news)) return;
      if (news.size !== undefined) size = news.size;
      if (!view.dataset.at && !view.firstElementChild) view.replaceChildren();
      if (follow.checked || news.size === undefined || end < size) later();
    });
  });
})();
