// One file: its versions, and its lines at the selected moment with the prompt that wrote each.
import { effect, signal } from "@preact/signals";
import { html } from "htm/preact";
import { get } from "./api.js";
import { draw as drawRuns } from "./diff.js";
import { highlighted, languageOf } from "./highlight.js";
import { VirtualList } from "./list.js";
import { choose, file, now, planRestore, row, rows, spanOf, view } from "./state.js";
import { agentName, ago, baseName, bytes, count, encodePath, firstLine, folderOf, line } from "./text.js";

const CHUNK = 400;
const versions = signal({ path: null, list: [] });
const content = signal({ state: "none" });
const blame = signal({ path: null, lines: null });

effect(() => {
  const path = file.value;
  if (!path || view.value !== "file" || versions.peek().path === path) return;
  versions.value = { path, list: [], reading: true };
  blame.value = { path, lines: null };
  const query = "path=" + encodePath(path);
  get("/api/history?" + query).then(
    (answer) => (versions.value = { path, list: answer.versions }),
    (error) => (versions.value = { path, list: [], error }),
  );
  get("/api/blame?" + query).then(
    (answer) => (blame.value = { path, lines: answer.lines }),
    () => (blame.value = { path, lines: null }),
  );
});

effect(() => {
  const path = file.value;
  const state = spanOf(row.value)?.b;
  if (!path || !state || view.value !== "file") return;
  const wanted = `${state} ${path}`;
  get(`/api/file/${state}/${encodePath(path)}`).then(
    (answer) => view.peek() === "file" && (content.value = { state: "read", wanted, checkpoint: state, ...answer }),
    (error) => (content.value = { state: "failed", wanted, error }),
  );
});

/** Returns the row of the story that belongs to a checkpoint. */
export const rowOf = (checkpoint) => rows.value.find((each) => each.type !== "prompt" && (each.each || each.entry).checkpoint === checkpoint);

function Versions() {
  const { list, error, reading } = versions.value;
  const current = spanOf(row.value)?.b;
  if (error) return html`<p class="note">${error.message}</p>`;
  if (reading) return html`<p class="note faint">Reading …</p>`;
  return html`<ol class="versions" aria-label="Versions">${list.map((each) => {
    const found = rowOf(each.checkpoint);
    return html`<li key=${each.checkpoint}><button type="button" aria-current=${each.checkpoint === current ? "true" : null} disabled=${!found} onClick=${() => choose(found.id)}>
      <b>${firstLine(found?.type === "step" ? found.entry.text : each.label) || "Checkpoint"}</b><span>${found?.type === "step" ? `${agentName(found.entry.agent)} · ${line(found.each.name)} · ` : ""}${ago(each.at, now.value)}</span></button></li>`;
  })}</ol>`;
}

/** Where a line comes from, if the shown state is the one that was blamed. */
function origin(at, text) {
  const found = blame.value.lines?.[at];
  return found && found.text === text ? found : null;
}

function Content() {
  const found = content.value;
  if (found.state === "failed") return html`<div class="empty"><h2>Not there</h2><p>${found.error.message}</p></div>`;
  if (found.state !== "read" || found.path !== file.value) return html`<div class="empty"><p class="faint">Reading …</p></div>`;
  if (found.picture) return html`<div class="pictures"><figure><img alt=${line(found.path)} src=${`/api/file/${found.checkpoint}/${encodePath(found.path)}?raw`} /></figure></div>`;
  if (found.binary) return html`<div class="empty"><h2>A binary file</h2><p>${bytes(found.size)}</p></div>`;
  if (!found.lines.length) return html`<div class="empty"><h2>An empty file</h2></div>`;
  found.rows ||= found.lines.map((text, at) => ({ id: at, text, at }));
  found.colours ||= {};
  const colour = (at) => {
    const from = Math.floor(at / CHUNK) * CHUNK;
    found.colours[from] ||= highlighted(found.lines.slice(from, from + CHUNK), languageOf(found.path));
    return found.colours[from][at - from];
  };
  const blamed = blame.value.path === found.path && blame.value.lines;
  const draw = (each) => {
    const from = blamed ? origin(each.at, each.text) : null;
    const above = blamed && each.at ? origin(each.at - 1, found.lines[each.at - 1]) : null;
    const same = from && above && from.checkpoint === above.checkpoint && from.prompt === above.prompt;
    const who = from && (from.asked || (from.by === "first" ? "" : { you: "you", restore: "a restore", unsaved: "not saved yet" }[from.by] || from.agent || ""));
    return html`<div class="line same">${blamed ? html`<span class="origin" title=${who ? line(String(who)) : ""}>${same || !who ? "" : line(firstLine(String(who)))}</span>` : null}<span class="number">${each.at + 1}</span><code>${drawRuns(colour(each.at), null)}</code></div>`;
  };
  return html`<${VirtualList} rows=${found.rows} size=${() => 20} draw=${draw} label=${`Lines of ${line(found.path)}`} className="diff" />`;
}

export function FileView() {
  const path = file.value;
  const span = spanOf(row.value);
  return html`<header class="head"><div class="about"><h2 class="mono"><span class="faint">${line(folderOf(path))}</span>${line(baseName(path))}</h2><p class="meta">${count(versions.value.list.length, "version")} · shown as it was at the selected step</p></div>
      <div class="tools">${span ? html`<button type="button" onClick=${() => planRestore(span.b, [path])}>Plan this version</button>` : null}<button type="button" onClick=${() => (view.value = "changes")}>Back to the changes</button></div></header>
    <div class="filebody"><${Versions} /><${Content} /></div>`;
}
