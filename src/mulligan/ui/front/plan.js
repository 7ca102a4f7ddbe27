// Plan: what going back would do, path by path, before anything is done. Nothing else in the page writes.
import { html } from "htm/preact";
import { signal } from "@preact/signals";
import { exported } from "./api.js";
import { planBasket } from "./changes.js";
import { about, apply, basket, labelOf, mode, now, pane, plan, planRedo, planRestore, planRevert, planUndo, revertOf, row, spanOf, view } from "./state.js";
import { ago, count, firstLine, line } from "./text.js";

const MOST = 200;
const copied = signal("");

function Paths({ title, kind, paths, total, mark }) {
  if (!paths?.length) return null;
  const all = total ?? paths.length;
  return html`<details class="paths ${kind}" open=${all <= 50}>
    <summary><span class="letter ${kind}">${mark}</span>${title} <span class="faint">${all.toLocaleString("en")}</span></summary>
    <ul>${paths.slice(0, MOST).map((each) => html`<li key=${each.path || each}>${line(each.path || each)}${each.reason ? html`<span class="reason">${line(each.reason)}${each.detail ? `: ${line(each.detail)}` : ""}</span>` : null}</li>`)}</ul>
    ${all > MOST ? html`<p class="faint">and ${(all - MOST).toLocaleString("en")} more</p>` : null}
  </details>`;
}

function about_(undone) {
  if (!undone) return "";
  const when = undone.at ? `, ${ago(undone.at, now.value)}` : "";
  if (undone.kind === "turn") return `Prompt ${undone.prompt} “${firstLine(undone.text).slice(0, 80)}”${when}`;
  return { restore: `A restore${when}`, revert: `A revert${when}`, tool: `Tool ${undone.tool}${when}`, session: "All that a session did", unsaved: "What changed since the last checkpoint", step: `The last step${when}` }[undone.kind] || undone.kind;
}

function Command({ text }) {
  if (!text) return null;
  const copy = async () => {
    await navigator.clipboard?.writeText(text).catch(() => {});
    copied.value = text;
  };
  return html`<div class="command"><code>${text}</code><button type="button" class="quiet" onClick=${copy}>${copied.value === text ? "Copied" : "Copy"}</button></div>`;
}

function Shown({ found }) {
  const counts = found.counts || {};
  const touched = (counts.creates || 0) + (counts.modifies || 0) + (counts.deletes || 0);
  return html`<h3>${about_(found.undone) || { restore: `Restore ${found.target.slice(0, 8)}`, keep: "Keep the fork" }[found.verb] || "Plan"}</h3>
    ${found.is_noop ? html`<p>Nothing would change: your files already are like that.</p>` : null}
    ${found.undone?.running ? html`<p class="warning">The agent is still at work on this prompt.</p>` : null}
    ${found.branch ? html`<p class="warning">That checkpoint was made on the branch ${line(found.branch)}.</p>` : null}
    <${Paths} title="Create" kind="added" mark="+" paths=${found.creates} total=${counts.creates} />
    <${Paths} title="Change" kind="modified" mark="~" paths=${found.modifies} total=${counts.modifies} />
    <${Paths} title="Delete" kind="deleted" mark="−" paths=${found.deletes} total=${counts.deletes} />
    <${Paths} title="In conflict with later changes" kind="deleted" mark="!" paths=${found.conflicts} total=${counts.conflicts} />
    <${Paths} title="Left alone" kind="kept" mark="=" paths=${found.keeps} total=${counts.keeps} />
    ${found.note ? html`<p class="warning">${found.note}</p>` : null}
    ${found.is_noop ? null : html`<button type="button" onClick=${() => ((view.value = "preview"), (pane.value = "changes"))}>Show its lines, choose hunks</button>`}
    <${Command} text=${found.command} />
    <div class="actions">
      ${about.value?.read_only ? html`<p class="warning">This page is read-only. Type the command above.</p>` : html`<button type="button" class="primary" disabled=${found.is_noop || found.state === "applying"} onClick=${apply}>${found.state === "applying" ? "Applying …" : found.is_noop ? "Nothing to apply" : `Apply to ${count(touched, "file")}`} <kbd>a</kbd></button>`}
      <button type="button" onClick=${close}>Cancel</button>
    </div>
    ${found.is_noop ? null : html`<p class="faint">Your files as they are now are saved first. One undo brings them back.</p>`}`;
}

function Done({ report }) {
  const counts = report.counts || {};
  return html`<h3>${report.complete ? "Done" : "Done in part"}</h3>
    ${report.undone ? html`<p>${about_(report.undone)}</p>` : null}
    <${Paths} title="Created" kind="added" mark="+" paths=${report.created} total=${counts.created} />
    <${Paths} title="Changed" kind="modified" mark="~" paths=${report.modified} total=${counts.modified} />
    <${Paths} title="Deleted" kind="deleted" mark="−" paths=${report.deleted} total=${counts.deleted} />
    <${Paths} title="Left alone" kind="kept" mark="=" paths=${report.kept} total=${counts.kept} />
    <${Paths} title="In conflict, left alone" kind="deleted" mark="!" paths=${report.conflicts} total=${counts.conflicts} />
    <${Paths} title="Lost: never saved" kind="deleted" mark="!" paths=${report.lost} total=${counts.lost} />
    ${report.reinstall?.length ? html`<p>To make dependencies fit again:</p>${report.reinstall.map((each) => html`<${Command} text=${each} />`)}` : null}
    <div class="actions"><button type="button" onClick=${planUndo}>Undo this <kbd>u</kbd></button><button type="button" onClick=${close}>Close</button></div>`;
}

export function close() {
  if (view.value === "preview") view.value = plan.value?.from || "changes";
  plan.value = null;
  pane.value = "changes";
}

function Offers() {
  const found = row.value;
  const span = spanOf(found);
  const chosen = basket.value.size;
  return html`<h3>Go back</h3>
    <p class="faint">You see the plan before anything changes.</p>
    <div class="offers">
      ${chosen ? html`<button type="button" onClick=${planBasket}><b>What is ticked in ${count(chosen, "file")}</b><span>${mode.value === "step" ? "take it back, keep later changes" : "as it was then"}</span><kbd>r</kbd></button>` : null}
      ${!chosen && revertOf(found) && !(found.type === "save" && !found.entry.files) ? html`<button type="button" onClick=${() => planRevert(revertOf(found))}><b>Take back only this</b><span>keep everything that came after ${labelOf(found)}</span></button>` : null}
      ${span ? html`<button type="button" onClick=${() => planRestore(span.b)}><b>To this state</b><span>all files as after ${labelOf(found)}</span>${chosen ? null : html`<kbd>r</kbd>`}</button>` : null}
      ${span && span.a !== "nothing" ? html`<button type="button" onClick=${() => planRestore(span.a)}><b>To before it</b><span>all files as before ${labelOf(found)}</span></button>` : null}
      <button type="button" onClick=${planUndo}><b>Undo</b><span>the last prompt, restore or edit</span><kbd>u</kbd></button>
      <button type="button" onClick=${planRedo}><b>Redo</b><span>what the last undo undid</span><kbd>U</kbd></button>
    </div>`;
}

export function Plan() {
  const found = plan.value;
  if (exported) return null;
  let body;
  if (!found) body = html`<${Offers} />`;
  else if (found.state === "making") body = html`<h3>Plan</h3><p class="faint">Comparing with your files …</p>`;
  else if (found.state === "failed") body = html`<h3>${found.error.status === 409 ? "The plan is out of date" : "Not possible"}</h3><p role="alert">${found.error.message}</p><p class="faint">${found.error.hint}</p><div class="actions"><button type="button" onClick=${close}>Close</button></div>`;
  else if (found.state === "done") body = html`<${Done} report=${found.report} />`;
  else body = html`<${Shown} found=${found} />`;
  return html`<section class="plan pane ${found ? "busy" : ""}" aria-label="Plan"><div class="inner">${body}</div></section>`;
}
