// Compare: two sessions, two states, or a fork with the project; and keep one.
import { computed, effect, signal } from "@preact/signals";
import { html } from "htm/preact";
import { get } from "./api.js";
import { files, Listing } from "./listing.js";
import { about, basket, compared, comparing, entries, kept, now, planState, position } from "./state.js";
import { planBasket } from "./changes.js";
import { agentName, ago, bytes, count, firstLine, line } from "./text.js";

const forks = signal({ state: "none", list: [] });
const chosen = signal({ a: "", b: "" });

export function ask() {
  get("/api/forks").then(
    (answer) => (forks.value = { state: "read", list: answer.forks, origin: answer.origin }),
    (error) => (forks.value = { state: "failed", list: [], error }),
  );
}

effect(() => {
  if (comparing.value) ask();
});

/** What can be compared, in groups: your files, forks, where each session ended, and checkpoints. */
const choices = computed(() => {
  const sessions = [];
  const saves = [];
  const seen = new Set();
  for (const entry of entries.value) {
    if (entry.type === "prompt") {
      const last = entry.happened.filter((each) => each.checkpoint && !each.expired).at(-1);
      if (last && !seen.has(entry.session)) {
        seen.add(entry.session);
        sessions.push({ id: last.checkpoint, name: `${agentName(entry.agent)} ${entry.short}`, text: `${agentName(entry.agent)} ${entry.short}, last: ${firstLine(entry.text).slice(0, 50)} (${ago(entry.at, now.value)})` });
      }
    } else if (entry.kind !== "safety") saves.push({ id: entry.checkpoint, name: line(entry.name || entry.kind), text: `${line(entry.name || entry.kind)} (${ago(entry.at, now.value)})` });
  }
  const stands = forks.value.list.filter((each) => !each.gone && !each.problem).map((each) => ({ id: each.key, name: `fork ${line(each.name)}`, text: `${line(each.name)} (${ago(each.created_at, now.value)})` }));
  const last = [...sessions, ...saves].find((each) => each.id === position.value);
  if (last) [last.name, last.text] = [`${last.name}, last checkpoint`, `${last.text}, last checkpoint`];
  const here = last || !position.value ? [] : [{ id: position.value, name: "the last checkpoint", text: "the last checkpoint" }];
  return [["This project", [{ id: "now", name: "your files", text: "your files as they are" }, ...here]], ["Forks", stands], ["Where sessions ended", sessions], ["Checkpoints", saves]];
});

const nameOf = (id) => choices.value.flatMap(([, list]) => list).find((each) => each.id === id)?.name || id.slice(0, 8);

function compare(a, b) {
  chosen.value = { a, b };
  basket.value = new Map();
  compared.value = a && b ? { a, b } : null;
}

function Side({ side, label }) {
  const groups = choices.value.map(([title, list]) => [title, side === "a" ? list.filter((each) => each.id !== "now") : list]).filter(([, list]) => list.length);
  const known = groups.some(([, list]) => list.some((each) => each.id === chosen.value[side]));
  return html`<label class="side-choice"><span>${label}</span><select value=${chosen.value[side]} onChange=${(event) => compare(...(side === "a" ? [event.target.value, chosen.value.b] : [chosen.value.a, event.target.value]))}><option value="">choose …</option>
    ${known || !chosen.value[side] ? null : html`<option value=${chosen.value[side]}>${chosen.value[side].slice(0, 8)}</option>`}
    ${groups.map(([title, list]) => html`<optgroup key=${title} label=${title}>${list.map((each) => html`<option key=${each.id} value=${each.id}>${each.text}</option>`)}</optgroup>`)}</select></label>`;
}

function workIn(fork) {
  if (fork.gone) return "Its directory is gone";
  if (fork.problem) return line(fork.problem);
  const parts = [fork.unsaved ? `${count(fork.unsaved, "file")} not saved` : "", fork.checkpoints ? count(fork.checkpoints, "checkpoint") : ""].filter(Boolean);
  return parts.join(", ") || "nothing new yet";
}

function ForkCard({ fork }) {
  const stands = !fork.gone && !fork.problem;
  return html`<section class="card fork"><h3>${line(fork.name)}</h3><p class="mono faint">${line(fork.directory)}</p>
    <p>${workIn(fork)}</p><p class="faint">made ${ago(fork.created_at, now.value)} from <code>${fork.checkpoint.slice(0, 8)}</code>${fork.bytes ? ` · ${bytes(fork.bytes)}` : ""}</p>
    ${stands ? html`<div class="actions"><button type="button" onClick=${() => compare(position.value || fork.checkpoint, fork.key)}>Compare with the project</button><button type="button" onClick=${() => compare(fork.checkpoint, fork.key)}>Its changes</button>
      ${about.value?.read_only ? null : html`<button type="button" onClick=${() => planState(fork.key)}>Keep …</button>`}</div>` : null}</section>`;
}

function Forks() {
  const { state, list, error, origin } = forks.value;
  return html`<div class="scroll" tabindex="0" role="group" aria-label="Forks"><div class="intro"><h2>Compare two states</h2>
      <p class="faint">Choose two above: sessions, checkpoints, forks or your files. Keeping one is a plan that you see first.</p>
      ${origin ? html`<p class="faint">This project is itself a fork of ${line(origin.workspace)}.</p>` : null}</div>
    ${state === "failed" ? html`<p class="note">${error.message}</p>` : null}
    ${state === "read" && !list.length ? html`<div class="intro"><h3>No forks</h3><p class="faint">A fork is a second directory of this project, to try something else at the same time:</p><pre>mulligan fork @ ../try-2</pre></div>` : null}
    <div class="cards">${list.map((each) => html`<${ForkCard} key=${each.key} fork=${each} />`)}</div></div>`;
}

function Outcome() {
  const { state, list, error } = files.value;
  if (!compared.value) return html`<${Forks} />`;
  if (state === "failed") return html`<div class="empty"><h2>Not possible</h2><p>${error.message}</p><p>${error.hint}</p></div>`;
  if (state !== "read") return html`<div class="empty"><p class="faint">Comparing …</p></div>`;
  if (!list.length) return html`<div class="empty"><h2>No difference</h2><p>Both hold the same files.</p></div>`;
  const ticked = basket.value.size;
  const from = compared.value.b === "now" ? "A" : "B";
  return html`<${Listing} action=${ticked ? html`<button type="button" class="primary" onClick=${planBasket}>Plan ${count(ticked, "file")} as in ${from}</button>` : html`<span class="faint wide">Tick files to take only those from ${from}</span>`} />`;
}

function Sides() {
  const { a, b } = compared.value;
  const stale = forks.value.list.find((each) => each.key === a)?.unsaved;
  const offer = (id, label) => (id === "now" ? null : html`<button type="button" title=${`Plan to make your files what ${nameOf(id)} holds`} onClick=${() => planState(id)}>Keep ${label} …</button>`);
  return html`<div class="sides"><span class="minus">− in A</span><span class="plus">+ in B</span>${stale ? html`<span class="badge warn">${count(stale, "file")} of A not saved, not compared</span>` : null}<span class="space"></span>
    ${b === "now" ? null : html`<button type="button" class="quiet" onClick=${() => compare(b, a)}>Swap</button>`}<button type="button" class="quiet" onClick=${() => compare("", "")}>All forks</button>${about.value?.read_only ? null : html`${offer(a, "A")}${offer(b, "B")}`}</div>`;
}

export function Compare() {
  return html`<header class="head"><h2 class="sr">Compare</h2><div class="about two"><${Side} side="a" label="A" /><${Side} side="b" label="B" /></div></header>${compared.value ? html`<${Sides} />` : null}<${Outcome} />`;
}
