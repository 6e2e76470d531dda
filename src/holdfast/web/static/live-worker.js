// One stream of events for all tabs of this browser: browsers allow six connections to a host.
const pages = new Map();
let source = null;
let topics = "";
let timer = 0;

function tell(message) {
  for (const [port, wanted] of pages) {
    if (message.topic === "connection" || message.topic === "hello" || wanted.has(message.topic)) port.postMessage(message);
  }
}

function adjust() {
  const wanted = [...new Set([...pages.values()].flatMap((set) => [...set]))].sort().join(",");
  if (wanted === topics && source) return false;
  topics = wanted;
  if (source) source.close();
  source = null;
  if (topics) open();
  return true;
}

function open() {
  source = new EventSource("/events?topics=" + encodeURIComponent(topics));
  source.onmessage = (event) => tell(JSON.parse(event.data));
  source.onopen = () => tell({topic: "connection", ok: true});
  source.onerror = () => {
    tell({topic: "connection", ok: false});
    if (source && source.readyState === EventSource.CLOSED) {
      source = null;
      clearTimeout(timer);
      timer = setTimeout(adjust, 3000);
    }
  };
}

self.onconnect = (event) => {
  const port = event.ports[0];
  pages.set(port, new Set());
  port.onmessage = ({data}) => {
    if (data.leave) pages.delete(port);
    else pages.set(port, new Set(data.topics));
    const isNew = adjust();
    if (data.leave || isNew) return;
    if (source.readyState === EventSource.OPEN) port.postMessage({topic: "hello"});
    else port.postMessage({topic: "connection", ok: false});
  };
};
