// The story: sessions, prompts, tool calls and checkpoints, newest first.
import { html } from "htm/preact";
import { signal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { exported, get } from "./api.js";
import { VirtualList } from "./list.js";
import { agents, choose, entries, failure, filter, here, loaded, more, next, now, position, rows, selected, spanOf, total } from "./state.js";
import { agentName, ago, baseName, clock, count, firstLine, lasted, line, moment } from "./text.js";

const SIZES = { session: 34, prompt: 60, step: 32, save: 48 };
const width = signal(320);
const pen = document.createElement("canvas").getContext("2d");
const measured = new Map();

/** Returns the height of a row: a prompt that does not fit into one line of the list gets two. */
function sizeOf(row) {
  if (row.type !== "prompt") return SIZES[row.type];
  const text = firstLine(row.entry.text).slice(0, 200);
  if (!measured.has(text)) {
    pen.font = `600 13.5px ${getComputedStyle(document.body).fontFamily}`;
    measured.set(text, pen.measureText(text).width);
  }
  return SIZES.prompt + (measured.get(text) > width.value - 30 ? 18 : 0);
}

const counts = signal(exported?.counts || {});
let wanted = new Set();
let asking = null;

/** Asks for the lines that a step added and removed, once, for the rows that are shown. */
function want(id) {
  if (id in counts.value || wanted.has(id)) return;
  wanted.add(id);
  asking ||= setTimeout(ask, 60);
}

async function ask() {
  const ids = [...wanted].slice(0, 40);
  try {
    const found = await get("/api/counts?" + ids.map((id) => `step=${id}`).join("&"));
    counts.value = { ...counts.value, ...found.counts };
  } catch {
    counts.value = { ...counts.value, ...Object.fromEntries(ids.map((id) => [id, null])) };
  }
  for (const id of ids) wanted.delete(id);
  asking = wanted.size ? setTimeout(ask, 20) : null;
}

export function Lines({ added, removed }) {
  if (!added && !removed) return null;
  return html`<span class="lines">${added ? html`<span class="plus">+${added.toLocaleString("en")}</span>` : null}${removed ? html` <span class="minus">−${removed.toLocaleString("en")}</span>` : null}</span>`;
}

function Counted({ id }) {
  useEffect(() => {
    if (id && !exported) want(id);
  }, [id]);
  const found = id && counts.value[id];
  return found ? html`<${Lines} added=${found.additions} removed=${found.deletions} />` : null;
}

function Badges({ of, entry }) {
  const made = [];
  if (entry?.undone || of.undone) made.push(["undone", "quiet"]);
  if (of.outcome && of.outcome !== "done") made.push([of.outcome, of.outcome === "running" ? "busy" : "warn"]);
  if (of.interrupted) made.push(["interrupted", "warn"]);
  if (of.complete === false) made.push([of.missed ? `partial: ${of.missed} not saved` : "partial", "warn"]);
  if (of.pinned) made.push(["pinned", "quiet", "It never expires; only mulligan rm removes it"]);
  if (of.expired) made.push(["expired", "quiet"]);
  if (of.subagent) made.push(["subagent", "quiet"]);
  return made.map(([text, kind, why]) => html`<span key=${text} class="badge ${kind}" title=${why}>${text}</span>`);
}

const Here = () => html`<span class="badge here">you are here</span>`;

function Session({ entry }) {
  return html`<div class="session"><span class="dot agent" data-agent=${entry.agent}></span>${agentName(entry.agent)}
    <span class="faint">${line(entry.short || entry.session.slice(0, 8))}</span></div>`;
}

function Prompt({ entry }) {
  const inside = entry.happened;
  const last = inside.at(-1);
  const files = new Set(inside.flatMap((each) => each.changed)).size;
  const tools = inside.filter((each) => each.number).length;
  const running = !entry.ended && !entry.interrupted;
  const parts = [ago(entry.at, now.value), tools ? count(tools, "tool") : "", files ? count(files, "file") : "no files changed", last ? lasted(entry.at, last.at) : ""];
  return html`<span class="title">${firstLine(entry.text) || html`<em>without a prompt</em>`}</span>
    <span class="meta">${parts.filter(Boolean).join(" · ")} ${running ? html`<span class="badge busy">running</span>` : null}<${Badges} of=${entry} />${here.value === entry.key ? html`<${Here} />` : null}</span>`;
}

function Step({ each, entry }) {
  const what = each.number ? html`<b>${line(each.name)}</b> ${line(each.text)}` : html`<i>${line(each.name)}</i>${each.files ? ": " + each.changed.slice(0, 2).map(baseName).map(line).join(", ") + (each.files > 2 ? ` and ${each.files - 2} more` : "") : ""}`;
  const took = each.began ? lasted(each.began, each.at) : "";
  return html`<span class="dot ${each.files ? "edit" : "read"} ${entry.undone ? "undone" : ""}"></span>
    <span class="what">${what}</span>
    <${Badges} of=${each} />${each.checkpoint && each.checkpoint === position.value ? html`<${Here} />` : null}
    ${took ? html`<span class="faint took">${took}</span>` : null}<${Counted} id=${each.files && !each.expired ? each.checkpoint : null} />`;
}

const KINDS = { manual: "saved by you", automatic: "saved automatically", step: "saved", safety: "saved before a restore", session: "session", feature: "feature" };

function Save({ entry }) {
  const name = entry.name || entry.text || (entry.kind === "safety" ? "Before a restore" : entry.parent ? "Checkpoint" : "First checkpoint");
  return html`<span class="dot save ${entry.kind}"></span><span class="both"><span class="title one">${line(name)}</span>
    <span class="meta">${KINDS[entry.kind] || entry.kind} · ${ago(entry.at, now.value)} · ${entry.parent ? count(entry.files, "file") : `all ${count(entry.files, "file")}`}
    <${Badges} of=${entry} />${entry.checkpoint === position.value ? html`<${Here} />` : null}</span></span>
    <${Counted} id=${entry.files && entry.parent ? entry.checkpoint : null} />`;
}

function draw(row) {
  if (row.type === "session") return html`<${Session} entry=${row.entry} />`;
  const current = row.id === selected.value;
  const body = row.type === "prompt" ? html`<${Prompt} entry=${row.entry} />` : row.type === "step" ? html`<${Step} each=${row.each} entry=${row.entry} />` : html`<${Save} entry=${row.entry} />`;
  const at = row.type === "step" ? row.each.at : row.entry.at;
  return html`<button type="button" class="row ${row.type} ${row.entry.undone ? "undone" : ""} ${spanOf(row) ? "" : "idle"}" tabindex=${current ? 0 : -1}
    title=${`${moment(at)}${row.type === "prompt" ? "\n" + line(row.entry.text.slice(0, 500)) : ""}`} onClick=${() => choose(row.id, { open: true })}>${body}</button>`;
}
draw.attributes = (row) => (row.id === selected.value ? { "aria-current": "true" } : {});

function Filters() {
  const set = (change) => (filter.value = { ...filter.value, ...change });
  return html`<div class="filters">
    <select aria-label="Show" value=${filter.value.kind} onChange=${(event) => set({ kind: event.target.value })}>
      <option value="">Everything</option><option value="changes">Changes only</option><option value="yours">Your own edits</option><option value="failed">Failed calls</option><option value="saves">Checkpoints</option>
    </select>
    ${agents.value.length > 1 ? html`<select aria-label="Agent" value=${filter.value.agent} onChange=${(event) => set({ agent: event.target.value })}>
      <option value="">All agents</option>${agents.value.map((each) => html`<option key=${each} value=${each}>${agentName(each)}</option>`)}
    </select>` : null}
    <input type="search" aria-label="Only steps that changed this path" placeholder="path" value=${filter.value.path} onInput=${(event) => set({ path: event.target.value })} />
  </div>`;
}

function Empty() {
  if (failure.value) return html`<div class="empty"><h2>The timeline cannot be read</h2><p>${failure.value.message}</p><p>${failure.value.hint}</p></div>`;
  if (!loaded.value) return html`<div class="empty"><p class="faint">Reading the timeline …</p></div>`;
  if (entries.value.length) return html`<div class="empty"><p>No step matches the filter.</p><button type="button" onClick=${() => (filter.value = { agent: "", kind: "", path: "" })}>Show everything</button></div>`;
  return html`<div class="empty"><h2>Nothing was saved here yet</h2><p>Save a first checkpoint, or install the hooks of an agent. New steps appear here by themselves.</p>
    <pre>mulligan save "first"${"\n"}mulligan install claude-code</pre></div>`;
}

export function Story() {
  const handle = useRef(null);
  const pane = useRef(null);
  const found = rows.value;
  useEffect(() => {
    const watcher = new ResizeObserver(() => {
      width.value = pane.current.clientWidth;
      handle.current?.measure();
    });
    watcher.observe(pane.current);
    return () => watcher.disconnect();
  }, []);
  useEffect(() => {
    const at = found.findIndex((each) => each.id === selected.value);
    if (at >= 0) handle.current?.scrollToIndex(at, { align: "auto" });
  }, [selected.value]);
  return html`<section ref=${pane} class="story pane" aria-label="Story">
    <${Filters} />
    ${found.length ? html`<${VirtualList} rows=${found} size=${sizeOf} draw=${draw} tag="ul" handle=${handle} onEnd=${more} label="Steps, newest first" className="list" />` : html`<${Empty} />`}
    <footer class="faint">${count(total.value, "entry")}${next.value ? ` · ${entries.value.length} shown` : ""}</footer>
  </section>`;
}
