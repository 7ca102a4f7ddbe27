// The changed files as a tree: folders that close, of which only the rows on the screen exist.
import { computed, signal } from "@preact/signals";
import { html } from "htm/preact";
import { exported } from "./api.js";
import { VirtualList } from "./list.js";
import { basket } from "./state.js";
import { Lines } from "./story.js";
import { baseName, count, line } from "./text.js";

/** Above so many files, folders are closed at first. */
const OPEN_AT_FIRST = 200;
export const LETTERS = { added: "A", modified: "M", deleted: "D", renamed: "R" };
const active = signal(0);

/** Returns the tree of a list of files that is sorted by path; a folder that holds nothing but a folder is one row with it. */
function grow(list) {
  const root = { path: "", folders: new Map(), files: [], all: [] };
  for (const each of list) {
    let node = root;
    node.all.push(each);
    const parts = each.path.split("/");
    for (let at = 0; at < parts.length - 1; at++) {
      if (!node.folders.has(parts[at])) node.folders.set(parts[at], { path: parts.slice(0, at + 1).join("/"), folders: new Map(), files: [], all: [] });
      node = node.folders.get(parts[at]);
      node.all.push(each);
    }
    node.files.push(each);
  }
  return root;
}

function flatten(node, depth, from, closed, rows) {
  for (let folder of node.folders.values()) {
    while (!folder.files.length && folder.folders.size === 1) folder = [...folder.folders.values()][0];
    const shut = closed(folder.path);
    rows.push({ type: "folder", id: "d" + folder.path, name: folder.path.slice(from), folder, depth, shut });
    if (!shut) flatten(folder, depth + 1, folder.path.length + 1, closed, rows);
  }
  for (const each of node.files) rows.push({ type: "file", id: "f" + each.path, name: each.path.slice(from), each, depth });
  return rows;
}

/** Returns files in the order of the tree: folders before files, so that the lines follow it. */
export function inOrder(list) {
  const walk = (node) => [...[...node.folders.values()].flatMap(walk), ...node.files];
  return walk(grow(list));
}

/**
 * Makes a tree of a signal of files. `open(file)` shows one, `current()` is the path of the one that is shown.
 */
export function makeTree({ files, counted, open, current }) {
  const turned = signal(new Set()); // folders that are not as they are at first
  const grown = computed(() => grow(files.value.list));
  const shutAtFirst = computed(() => files.value.list.length > OPEN_AT_FIRST && !files.value.filtered);
  const rows = computed(() => flatten(grown.value, 0, 0, (path) => shutAtFirst.value !== turned.value.has(path), []));
  const handle = { current: null };

  function turn(path) {
    const next = new Set(turned.value);
    if (!next.delete(path)) next.add(path);
    turned.value = next;
  }

  function go(at) {
    active.value = Math.max(0, Math.min(rows.value.length - 1, at));
    handle.current?.scrollToIndex(active.value, { align: "auto" });
  }

  function use(row) {
    if (row?.type === "folder") turn(row.folder.path);
    else if (row) open(row.each);
  }

  function tick(row) {
    const paths = row.type === "folder" ? row.folder.all.map((each) => each.path) : [row.each.path];
    const next = new Map(basket.value);
    const on = paths.every((path) => next.get(path) === null);
    for (const path of paths) on ? next.delete(path) : next.set(path, null);
    basket.value = next;
  }

  const PRESSED = {
    ArrowDown: (at) => go(at + 1), ArrowUp: (at) => go(at - 1), Home: () => go(0), End: () => go(rows.value.length - 1),
    ArrowRight: (at, row) => (row.type === "folder" && row.shut ? turn(row.folder.path) : go(at + 1)),
    ArrowLeft: (at, row) => (row.type === "folder" && !row.shut ? turn(row.folder.path) : go(rows.value.findLastIndex((each, place) => place < at && each.depth < row.depth))),
    Enter: (_, row) => use(row), " ": (_, row) => exported || tick(row),
  };

  function pressed(event) {
    const row = rows.value[active.value];
    if (!PRESSED[event.key] || !row || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    event.stopPropagation();
    PRESSED[event.key](active.value, row);
  }

  function Tick({ row }) {
    const paths = row.type === "folder" ? row.folder.all.map((each) => each.path) : [row.each.path];
    const ticked = paths.filter((path) => basket.value.has(path));
    const whole = ticked.length === paths.length && ticked.every((path) => basket.value.get(path) === null);
    return html`<input type="checkbox" tabindex="-1" aria-label=${`Take ${line(row.name)} into the plan`} checked=${whole} indeterminate=${!whole && ticked.length > 0} onChange=${() => tick(row)} onClick=${(event) => event.stopPropagation()} />`;
  }

  function draw(row, at) {
    const inside = row.type === "folder"
      ? html`<span class="arrow">${row.shut ? "▸" : "▾"}</span>${exported ? null : html`<${Tick} row=${row} />`}<span class="name folder">${line(row.name)}</span><span class="faint much">${row.folder.all.length.toLocaleString("en")}</span>`
      : html`<span class="arrow"></span>${exported ? null : html`<${Tick} row=${row} />`}<span class="name">${line(row.name)}</span><${Lines} ...${counted(row.each)} /><span class="letter ${row.each.status}" title=${row.each.status}>${LETTERS[row.each.status]}</span>`;
    return html`<div class="leaf ${at === active.value ? "active" : ""}" style=${{ paddingLeft: 8 + row.depth * 14 + "px" }} title=${line(row.type === "folder" ? row.folder.path : row.each.path)} onClick=${() => ((active.value = at), use(row))}>${inside}</div>`;
  }
  draw.attributes = (row, at) => ({
    id: `leaf-${at}`, role: "treeitem", "aria-level": row.depth + 1, "aria-label": row.type === "folder" ? `${line(row.name)}, ${count(row.folder.all.length, "file")}` : `${line(baseName(row.name))}, ${row.each.status}`,
    "aria-expanded": row.type === "folder" ? String(!row.shut) : undefined, "aria-selected": String(row.type === "file" && row.each.path === current()),
  });

  return function Tree() {
    return html`<div class="tree" style=${{ "--leaves": rows.value.length }} onKeyDown=${pressed}><${VirtualList} rows=${rows.value} size=${() => 26} draw=${draw} handle=${handle} role="tree" label="Changed files" active=${rows.value.length ? `leaf-${active.value}` : null} /></div>`;
  };
}
