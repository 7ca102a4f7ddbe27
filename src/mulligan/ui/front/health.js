// Health: what is protected, what is not and why, and whether hooks and the watcher work.
import { effect, signal } from "@preact/signals";
import { html } from "htm/preact";
import { get } from "./api.js";
import { now, view } from "./state.js";
import { agentName, ago, bytes, count, line } from "./text.js";

const MOST = 200;
const found = signal({ state: "none" });

export function ask() {
  const before = found.peek();
  found.value = { ...before, state: before.state === "read" ? "read" : "reading" };
  get("/api/health").then(
    (answer) => (found.value = { state: "read", ...answer }),
    (error) => (found.value = { state: "failed", error }),
  );
}
effect(() => {
  if (view.value === "health") ask();
});

function Card({ title, tone, children }) {
  return html`<section class="card ${tone || ""}"><h3>${title}</h3>${children}</section>`;
}

function Budget({ status }) {
  const share = status.budget ? Math.min(1, status.bytes / status.budget) : 0;
  return html`<${Card} title="Disk"><p><b>${bytes(status.bytes)}</b> of ${bytes(status.budget)}</p><div class="meter ${share > 0.85 ? "full" : ""}" role="meter" aria-valuemin="0" aria-valuemax="100" aria-valuenow=${Math.round(share * 100)} aria-label="Share of the budget that is used, in percent"><i style=${{ width: Math.max(share * 100, 0.5) + "%" }}></i></div>
    <p class="faint">${count(status.checkpoints, "checkpoint")}: ${Object.entries(status.by_kind).map(([kind, number]) => `${number} ${kind}`).join(", ") || "none"}</p><//>`;
}

function Agents({ status }) {
  const { agents, failures, missing_hooks: missing } = status;
  const bad = missing.length || failures.count;
  return html`<${Card} title="Agents" tone=${bad ? "bad" : ""}>
    ${agents.length ? html`<ul class="plain">${agents.map((each) => html`<li key=${each.session}><b>${agentName(each.agent)}</b> <span class="faint">last event ${ago(each.at, now.value)}</span></li>`)}</ul>` : html`<p>No agent has reported an event. Install its hooks:</p><pre>mulligan install claude-code</pre>`}
    ${missing.map((each) => html`<p class="warning" key=${each.file}>The hooks of ${agentName(each.agent)} are gone from ${line(each.file)}. Put them back: <code>mulligan install ${line(each.agent)}</code></p>`)}
    ${failures.count ? html`<p class="warning">${count(failures.count, "hook")} failed since the last <code>mulligan doctor</code>.</p>` : null}<//>`;
}

function Unsaved({ status }) {
  const list = status.not_captured;
  return html`<${Card} title="Not saved">${list.length ? html`<ul class="plain two">${list.slice(0, MOST).map((each) => html`<li key=${each.path}><code>${line(each.path)}</code><span class="faint">${line(each.reason)}${each.detail ? `: ${line(each.detail)}` : ""}</span></li>`)}</ul>${list.length > MOST ? html`<p class="faint">and ${list.length - MOST} more: mulligan status</p>` : null}` : html`<p>Every file of the project is saved.</p>`}<//>`;
}

export function Health() {
  const status = found.value;
  if (status.state === "failed") return html`<div class="empty"><h2>The state cannot be read</h2><p>${status.error.message}</p><p>${status.error.hint}</p></div>`;
  if (status.state !== "read") return html`<div class="empty"><p class="faint">Looking at your files …</p></div>`;
  const { added, modified, deleted } = status.unsaved;
  const changed = added + modified + deleted;
  const watcher = status.watcher;
  const bad = [!status.complete, status.missing_hooks.length, status.failures.count, status.pending, status.warnings.length].filter(Boolean).length;
  return html`<header class="head"><div class="about"><h2><span class="lamp ${bad ? "bad" : ""}"></span>${bad ? `${count(bad, "thing")} to look at` : "Protected"}</h2><p class="meta">${line(status.workspace)}</p></div><div class="tools"><button type="button" onClick=${ask}>Look again</button></div></header>
    <div class="scroll cards" tabindex="0" role="group" aria-label="State of protection">
      <${Card} title="Files" tone=${status.complete ? "" : "bad"}><p><b>${count(status.files, "file")}</b> protected</p><p>${changed ? `${changed} changed since the last checkpoint: ${added} added, ${modified} changed, ${deleted} deleted` : "No change since the last checkpoint"}</p><//>
      <${Budget} status=${status} /><${Agents} status=${status} />
      <${Card} title="Watcher"><p>${watcher?.active ? `Watching ${count(watcher.directories, "directory")}` : watcher ? line(watcher.reason) : "No watcher runs for this page: each request scans all files."}</p>${status.pending ? html`<p class="warning">A restore was interrupted. Finish it: <code>mulligan doctor</code></p>` : null}<//>
      ${status.warnings.length ? html`<${Card} title="Warnings" tone="bad">${status.warnings.map((each) => html`<p key=${each}>${line(each)}</p>`)}<//>` : null}
      <${Unsaved} status=${status} />
    </div>`;
}
