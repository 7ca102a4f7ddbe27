// New steps as they happen. A lost connection is shown, and the next one gets what was missed.
import { signal } from "@preact/signals";
import { exported, loggedOut, online } from "./api.js";
import { load, merge } from "./state.js";

export const trouble = signal(null);
let seen = "";
let stream = null;

export function listen(version) {
  if (exported) return;
  seen = version;
  connect();
}

function connect() {
  stream?.close();
  stream = new EventSource(`/api/events?after=${encodeURIComponent(seen)}`);
  stream.onopen = () => {
    online.value = true;
    trouble.value = null;
  };
  stream.addEventListener("steps", (event) => {
    seen = event.lastEventId;
    merge(JSON.parse(event.data));
  });
  stream.addEventListener("reset", () => {
    stream.close(); // what arrives while the timeline is read would be older than it, or newer: the next stream begins where it ends
    load().then(listen, () => setTimeout(again, 1000));
  });
  stream.addEventListener("trouble", (event) => (trouble.value = JSON.parse(event.data)));
  stream.onerror = () => {
    online.value = false;
    stream.close();
    setTimeout(again, 1000);
  };
}

async function again() {
  // The answer tells a server that is gone from one that was started again and does not know this browser. Where the new link is
  // opened in another tab, it does, and this page goes on where it was.
  const answer = await fetch("/api/about").catch(() => null);
  loggedOut.value = answer?.status === 401;
  if (loggedOut.value) setTimeout(again, 2000);
  else connect();
}
