// Search over prompts, commands, paths and contents.
import { signal } from "@preact/signals";
import { html } from "htm/preact";
import { get } from "./api.js";
import { rowOf } from "./file.js";
import { choose, now, rows, view } from "./state.js";
import { ago, count, line } from "./text.js";

const text = signal("");
const found = signal({ state: "none", matches: [] });
let number = 0;
let waiting = null;

function typed(event) {
  text.value = event.target.value;
  clearTimeout(waiting);
  waiting = setTimeout(ask, 250);
}

async function ask() {
  const wanted = text.value.trim();
  const mine = ++number;
  if (wanted.length < 2) return (found.value = { state: "none", matches: [] });
  found.value = { ...found.value, state: "searching" };
  try {
    const answer = await get("/api/search?q=" + encodeURIComponent(wanted));
    if (mine === number) found.value = { state: "found", ...answer };
  } catch (error) {
    if (mine === number) found.value = { state: "failed", error, matches: [] };
  }
}

function open(match) {
  const row = (match.kind !== "prompt" && match.checkpoint && rowOf(match.checkpoint)) || rows.value.find((each) => each.type === "prompt" && each.entry.session === match.session && each.entry.prompt === match.prompt) || (match.checkpoint && rowOf(match.checkpoint));
  if (!row) return;
  choose(row.id, { open: true });
  view.value = "changes";
}

function Marked({ of }) {
  const at = of.toLowerCase().indexOf(text.value.trim().toLowerCase());
  if (at < 0) return line(of);
  const end = at + text.value.trim().length;
  return html`${line(of.slice(0, at))}<mark>${line(of.slice(at, end))}</mark>${line(of.slice(end))}`;
}

function Matches() {
  const { state, matches, error, more, left_out: left } = found.value;
  if (state === "failed") return html`<div class="empty"><h2>Not possible</h2><p>${error.message}</p></div>`;
  if (state === "none") return html`<div class="empty"><h2>Search the history</h2><p>What you asked, which commands ran, which paths changed, and lines that were added or removed.</p></div>`;
  if (!matches.length) return html`<div class="empty"><p>${state === "searching" ? "Searching …" : "No match."}</p></div>`;
  return html`<p class="meta pad">${count(matches.length, "match")}${more ? `, and ${more} more` : ""}${left?.length ? `. Not searched: ${left.join("; ")}` : ""}</p><ul class="matches" tabindex="0">${matches.map((each, at) => html`<li key=${at}><button type="button" onClick=${() => open(each)}>
    <span class="badge quiet">${line(each.kind)}</span><span class="hit"><${Marked} of=${(each.text || each.path || "").trim()} /></span><span class="faint">${each.path && each.text !== each.path ? line(each.path) + (each.line ? `:${each.line}` : "") + " · " : ""}${each.at ? ago(each.at, now.value) : ""}</span></button></li>`)}</ul>`;
}

export function Search() {
  return html`<header class="head search"><input type="search" aria-label="Search prompts, commands, paths and contents" placeholder="Search prompts, commands, paths and contents" value=${text.value} onInput=${typed} onKeyDown=${(event) => event.key === "Enter" && ask()} /></header><div class="scroll"><${Matches} /></div>`;
}
