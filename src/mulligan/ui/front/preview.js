// The lines of a plan: what it would make of your files, hunk by hunk. What is ticked here is what is planned.
import { effect, signal } from "@preact/signals";
import { html } from "htm/preact";
import { get } from "./api.js";
import { Line, rowsOf } from "./diff.js";
import { VirtualList } from "./list.js";
import { layout, plan, planHunks, view } from "./state.js";
import { Lines } from "./story.js";
import { count, line } from "./text.js";

const SIZES = { file: 40, hunk: 26, line: 20, pair: 20 };
const loaded = signal({ digest: null, files: [] });
const off = signal(new Set()); // the ids of hunks that were unticked

effect(() => {
  const digest = plan.value?.digest;
  if (view.value !== "preview" || !digest || loaded.peek().digest === digest) return;
  loaded.value = { digest, files: [], reading: true };
  get(`/api/plans/${digest}/hunks`).then(
    (answer) => {
      off.value = new Set();
      loaded.value = { digest, ...answer };
    },
    (error) => (loaded.value = { digest, files: [], error }),
  );
});

function toggle(ids, on) {
  const next = new Set(off.value);
  for (const id of ids) on ? next.delete(id) : next.add(id);
  off.value = next;
}

function draw(row) {
  if (row.type === "file") {
    const ids = row.each.hunks.map((hunk) => hunk.id);
    const on = ids.filter((id) => !off.value.has(id)).length;
    return html`<div class="filehead"><input type="checkbox" aria-label=${`Plan ${line(row.each.path)}`} checked=${on === ids.length} indeterminate=${on > 0 && on < ids.length} onChange=${() => toggle(ids, on < ids.length)} />
      <span class="path mono">${line(row.each.path)}</span><span class="space"></span><${Lines} added=${row.each.additions} removed=${row.each.deletions} /></div>`;
  }
  if (row.type === "hunk") return html`<div class="hunk"><input type="checkbox" aria-label=${`Plan this hunk of ${line(row.file.path)}`} checked=${!off.value.has(row.hunk.id)} onChange=${() => toggle([row.hunk.id], off.value.has(row.hunk.id))} />${row.hunk.lines.length ? `@@ −${row.hunk.old} +${row.hunk.new} @@` : line(row.hunk.about)}</div>`;
  return html`<${Line} row=${row} />`;
}

export function Preview() {
  const found = plan.value;
  if (!found?.digest) return html`<div class="empty"><p>There is no plan.</p></div>`;
  const { files, reading, error, left_out: rest } = loaded.value;
  const rows = files.flatMap((each) => [{ type: "file", id: "f" + each.path, each }, ...rowsOf(each, layout.value === "split")]);
  const ids = files.flatMap((each) => each.hunks.map((hunk) => hunk.id));
  const on = ids.filter((id) => !off.value.has(id));
  return html`<header class="head"><div class="about"><h2>What the plan would do to your files</h2><p class="meta">left: your files now · right: after the plan</p></div>
      <div class="tools"><button type="button" onClick=${() => (view.value = found.from || "changes")}>Back</button></div></header>
    <div class="bar"><span>${count(on.length, "hunk")} of ${ids.length} ticked</span>${rest ? html`<span class="faint">${count(rest, "more file")} not shown</span>` : null}<span class="space"></span>
      ${on.length < ids.length ? html`<button type="button" class="primary" disabled=${!on.length} onClick=${() => planHunks(found.asked, on)}>Plan only what is ticked</button>` : null}</div>
    ${error ? html`<div class="empty"><h2>The lines cannot be shown</h2><p>${error.message}</p></div>` : reading ? html`<div class="empty"><p class="faint">Reading …</p></div>` : html`<${VirtualList} rows=${rows} size=${(row) => SIZES[row.type]} draw=${draw} label="Lines of the plan" className=${layout.value === "split" ? "diff two-sided" : "diff"} />`}`;
}
