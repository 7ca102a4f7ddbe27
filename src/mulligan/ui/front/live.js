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
  stream.addEventListener("reset", async () => {
    seen = await load();
  });
  stream.addEventListener("trouble", (event) => (trouble.value = JSON.parse(event.data)));
  stream.onerror = () => {
    online.value = false;
    stream.close();
    if (!loggedOut.value) setTimeout(again, 1000);
  };
}

async function again() {
  // The answer tells a server that is gone from one that was started again and does not know this page.
  const answer = await fetch("/api/about").catch(() => null);
  if (answer?.status === 401) loggedOut.value = true;
  else connect();
}
