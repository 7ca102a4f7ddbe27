// The files that differ between two states: as a tree, and with their lines. Changes and Compare show the same one.
import { computed, effect, signal } from "@preact/signals";
import { html } from "htm/preact";
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { exported, get } from "./api.js";
import { Line, rowsOf } from "./diff.js";
import { VirtualList } from "./list.js";
import { about, basket, comparing, file as opened, keep, layout, mode, pane, read, shown, view } from "./state.js";
import { Lines } from "./story.js";
import { baseName, count, encodePath, folderOf, line } from "./text.js";
import { inOrder, LETTERS, makeTree } from "./tree.js";

const SIZES = { file: 40, hunk: 26, line: 20, pair: 20, note: 34, picture: 300, load: 34 };
const ASK_AT_ONCE = exported ? 1 : 20; // an exported file carries the answer for each file by itself
const OPEN_AT_FIRST = 400;
/** From these widths on, the tree is shown without being asked for, and stands beside the lines. */
const ROOM_FOR_TREE = 560;
const ROOM_BESIDE = 860;

export const files = signal({ state: "none", list: [] });
const bodies = signal(new Map()); // path → the loaded file, or {failed}
const folded = signal(new Set());
const onlyPath = signal("");
const topFile = signal(null); // the path of the file at the upper edge
const treeWanted = signal(read("tree") || "auto");
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
      files.value = { state: "read", list: inOrder(answer.files), span };
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
  if (files.peek().span === span) bodies.value = new Map([...bodies.peek(), ...paths.map((path) => [path, found.get(path) || { path, failed: "It does not differ any more." }])]);
  if (queue.length) fetchQueued();
}

/** Returns the lines that were read so far, by path. */
export const loadedBodies = () => bodies.peek();

const PICTURE = /\.(png|jpe?g|gif|webp)$/i;

const listed = computed(() => {
  const only = onlyPath.value.toLowerCase();
  return { list: only ? files.value.list.filter((each) => each.path.toLowerCase().includes(only)) : files.value.list, filtered: !!only };
});

const rows = computed(() => {
  const made = [];
  const wide = layout.value === "split";
  for (const each of listed.value.list) {
    made.push({ type: "file", id: "f" + each.path, each });
    if (folded.value.has(each.path)) continue;
    const body = bodies.value.get(each.path);
    if (!body) made.push({ type: "load", id: "w" + each.path, each });
    else if (body.failed) made.push({ type: "note", id: "n" + each.path, each, text: body.failed });
    else if (body.binary && PICTURE.test(each.path)) made.push({ type: "picture", id: "p" + each.path, each });
    else if (!body.hunks.length) made.push({ type: "note", id: "n" + each.path, each, text: noteOf(body) });
    else {
      made.push(...(body.rows?.wide === wide ? body.rows.list : (body.rows = { wide, list: rowsOf(body, wide) }).list));
      if (body.left_out) made.push({ type: "note", id: "n" + each.path, each, text: `${count(body.left_out, "more line")} are not shown.` });
    }
  }
  return made;
});

const fileOf = (found) => found?.each || found?.file || null;

function noteOf(body) {
  if (body.binary) return "A binary file: its bytes differ.";
  if (body.mode) return `Its kind or permissions changed: ${body.mode}`;
  if (body.status === "renamed") return "Renamed, with the same content.";
  return body.notes[0] ? line(body.notes[0]) : "An empty file.";
}

function counted(each) {
  const body = bodies.value.get(each.path);
  return { added: body?.additions ?? each.additions, removed: body?.deletions ?? each.deletions };
}

// -- ticks ---------------------------------------------------------------------------------------

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

// -- rows ----------------------------------------------------------------------------------------

function FileHead({ each }) {
  const closed = folded.value.has(each.path);
  return html`<div class="filehead">
    ${exported ? null : html`<input type="checkbox" aria-label=${`Take ${line(each.path)} into the plan`} checked=${basket.value.has(each.path) && basket.value.get(each.path) === null} indeterminate=${!!basket.value.get(each.path)} onChange=${() => toggle(each.path)} />`}
    <button type="button" class="fold" aria-expanded=${!closed} title="Show or hide its lines" onClick=${() => fold(each.path)}>
      <span class="arrow">${closed ? "▸" : "▾"}</span><span class="letter ${each.status}" title=${each.status}>${LETTERS[each.status]}</span>
      <span class="path">${each.old_path ? html`<span class="faint">${line(each.old_path)} → </span>` : null}<span class="faint">${line(folderOf(each.path))}</span><b>${line(baseName(each.path))}</b></span>
    </button>
    <${Lines} ...${counted(each)} />
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
  const names = comparing.value ? ["A", "B"] : ["Before", "After"];
  const side = (state, label, there) => html`<figure><figcaption>${label}</figcaption>${there ? html`<img alt=${`${label}: ${line(each.path)}`} src=${pictureOf(state, each.path)} />` : html`<span class="faint">not there</span>`}</figure>`;
  return html`<div class="pictures">${side(span.a, names[0], each.status !== "added" && span.a !== "nothing")}${side(span.b, names[1], each.status !== "deleted")}</div>`;
}

function draw(found) {
  if (found.type === "file") return html`<${FileHead} each=${found.each} />`;
  if (found.type === "hunk") return html`<div class="hunk">${exported || comparing.value || mode.value === "pick" ? null : html`<input type="checkbox" aria-label=${`Take this hunk of ${line(found.file.path)} into the plan`} checked=${isTicked(found)} onChange=${() => toggleHunk(found)} />`}@@ −${found.hunk.old} +${found.hunk.new} @@ <span>${line(found.hunk.about || "")}</span></div>`;
  if (found.type === "note") return html`<div class="note">${found.text}</div>`;
  if (found.type === "picture") return html`<${Pictures} each=${found.each} />`;
  if (found.type === "load") {
    want(found.each.path);
    return html`<div class="note faint">Reading …</div>`;
  }
  return html`<${Line} row=${found} />`;
}

/** Draws the head of the file at the upper edge, which stays there while its lines pass. */
function stuck(found) {
  const each = found.type === "file" ? null : files.value.list.find((one) => one.path === fileOf(found)?.path);
  return each ? html`<${FileHead} each=${each} />` : null;
}

/** Scrolls to the next or previous hunk. */
export function jump(direction) {
  const virtual = handle.current;
  // Of the element: the list itself hears of a scroll a frame later, and a second key may come before that.
  const edge = (virtual?.scrollElement?.scrollTop ?? 0) + SIZES.file;
  const places = rows.value.flatMap((each, at) => (each.type === "hunk" ? [virtual.getOffsetForIndex(at, "start")[0]] : []));
  const found = direction > 0 ? places.find((place) => place > edge + 1) : places.findLast((place) => place < edge - 1);
  if (found !== undefined) virtual.scrollToOffset(found - SIZES.file);
}

/** Returns the file at the top of the screen. */
export const fileInView = () => files.value.list.find((each) => each.path === topFile.value) || listed.value.list[0] || null;

function openFile(each) {
  if (folded.value.has(each.path)) fold(each.path);
  requestAnimationFrame(() => handle.current?.scrollToIndex(rows.value.findIndex((one) => one.type === "file" && one.each.path === each.path), { align: "start" }));
}

const Tree = makeTree({ files: listed, counted, open: openFile, current: () => topFile.value });

function Bar({ tree, setTree, action }) {
  const { list } = files.value;
  const known = list.length <= 200;
  const total = (name) => list.reduce((sum, each) => sum + (each[name] || 0), 0);
  return html`<div class="bar">
    ${list.length > 1 ? html`<button type="button" class="quiet toggle" aria-pressed=${tree} title="Show or hide the tree of files" onClick=${setTree}>Files</button>` : null}
    <span>${count(list.length, "file")}</span>${known ? html`<${Lines} added=${total("additions")} removed=${total("deletions")} />` : null}
    ${list.length > 8 ? html`<input type="search" aria-label="Only files whose path contains" placeholder="filter files" value=${onlyPath.value} onInput=${(event) => (onlyPath.value = event.target.value)} />` : null}
    <button type="button" class="quiet" onClick=${() => (folded.value = new Set(folded.value.size ? [] : list.map((each) => each.path)))}>${folded.value.size ? "Open all" : "Fold all"}</button>
    <span class="space"></span>
    ${exported || about.value?.read_only ? null : action}
  </div>`;
}

/** Shows the files that differ; `action` stands at the right end of its bar. */
export function Listing({ action }) {
  const box = useRef(null);
  const [room, setRoom] = useState(0);
  useLayoutEffect(() => {
    const watcher = new ResizeObserver(() => setRoom(box.current?.clientWidth || 0));
    watcher.observe(box.current);
    return () => watcher.disconnect();
  }, []);
  const tree = files.value.list.length > 1 && (treeWanted.value === "on" || (treeWanted.value === "auto" && room >= ROOM_FOR_TREE));
  const setTree = () => keep("tree", (treeWanted.value = tree ? "off" : "on"));
  return html`<${Bar} tree=${tree} setTree=${setTree} action=${action} />
    <div ref=${box} class="listing ${tree ? (room >= ROOM_BESIDE ? "beside" : "above") : ""}">${tree ? html`<${Tree} />` : null}
      <${VirtualList} rows=${rows.value} size=${(each) => SIZES[each.type]} draw=${draw} handle=${handle} stuck=${stuck} onTop=${(found) => (topFile.value = fileOf(found)?.path ?? null)} label="Changed files and lines" className=${layout.value === "split" ? "diff two-sided" : "diff"} /></div>`;
}
