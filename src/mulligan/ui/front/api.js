// Requests to the server that served this page; in an exported file, the answers it carries.
import { signal } from "@preact/signals";

export const online = signal(true);
export const loggedOut = signal(false);

const carried = document.getElementById("exported");
/** The answers of an exported session by address, null in the live page. */
export const exported = carried ? JSON.parse(carried.textContent) : null;

export class Refused extends Error {
  constructor(message, hint, status) {
    super(message);
    this.hint = hint || "";
    this.status = status;
  }
}

async function call(address, options) {
  let answer;
  try {
    answer = await fetch(address, { credentials: "same-origin", ...options });
  } catch {
    online.value = false;
    throw new Refused("The server does not answer.", "Start it again: mulligan ui", 0);
  }
  online.value = true;
  const document = await answer.json().catch(() => ({}));
  if (answer.status === 401) loggedOut.value = true;
  if (!answer.ok) throw new Refused(document.error?.message || `The server answered ${answer.status}.`, document.error?.hint, answer.status);
  return document;
}

export async function get(address) {
  if (!exported) return call(address);
  if (address in exported.answers) return exported.answers[address];
  throw new Refused("This is not part of the exported file.", "", 404);
}

export function post(address, body = {}) {
  if (exported) return Promise.reject(new Refused("An exported file changes nothing.", "", 403));
  return call(address, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) });
}

/** Exchanges the token of the link that opened this page, if there is one, and takes it out of the address. */
export async function login() {
  const token = location.hash.slice(1);
  if (exported || !/^[\w-]{40,}$/.test(token)) return;
  history.replaceState(null, "", "/");
  try {
    await post("/api/login", { token });
  } catch (error) {
    // Another page of this browser may have logged in before: then the link is not needed.
    await get("/api/about").catch(() => {
      throw error;
    });
  }
}
