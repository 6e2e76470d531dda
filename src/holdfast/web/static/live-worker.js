// One stream of events for all tabs of this browser: browsers allow six connections to a host.
const pages = new Map();
let source = null;
let topics = "";
let timer = 0;
let pause = 1000;

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
  source.onopen = () => { pause = 1000; tell({topic: "connection", ok: true}); };
  source.onerror = async () => {
    const isClosed = source && source.readyState === EventSource.CLOSED; // answered, and refused
    tell({topic: "connection", ok: false, signedOut: isClosed && await isSignedOut()});
    if (!isClosed) return;
    source = null;
    clearTimeout(timer);
    timer = setTimeout(adjust, pause);
    pause = Math.min(60000, pause * 2);
  };
}

async function isSignedOut() {
  const answer = await fetch("/help.json", {method: "HEAD", cache: "no-store"}).catch(() => null);
  return answer !== null && answer.status === 401;
}

self.onconnect = (event) => {
  const port = event.ports[0];
  pages.set(port, new Set());
  port.onmessage = ({data}) => {
    if (data.leave) pages.delete(port);
    else pages.set(port, new Set(data.topics));
    pause = 1000; // a page was opened: by one who signed in, perhaps
    const isNew = adjust();
    if (data.leave || isNew) return;
    if (source && source.readyState === EventSource.OPEN) port.postMessage({topic: "hello"});
    else port.postMessage({topic: "connection", ok: false});
  };
};
