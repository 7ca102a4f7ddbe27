// The lines of a difference as rows of equal height, so that a file of 50,000 lines scrolls like one of fifty.
import { html } from "htm/preact";
import { highlighted, languageOf } from "./highlight.js";
import { visible } from "./text.js";

const CHUNK = 400;

/** Returns rows for the hunks of one loaded file, numbered; `split` pairs old and new lines. */
export function rowsOf(file, split) {
  const rows = [];
  file.hunks.forEach((hunk, at) => {
    const id = `${file.path}\n${at}`;
    rows.push({ type: "hunk", id: `h${id}`, file, hunk, at });
    rows.push(...(split ? splitLines(hunk, id) : unifiedLines(hunk, id)).map((row) => ({ ...row, file, hunk })));
  });
  return rows;
}

function* numbered(hunk) {
  let [old, fresh] = [hunk.old, hunk.new];
  for (let at = 0; at < hunk.lines.length; at++) {
    const tag = hunk.lines[at][0] || " ";
    if (tag === "\\") yield { at, tag };
    else yield { at, tag, old: tag === "+" ? null : old++, fresh: tag === "-" ? null : fresh++ };
  }
}

function unifiedLines(hunk, id) {
  const rows = [];
  for (const line of numbered(hunk)) rows.push({ type: "line", id: `l${id}\n${line.at}`, ...line, other: null });
  pair(rows);
  return rows;
}

/** Tells lines that were replaced by as many others which is their counterpart. */
function pair(rows) {
  for (let at = 0; at < rows.length; ) {
    let middle = at;
    while (rows[middle]?.tag === "-") middle++;
    let end = middle;
    while (rows[end]?.tag === "+") end++;
    if (middle > at && end - middle === middle - at) for (let by = 0; by < middle - at; by++) [rows[at + by].other, rows[middle + by].other] = [rows[middle + by].at, rows[at + by].at];
    at = Math.max(end, at + 1);
  }
}

function splitLines(hunk, id) {
  const rows = [];
  let removed = [];
  let added = [];
  const flush = () => {
    for (let by = 0; by < Math.max(removed.length, added.length); by++) {
      const [left, right] = [removed[by] || null, added[by] || null];
      if (left && right && removed.length === added.length) [left.other, right.other] = [right.at, left.at];
      rows.push({ type: "pair", id: `s${id}\n${rows.length}`, left, right });
    }
    [removed, added] = [[], []];
  };
  for (const line of numbered(hunk)) {
    if (line.tag === "-") removed.push(line);
    else if (line.tag === "+") added.push(line);
    else {
      flush();
      rows.push({ type: "pair", id: `s${id}\n${rows.length}`, left: line, right: line });
    }
  }
  flush();
  return rows;
}

/** Returns the coloured runs of one line; a chunk of lines is coloured at once, when one of it is shown. */
function runsOf(file, hunk, at, side) {
  const from = Math.floor(at / CHUNK) * CHUNK;
  hunk.colours ||= {};
  const key = side + from;
  hunk.colours[key] ||= colour(file, hunk, from, side);
  return hunk.colours[key].get(at) || [["", hunk.lines[at].slice(1)]];
}

function colour(file, hunk, from, side) {
  const places = [];
  for (let at = from; at < Math.min(from + CHUNK, hunk.lines.length); at++) if (hunk.lines[at][0] === " " || hunk.lines[at][0] === side) places.push(at);
  const runs = highlighted(places.map((at) => hunk.lines[at].slice(1)), languageOf(file.path));
  return new Map(places.map((at, number) => [at, runs[number]]));
}

/** Returns where two lines differ, as [from, to] in the first; null where they have little in common. */
function differing(one, other) {
  if (one.length > 1000 || other.length > 1000) return null;
  const most = Math.min(one.length, other.length);
  let head = 0;
  while (head < most && one[head] === other[head]) head++;
  let tail = 0;
  while (tail < most - head && one[one.length - 1 - tail] === other[other.length - 1 - tail]) tail++;
  return (head + tail) * 3 >= most && one.length - tail > head ? [head, one.length - tail] : null;
}

export function Text({ file, hunk, line }) {
  const side = line.tag === "+" ? "+" : "-";
  const runs = runsOf(file, hunk, line.at, side);
  const mark = line.other === null || line.other === undefined ? null : differing(hunk.lines[line.at].slice(1), hunk.lines[line.other].slice(1));
  return draw(runs, mark);
}

export function draw(runs, mark) {
  const made = [];
  let place = 0;
  for (const [kind, text] of runs) {
    const cuts = mark ? [0, mark[0] - place, mark[1] - place, text.length] : [0, text.length];
    for (let at = 0; at + 1 < cuts.length; at++) {
      const [from, to] = [Math.min(Math.max(cuts[at], 0), text.length), Math.min(Math.max(cuts[at + 1], 0), text.length)];
      if (to <= from) continue;
      const part = visible(text.slice(from, to));
      const marked = mark && at === 1;
      made.push(kind || marked ? html`<span class=${(kind ? "t" + kind : "") + (marked ? " mark" : "")}>${part}</span>` : part);
    }
    place += text.length;
  }
  return made;
}

const SIGNS = { "+": "+", "-": "−", " ": " " };
const NAMES = { "+": "added", "-": "removed", " ": "same" };

function Side({ file, hunk, line, number }) {
  if (!line) return html`<span class="side none"></span>`;
  const text = hunk.lines[line.at];
  return html`<span class="side ${NAMES[line.tag]}" title=${text.length > 60 ? visible(text.slice(1)) : null}><span class="number">${number}</span><span class="sign">${SIGNS[line.tag]}</span><code><${Text} file=${file} hunk=${hunk} line=${line} /></code></span>`;
}

export function Line({ row }) {
  if (row.type === "pair") return html`<div class="line split"><${Side} ...${row} line=${row.left} number=${row.left?.old} /><${Side} ...${row} line=${row.right} number=${row.right?.fresh} /></div>`;
  if (row.tag === "\\") return html`<div class="line same"><span class="number"></span><span class="number"></span><span class="sign"></span><code class="faint">no newline at the end of the file</code></div>`;
  return html`<div class="line ${NAMES[row.tag]}"><span class="number">${row.old}</span><span class="number">${row.fresh}</span><span class="sign">${SIGNS[row.tag]}</span><code><${Text} file=${row.file} hunk=${row.hunk} line=${row} /></code></div>`;
}
