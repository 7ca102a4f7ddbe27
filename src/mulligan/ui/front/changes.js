// Changes: what the selected step changed, and what is ticked of it.
import { html } from "htm/preact";
import { exported, get } from "./api.js";
import { files, Listing, loadedBodies } from "./listing.js";
import { basket, compared, comparing, entries, keep, kept, labelOf, layout, mode, picked, plan, planHunks, planRestore, planRevert, planState, revertOf, row, spanOf, view } from "./state.js";
import { count, firstLine, line, moment, when } from "./text.js";

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

/** Plans to take the ticked files and hunks, or everything, back. */
export async function planBasket() {
  const paths = basket.value.size ? [...basket.value.keys()] : null;
  if (comparing.value) return compared.value && planState(kept(compared.value), paths);
  const span = spanOf(row.value);
  if (!span) return;
  const parts = [...basket.value].filter(([, ticked]) => ticked);
  const step = mode.value === "step" && paths && revertOf(row.value);
  const bodies = loadedBodies();
  if (mode.value === "step" && paths && !step) plan.value = { state: "failed", error: { message: "There is no state before the first checkpoint.", hint: "" } };
  else if (step) await planRevert(step, paths);
  else await planRestore(mode.value === "pick" && picked.value ? picked.value.checkpoint : span.b, paths);
  if (parts.length && plan.value?.state === "shown") await narrow(parts, bodies);
}

/** Narrows a plan that was just made to the hunks that are ticked: those of the plan that do the opposite of what is shown. */
async function narrow(parts, bodies) {
  const found = plan.value;
  const { files: planned } = await get(`/api/plans/${found.digest}/hunks`);
  const chosen = [];
  let missing = 0;
  for (const file of planned) {
    const ticked = parts.find(([path]) => path === file.path)?.[1];
    const free = file.hunks.map((hunk) => ({ id: hunk.id, text: changesOf(hunk, "-", "+") }));
    if (!ticked) chosen.push(...free.map((each) => each.id));
    else
      bodies.get(file.path).hunks.forEach((hunk, at) => {
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
  const chosen = basket.value.size;
  return html`<${Listing} action=${chosen ? html`<button type="button" class="primary" onClick=${planBasket}>Plan ${count(chosen, "file")}</button>` : html`<span class="faint wide">Tick files to take back only those</span>`} />`;
}

export function Changes() {
  if (!row.value) return html`<div class="empty"><h2>${entries.value.length ? "Select a step" : "Your timeline will be here"}</h2><p>${entries.value.length ? "j and k move through the story; ? shows all keys." : "Each prompt, tool call and edit becomes a step that you can look at and take back."}</p></div>`;
  return html`<${Head} /><${Body} />`;
}
