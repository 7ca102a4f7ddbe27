// Changes: the files of the selected span, and their lines.
import { computed, effect, signal } from "@preact/signals";
import { html } from "htm/preact";
import { useRef } from "preact/hooks";
import { exported, get } from "./api.js";
import { Line, rowsOf } from "./diff.js";
import { VirtualList } from "./list.js";
import { about, basket, entries, file as opened, keep, labelOf, layout, mode, pane, picked, plan, planHunks, planRestore, planRevert, revertOf, row, shown, spanOf, view } from "./state.js";
import { Lines } from "./story.js";
import { baseName, count, encodePath, firstLine, folderOf, line, moment, when } from "./text.js";

const SIZES = { file: 40, hunk: 26, line: 20, pair: 20, note: 34, picture: 300, load: 34 };
const ASK_AT_ONCE = exported ? 1 : 20; // an exported file carries the answer for each file by itself
const OPEN_AT_FIRST = 400;
const LETTERS = { added: "A", modified: "M", deleted: "D", renamed: "R" };

export const files = signal({ state: "none", list: [] });
const bodies = signal(new Map()); // path → the loaded file, or {failed}
const folded = signal(new Set());
const onlyPath = signal("");
export const handle = { current: null };

const address = (span) => `/api/diff/${span.a}/${span.b}`;

// Follows the selection: the files of the span are read, then the lines of those that are shown.
effect(() => {
  const span = shown.value;
  bodies.value = new Map();
  onlyPath.value = "";
  handle.current?.scrollToOffset(0);
  if (!span) {
    files.value = { state: "none", list: [] };
    return;
  }
  files.value = { state: "reading", list: [], span };
  get(address(span)).then(
    (answer) => {
      if (files.peek().span !== span) return;
      folded.value = new Set(answer.files.length > OPEN_AT_FIRST ? answer.files.map((each) => each.path) : []);
      files.value = { state: "read", list: answer.files, span };
    },
    (error) => {
      if (files.peek().span === span) files.value = { state: "failed", error, list: [], span };
    },
  );
});

let queue = [];
function want(path) {
  if (bodies.peek().has(path) || queue.includes(path)) return;
  if (!queue.length) setTimeout(fetchQueued, 0);
  queue.push(path);
}

async function fetchQueued() {
  const { span } = files.peek();
  const paths = queue.slice(0, ASK_AT_ONCE);
  let found;
  try {
    const answer = await get(address(span) + "?" + paths.map((path) => "path=" + encodePath(path)).join("&"));
    found = new Map(answer.files.map((each) => [each.path, each]));
  } catch (error) {
    found = new Map(paths.map((path) => [path, { path, failed: error.message }]));
  }
  queue = queue.filter((path) => !paths.includes(path));
  if (files.peek().span === span) bodies.value = new Map([...bodies.peek(), ...paths.map((path) => [path, found.get(path) || { path, failed: "It does not differ any more." }]), ]);
  if (queue.length) fetchQueued();
}

const PICTURE = /\.(png|jpe?g|gif|webp)$/i;

const rows = computed(() => {
  const made = [];
  const wide = layout.value === "split";
  const only = onlyPath.value.toLowerCase();
  for (const each of files.value.list) {
    if (only && !each.path.toLowerCase().includes(only)) continue;
    made.push({ type: "file", id: "f" + each.path, each });
    if (folded.value.has(each.path)) continue;
    const body = bodies.value.get(each.path);
    if (!body) made.push({ type: "load", id: "w" + each.path, each });
    else if (body.failed) made.push({ type: "note", id: "n" + each.path, text: body.failed });
    else if (body.binary && PICTURE.test(each.path)) made.push({ type: "picture", id: "p" + each.path, each });
    else if (!body.hunks.length) made.push({ type: "note", id: "n" + each.path, text: noteOf(body) });
    else {
      made.push(...(body.rows?.wide === wide ? body.rows.list : (body.rows = { wide, list: rowsOf(body, wide) }).list));
      if (body.left_out) made.push({ type: "note", id: "n" + each.path, text: `${count(body.left_out, "more line")} are not shown.` });
    }
  }
  return made;
});

function noteOf(body) {
  if (body.binary) return "A binary file: its bytes differ.";
  if (body.mode) return `Its kind or permissions changed: ${body.mode}`;
  if (body.status === "renamed") return "Renamed, with the same content.";
  return body.notes[0] ? line(body.notes[0]) : "An empty file.";
}

export function toggle(path) {
  const next = new Map(basket.value);
  if (next.has(path)) next.delete(path);
  else next.set(path, null);
  basket.value = next;
}

/** Ticks one hunk of a file; all of them together are the file. */
function toggleHunk(found) {
  const next = new Map(basket.value);
  const all = found.file.hunks.map((_, at) => at);
  const ticked = new Set(next.has(found.file.path) ? (next.get(found.file.path) ?? all) : []);
  if (!ticked.delete(found.at)) ticked.add(found.at);
  if (!ticked.size) next.delete(found.file.path);
  else next.set(found.file.path, ticked.size === all.length ? null : ticked);
  basket.value = next;
}

function isTicked(found) {
  if (!basket.value.has(found.file.path)) return false;
  return basket.value.get(found.file.path)?.has(found.at) ?? true;
}

function fold(path) {
  const next = new Set(folded.value);
  if (!next.delete(path)) next.add(path);
  folded.value = next;
}

function FileHead({ each }) {
  const body = bodies.value.get(each.path);
  const [added, removed] = [body?.additions ?? each.additions, body?.deletions ?? each.deletions];
  const closed = folded.value.has(each.path);
  return html`<div class="filehead">
    ${exported ? null : html`<input type="checkbox" aria-label=${`Take ${line(each.path)} into the plan`} checked=${basket.value.has(each.path) && basket.value.get(each.path) === null} indeterminate=${!!basket.value.get(each.path)} onChange=${() => toggle(each.path)} />`}
    <button type="button" class="fold" aria-expanded=${!closed} title="Show or hide its lines" onClick=${() => fold(each.path)}>
      <span class="arrow">${closed ? "▸" : "▾"}</span><span class="letter ${each.status}" title=${each.status}>${LETTERS[each.status]}</span>
      <span class="path">${each.old_path ? html`<span class="faint">${line(each.old_path)} → </span>` : null}<span class="faint">${line(folderOf(each.path))}</span><b>${line(baseName(each.path))}</b></span>
    </button>
    <${Lines} added=${added} removed=${removed} />
    ${exported ? null : html`<button type="button" class="quiet" title="History of this file" onClick=${() => showFile(each.path)}>History</button>`}
  </div>`;
}

export function showFile(path) {
  opened.value = path;
  view.value = "file";
  pane.value = "changes";
}

function pictureOf(state, path) {
  const place = `/api/file/${state}/${encodePath(path)}?raw`;
  return exported ? exported.pictures[place] : place;
}

function Pictures({ each }) {
  const { span } = files.value;
  const side = (state, label, there) => html`<figure><figcaption>${label}</figcaption>${there ? html`<img alt=${`${label}: ${line(each.path)}`} src=${pictureOf(state, each.path)} />` : html`<span class="faint">not there</span>`}</figure>`;
  return html`<div class="pictures">${side(span.a, "Before", each.status !== "added" && span.a !== "nothing")}${side(span.b, "After", each.status !== "deleted")}</div>`;
}

function draw(found) {
  if (found.type === "file") return html`<${FileHead} each=${found.each} />`;
  if (found.type === "hunk") return html`<div class="hunk">${exported || mode.value === "pick" ? null : html`<input type="checkbox" aria-label=${`Take this hunk of ${line(found.file.path)} into the plan`} checked=${isTicked(found)} onChange=${() => toggleHunk(found)} />`}@@ −${found.hunk.old} +${found.hunk.new} @@ <span>${line(found.hunk.about || "")}</span></div>`;
  if (found.type === "note") return html`<div class="note">${found.text}</div>`;
  if (found.type === "picture") return html`<${Pictures} each=${found.each} />`;
  if (found.type === "load") {
    want(found.each.path);
    return html`<div class="note faint">Reading …</div>`;
  }
  return html`<${Line} row=${found} />`;
}

/** Scrolls to the next or previous hunk. */
export function jump(direction) {
  const virtual = handle.current;
  const top = virtual?.scrollOffset ?? 0;
  const starts = rows.value.flatMap((each, at) => (each.type === "hunk" ? [at] : []));
  const places = starts.map((at) => virtual.getOffsetForIndex(at, "start")[0]);
  const found = direction > 0 ? starts[places.findIndex((place) => place > top + 1)] : starts[places.findLastIndex((place) => place < top - 1)];
  if (found !== undefined) virtual.scrollToIndex(found, { align: "start" });
}

/** Returns the file at the top of the screen. */
export function fileInView() {
  const virtual = handle.current;
  const first = virtual?.getVirtualItems().find((item) => item.end > (virtual.scrollOffset ?? 0));
  for (let at = first?.index ?? -1; at >= 0; at--) if (rows.value[at]?.type === "file") return rows.value[at].each;
  return null;
}

const MODES = [["step", "This step", "before → after"], ["now", "Since then", "after → now"], ["pick", "A ↔ B", "from a state that you pick"]];

function Head() {
  const found = row.value;
  const span = spanOf(found);
  const at = found.type === "step" ? found.each.at : found.entry.at;
  const title = found.type === "prompt" ? firstLine(found.entry.text) || "Without a prompt" : found.type === "step" ? `${line(found.each.name)} ${line(found.each.text)}` : line(found.entry.name || found.entry.text || "Checkpoint");
  return html`<header class="head">
    <div class="about"><h2 title=${title}>${title}</h2><p class="meta">${found.type === "save" ? "checkpoint" : labelOf(found)} · <span title=${moment(at)}>${when(at)}</span>${span ? html` · <code>${span.b.slice(0, 8)}</code>` : null}</p></div>
    <div class="tools">
      <div class="segments" role="group" aria-label="What is compared">
        ${MODES.map(([name, text, why]) => (exported && name !== "step" ? null : html`<button key=${name} type="button" title=${why} aria-pressed=${mode.value === name} onClick=${() => pickMode(name)}>${text}</button>`))}
      </div>
      <div class="segments" role="group" aria-label="Layout">
        ${["unified", "split"].map((name) => html`<button key=${name} type="button" aria-pressed=${layout.value === name} onClick=${() => keep("layout", (layout.value = name))}>${name === "split" ? "Split" : "Unified"}</button>`)}
      </div>
    </div>
    ${mode.value === "pick" ? html`<p class="meta picked">A: ${picked.value ? html`${picked.value.label} <code>${picked.value.checkpoint.slice(0, 8)}</code>` : "none yet"}${span ? html` <button type="button" class="quiet" onClick=${() => (picked.value = { checkpoint: span.b, label: labelOf(found) })}>Use this state as A</button>` : null} · B: the selected step</p>` : null}
  </header>`;
}

function pickMode(name) {
  const span = spanOf(row.value);
  if (name === "pick" && !picked.value && span) picked.value = { checkpoint: span.b, label: labelOf(row.value) };
  mode.value = name;
  basket.value = new Map();
}

function Bar() {
  const { list, state } = files.value;
  if (state !== "read" || !list.length) return null;
  const chosen = basket.value.size;
  return html`<div class="bar">
    <span>${count(list.length, "file")}</span>
    ${list.length > 8 ? html`<input type="search" aria-label="Only files whose path contains" placeholder="filter files" value=${onlyPath.value} onInput=${(event) => (onlyPath.value = event.target.value)} />` : null}
    <button type="button" class="quiet" onClick=${() => (folded.value = new Set(folded.value.size ? [] : list.map((each) => each.path)))}>${folded.value.size ? "Open all" : "Fold all"}</button>
    <span class="space"></span>
    ${exported || about.value?.read_only ? null : chosen ? html`<button type="button" class="primary" onClick=${planBasket}>Plan ${count(chosen, "file")}</button>` : html`<span class="faint wide">Tick files to take back only those</span>`}
  </div>`;
}

/** Plans to take the ticked files and hunks, or everything, back. */
export async function planBasket() {
  const span = spanOf(row.value);
  if (!span) return;
  const paths = basket.value.size ? [...basket.value.keys()] : null;
  const parts = [...basket.value].filter(([, ticked]) => ticked);
  const step = mode.value === "step" && paths && revertOf(row.value);
  const bodiesShown = bodies.peek();
  if (mode.value === "step" && paths && !step) plan.value = { state: "failed", error: { message: "There is no state before the first checkpoint.", hint: "" } };
  else if (step) await planRevert(step, paths);
  else await planRestore(mode.value === "pick" && picked.value ? picked.value.checkpoint : span.b, paths);
  if (parts.length && plan.value?.state === "shown") await narrow(parts, bodiesShown);
}

/** Narrows a plan that was just made to the hunks that are ticked: those of the plan that do the opposite of what is shown. */
async function narrow(parts, bodiesShown) {
  const found = plan.value;
  const { files: planned } = await get(`/api/plans/${found.digest}/hunks`);
  const chosen = [];
  let missing = 0;
  for (const file of planned) {
    const ticked = parts.find(([path]) => path === file.path)?.[1];
    const free = file.hunks.map((hunk) => ({ id: hunk.id, text: changesOf(hunk, "-", "+") }));
    if (!ticked) chosen.push(...free.map((each) => each.id));
    else
      bodiesShown.get(file.path).hunks.forEach((hunk, at) => {
        const wanted = changesOf(hunk, "+", "-");
        const match = free.findIndex((each) => each.text === wanted);
        const taken = match >= 0 ? free.splice(match, 1)[0] : null;
        if (ticked.has(at) && taken) chosen.push(taken.id);
        else if (ticked.has(at)) missing++;
      });
  }
  if (missing) {
    plan.value = { ...found, note: `${count(missing, "ticked hunk")} changed since that step. Choose among the lines of this plan.` };
    view.value = "preview";
  } else await planHunks(found.asked, chosen);
}

const changesOf = (hunk, removed, added) => [removed, added].map((tag) => hunk.lines.filter((each) => each[0] === tag).map((each) => each.slice(1)).join("\n")).join("\0");

function Nothing({ title, text }) {
  return html`<div class="empty"><h2>${title}</h2><p>${text}</p></div>`;
}

function Body() {
  const { state, list, error } = files.value;
  const found = row.value;
  if (state === "none") {
    const expired = found.type === "save" ? found.entry.expired : found.type === "step" && found.each.expired;
    if (expired) return html`<${Nothing} title="Expired" text="Retention removed the checkpoint of this step. The story remembers it; its lines are gone." />`;
    return html`<${Nothing} title="No files changed" text=${found.type === "prompt" ? "None of the tool calls of this prompt changed a file." : "This tool call changed no file."} />`;
  }
  if (state === "failed") return html`<${Nothing} title="This difference cannot be shown" text=${`${error.message} ${error.hint || ""}`} />`;
  if (state === "reading") return html`<div class="empty"><p class="faint">Comparing …</p></div>`;
  if (!list.length) return html`<${Nothing} title="No difference" text=${mode.value === "now" ? "Your files are as they were after this step." : found.type === "save" && mode.value === "step" ? "This checkpoint holds the same files as the one before it." : "Both states hold the same files."} />`;
  return html`<${VirtualList} rows=${rows.value} size=${(each) => SIZES[each.type]} draw=${draw} handle=${handle} label="Changed files and lines" className="diff" />`;
}

export function Changes() {
  useRef(null);
  if (!row.value) return html`<div class="empty"><h2>${entries.value.length ? "Select a step" : "Your timeline will be here"}</h2><p>${entries.value.length ? "j and k move through the story; ? shows all keys." : "Each prompt, tool call and edit becomes a step that you can look at and take back."}</p></div>`;
  return html`<${Head} /><${Bar} /><${Body} />`;
}
