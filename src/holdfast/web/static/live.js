// Live news for this page: holdfast.listen(topic, callback). The callback runs when the page is connected too: what
// happened between the answer that it shows and the connection, or while that was broken, is fetched then.
"use strict";
window.holdfast = (() => {
  const listeners = new Map();
  const sign = document.getElementById("connection");
  let port = null;
  let timer = 0;

  function heard(message) {
    if (message.topic === "connection") {
      if (message.signedOut) signedOut();
      else say(message.ok ? "" : sign.dataset.lost);
    } else if (message.topic === "hello") {
      for (const callback of listeners.values()) callback({});
    } else {
      const callback = listeners.get(message.topic);
      if (callback) callback(message);
    }
  }

  function say(...parts) {
    sign.replaceChildren(...parts);
    sign.classList.toggle("lost", parts.join("") !== "");
  }

  // The page stays as it is: after a sign-in, in any tab of this browser, it goes on from where it stopped.
  function signedOut() {
    if (sign.querySelector("a")) return;
    const link = document.createElement("a");
    Object.assign(link, {href: "/runs", target: "_blank", rel: "noopener", textContent: sign.dataset.again});
    say(`${sign.dataset.out} `, link);
  }

  function connect() {
    const topics = [...listeners.keys()];
    if (!window.SharedWorker) {
      if (port) port.close();
      port = new EventSource("/events?topics=" + encodeURIComponent(topics.join(",")));
      port.onmessage = (event) => heard(JSON.parse(event.data));
      port.onopen = () => heard({topic: "connection", ok: true});
      port.onerror = () => {
        heard({topic: "connection", ok: false});
        if (port.readyState !== EventSource.CLOSED) return;
        clearTimeout(timer);
        timer = setTimeout(connect, 5000);
      };
      return;
    }
    if (!port) {
      port = new SharedWorker("/static/live-worker.js").port;
      port.onmessage = ({data}) => heard(data);
      window.addEventListener("pagehide", () => port.postMessage({leave: true}));
      window.addEventListener("pageshow", (event) => event.persisted && port.postMessage({topics: [...listeners.keys()]}));
    }
    port.postMessage({topics});
  }

  async function json(address) {
    const answer = await fetch(address, {headers: {accept: "application/json"}});
    if (answer.status === 401) {
      signedOut();
      throw new Error(sign.dataset.out);
    }
    const value = await answer.json();
    if (!answer.ok) throw new Error(value.error || answer.statusText);
    return value;
  }

  // One call at a time; one that comes meanwhile is made afterwards, so that nothing is missed.
  function inTurn(work) {
    let busy = false;
    let again = false;
    return async () => {
      if (busy) { again = true; return; }
      busy = true;
      try {
        do {
          again = false;
          try { await work(); } catch (error) { /* the next news tries again */ }
        } while (again);
      } finally { busy = false; }
    };
  }

  // What can be scrolled sideways can be scrolled with the keyboard.
  const seen = new ResizeObserver((entries) => {
    for (const {target} of entries) {
      if (target.scrollWidth > target.clientWidth) target.tabIndex = 0;
      else if (!target.hasAttribute("role")) target.removeAttribute("tabindex");
    }
  });
  for (const part of document.querySelectorAll(".wide, .source, .diff")) seen.observe(part);

  return {
    json,
    inTurn,
    also(topic, callback) { // besides the page's own callback for it
      const first = listeners.get(topic);
      if (first) listeners.set(topic, (news) => { first(news); callback(news); });
      return Boolean(first);
    },
    listen(topic, callback) {
      if (!topic) return;
      listeners.set(topic, callback);
      connect();
    },
  };
})();
