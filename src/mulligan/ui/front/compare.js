// Compare: two sessions or checkpoints, file by file.
import { computed, signal } from "@preact/signals";
import { html } from "htm/preact";
import { get } from "./api.js";
import { Lines } from "./story.js";
import { entries, mode, now, picked, rows, choose, view } from "./state.js";
import { agentName, ago, count, firstLine, line } from "./text.js";

const chosen = signal({ a: "", b: "" });
const found = signal({ state: "none" });

/** What can be compared: where each session ended, and the checkpoints of a person. */
const choices = computed(() => {
  const made = [];
  const seen = new Set();
  for (const entry of entries.value) {
    if (entry.type === "prompt") {
      const last = entry.happened.filter((each) => each.checkpoint && !each.expired).at(-1);
      if (last && !seen.has(entry.session)) {
        seen.add(entry.session);
        made.push({ id: last.checkpoint, text: `${agentName(entry.agent)} ${entry.short}, last: ${firstLine(entry.text).slice(0, 50)} (${ago(entry.at, now.value)})` });
      }
    } else if (entry.kind !== "safety") made.push({ id: entry.checkpoint, text: `${line(entry.name || entry.kind)} (${ago(entry.at, now.value)})` });
  }
  return made;
});

async function compare() {
  const { a, b } = chosen.value;
  if (!a || !b) return;
  found.value = { state: "reading" };
  try {
    found.value = { state: "read", ...(await get(`/api/diff/${a}/${b}`)) };
  } catch (error) {
    found.value = { state: "failed", error };
  }
}

function pick(side, id) {
  chosen.value = { ...chosen.value, [side]: id };
  compare();
}

function showLines() {
  const { a, b } = chosen.value;
  const target = rows.value.find((each) => each.type !== "prompt" && (each.each || each.entry).checkpoint === b);
  picked.value = { checkpoint: a, label: choices.value.find((each) => each.id === a)?.text || "A" };
  mode.value = "pick";
  if (target) choose(target.id, { open: true });
  view.value = "changes";
}

function Side({ side, label }) {
  return html`<label class="side-choice"><span>${label}</span><select value=${chosen.value[side]} onChange=${(event) => pick(side, event.target.value)}><option value="">choose …</option>${choices.value.map((each) => html`<option key=${each.id} value=${each.id}>${each.text}</option>`)}</select></label>`;
}

function Outcome() {
  const { state, files, error } = found.value;
  if (state === "failed") return html`<div class="empty"><h2>Not possible</h2><p>${error.message}</p></div>`;
  if (state === "reading") return html`<div class="empty"><p class="faint">Comparing …</p></div>`;
  if (state !== "read") return html`<div class="empty"><h2>Compare two states</h2><p>Choose where two sessions ended, or two checkpoints. For attempts in directories of their own, see <code>mulligan fork</code> and <code>mulligan compare</code>.</p></div>`;
  if (!files.length) return html`<div class="empty"><h2>No difference</h2><p>Both hold the same files.</p></div>`;
  const group = (status, title) => {
    const list = files.filter((each) => each.status === status);
    return list.length ? html`<section class="card"><h3>${title} <span class="faint">${list.length}</span></h3><ul class="plain">${list.slice(0, 500).map((each) => html`<li key=${each.path}><code>${each.old_path ? `${line(each.old_path)} → ` : ""}${line(each.path)}</code> <${Lines} added=${each.additions} removed=${each.deletions} /></li>`)}</ul></section>` : null;
  };
  return html`<div class="bar"><span>${count(files.length, "file")} differ</span><span class="space"></span><button type="button" class="primary" onClick=${showLines}>Show the lines</button></div>
    <div class="scroll cards" tabindex="0" role="group" aria-label="Files that differ">${group("modified", "Different in both")}${group("added", "Only in B")}${group("deleted", "Only in A")}${group("renamed", "Renamed")}</div>`;
}

export function Compare() {
  return html`<header class="head"><div class="about two"><${Side} side="a" label="A" /><${Side} side="b" label="B" /></div></header><${Outcome} />`;
}
