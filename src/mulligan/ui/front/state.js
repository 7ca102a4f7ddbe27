// What the page knows and what is selected, as signals. Everything that is shown follows from these.
import { batch, computed, effect, signal } from "@preact/signals";
import { exported, get, post } from "./api.js";

export const about = signal(null);
export const entries = signal([]);
export const next = signal(null);
export const total = signal(0);
export const position = signal(null);
export const here = signal(null); // the key of the prompt that an undo went back to
export const loaded = signal(false);
export const failure = signal(null);
export const filter = signal({ agent: "", kind: "", path: "" });

export const selected = signal(null); // the id of a row of the story
export const mode = signal("step"); // "step": before → after; "now": after → now; "pick": A ↔ B
export const picked = signal(null); // A of A ↔ B: {checkpoint, label}
export const view = signal("changes"); // changes | preview | file | search | health | compare
export const comparing = computed(() => view.value === "compare");
export const compared = signal(null); // {a, b} of the view that compares: checkpoints, keys of forks, or "now"
export const pane = signal("story"); // which pane a narrow screen shows
export const file = signal(null); // the path of the file view
export const layout = signal(read("layout") || (matchMedia("(min-width: 1800px)").matches ? "split" : "unified"));
export const theme = signal(read("theme") || "auto");
export const help = signal(false);
export const said = signal(""); // for the polite live region
export const now = signal(Date.now());

export const basket = signal(new Map()); // path → null for the whole file, or the set of its ticked hunks
export const plan = signal(null); // {state: "making" | "shown" | "applying" | "done" | "failed", …}

export function read(name) {
  try {
    return localStorage.getItem("mulligan-" + name);
  } catch {
    return null;
  }
}

export function keep(name, value) {
  try {
    localStorage.setItem("mulligan-" + name, value);
  } catch {
    // A page without storage forgets this with the tab.
  }
}

effect(() => {
  document.documentElement.dataset.theme = theme.value;
});
setInterval(() => (now.value = Date.now()), 15000);

// -- the timeline --------------------------------------------------------------------------------

/** Reads the timeline from its newest entry on: a first page, or as many entries as were shown before. */
export async function load() {
  try {
    const depth = entries.value.length;
    const page = await get("/api/steps?limit=500");
    const list = page.entries;
    let following = page.next;
    while (following && list.length < depth) {
      const older = await get(`/api/steps?limit=2000&before=${encodeURIComponent(following)}`);
      list.push(...older.entries);
      following = older.next;
    }
    batch(() => {
      entries.value = list;
      next.value = following;
      place(page);
      loaded.value = true;
      failure.value = null;
    });
    return page.version;
  } catch (error) {
    failure.value = error;
    throw error;
  }
}

function place(answer) {
  total.value = answer.total;
  position.value = answer.position;
  here.value = answer.here ?? null;
}

let loading = false;
export async function more() {
  if (loading || !next.value || exported) return;
  loading = true;
  try {
    const page = await get(`/api/steps?limit=2000&before=${encodeURIComponent(next.value)}`);
    const known = new Set(entries.value.map((each) => each.key));
    batch(() => {
      entries.value = [...entries.value, ...page.entries.filter((each) => !known.has(each.key))];
      next.value = page.next;
      total.value = page.total;
    });
  } catch {
    // Scrolling on asks again.
  } finally {
    loading = false;
  }
}

/** Takes over what changed since the last state that this page saw. */
export function merge(news) {
  const fresh = new Map(news.entries.map((each) => [each.key, each]));
  const gone = new Set(news.removed || []);
  const oldest = entries.value.at(-1)?.at || "";
  const kept = entries.value.filter((each) => !gone.has(each.key)).map((each) => fresh.get(each.key) || each);
  const known = new Set(kept.map((each) => each.key));
  const added = news.entries.filter((each) => !known.has(each.key) && (!next.value || each.at >= oldest));
  batch(() => {
    entries.value = [...added, ...kept].sort((a, b) => (a.at < b.at ? 1 : a.at > b.at ? -1 : 0));
    place(news);
    now.value = Date.now();
    if (added.length) said.value = added.length === 1 ? `New: ${added[0].text || added[0].name || added[0].type}` : `${added.length} new steps`;
  });
}

// -- rows of the story ---------------------------------------------------------------------------

/** Whether a happening of a prompt is of the kind that the filter shows. */
function isOfKind(each, kind) {
  if (kind === "changes") return each.files > 0;
  if (kind === "yours") return !each.number && each.files > 0;
  return kind !== "failed" || each.outcome === "failed";
}

export const rows = computed(() => {
  const { agent, kind, path } = filter.value;
  const made = [];
  let session = null;
  for (const entry of entries.value) {
    if (entry.type === "prompt") {
      if (agent && entry.agent !== agent) continue;
      const inside = entry.happened.map((each, at) => ({ type: "step", id: `${entry.key}#${at}`, each, entry }));
      const shown = inside.filter(({ each }) => isOfKind(each, kind) && (!path || each.changed.some((one) => one.includes(path))));
      if (kind === "saves" || ((path || kind) && !shown.length)) continue;
      if (session !== entry.session) made.push({ type: "session", id: `s:${entry.key}`, entry });
      session = entry.session;
      made.push({ type: "prompt", id: entry.key, entry });
      made.push(...shown);
    } else {
      if (agent || (kind && kind !== "changes" && kind !== "saves") || (kind === "saves" && entry.kind === "safety") || (kind === "changes" && !entry.files) || (path && !entry.changed.some((one) => one.includes(path)))) continue;
      made.push({ type: "save", id: entry.key, entry });
      session = null;
    }
  }
  return made;
});

export const choosable = computed(() => rows.value.filter((row) => row.type !== "session"));
export const row = computed(() => rows.value.find((each) => each.id === selected.value) || null);
export const agents = computed(() => [...new Set(entries.value.filter((each) => each.type === "prompt").map((each) => each.agent))]);

/** Returns what a row spans: the state before it and the state after it; null where it changed nothing that is kept. */
export function spanOf(found) {
  if (!found) return null;
  if (found.type === "save") return span(found.entry.parent, found.entry.checkpoint, found.entry.expired);
  if (found.type === "step") return found.each.checkpoint ? span(found.each.parent, found.each.checkpoint, found.each.expired) : null;
  const kept = found.entry.happened.filter((each) => each.checkpoint && !each.expired);
  return kept.length ? span(kept[0].parent, kept.at(-1).checkpoint, false) : null;
}

const span = (before, after, expired) => (expired ? null : { a: before || "nothing", b: after });

const isFork = (state) => state.startsWith("fork:");

export const shown = computed(() => {
  // On the left, a fork is what it last saved: only one side can be files as they are.
  if (comparing.value) return compared.value && { a: isFork(compared.value.a) ? `${compared.value.a}:saved` : compared.value.a, b: compared.value.b };
  const found = spanOf(row.value);
  if (mode.value === "pick" && picked.value && found) return { a: picked.value.checkpoint, b: found.b };
  // A new checkpoint means that files changed: they are compared again.
  if (mode.value === "now" && found) return { a: found.b, b: "now", at: position.value };
  return found;
});

/** Returns the state that ticked files are taken from: B, or A where B is what you have. */
export const kept = ({ a, b }) => (b === "now" ? a : b);

/** The checkpoints in the order of time, oldest first: the stops of the scrubber. */
export const stops = computed(() => {
  const found = rows.value.filter((each) => each.type === "save" || (each.type === "step" && each.each.checkpoint && !each.each.expired));
  const at = (each) => (each.type === "save" ? each.entry.at : each.each.at);
  return found.sort((a, b) => (at(a) < at(b) ? -1 : at(a) > at(b) ? 1 : 0));
});

export function choose(id, { open = false } = {}) {
  batch(() => {
    selected.value = id;
    if (view.value !== "file") view.value = "changes";
    if (plan.value?.state === "done" || plan.value?.state === "failed") plan.value = null;
    basket.value = new Map();
    if (open) pane.value = "changes";
  });
}

export function labelOf(found) {
  if (!found) return "";
  if (found.type === "prompt") return `prompt ${found.entry.prompt}`;
  if (found.type === "step") return found.each.number ? `${found.each.name} (tool ${found.each.number})` : found.each.name;
  return found.entry.name || found.entry.kind;
}

// -- plans ---------------------------------------------------------------------------------------

async function show(address, body, note = "") {
  const from = view.peek() === "preview" ? plan.peek()?.from : view.peek();
  plan.value = { state: "making", from };
  pane.value = "plan";
  try {
    const answer = await post(address, body);
    plan.value = { state: "shown", ...answer.plan, asked: { address, body }, note, from };
    said.value = "The plan is ready. Press a to apply it.";
  } catch (error) {
    plan.value = { state: "failed", error };
    said.value = error.message;
  }
}

export const planRestore = (ref, paths = null) => show("/api/plans", { verb: "restore", ref, paths });
export const planRevert = (ref, paths = null) => show("/api/plans", { verb: "revert", ref, paths });
/** Plans to make the files, or some of them, what a state holds: a checkpoint, or a fork, which is saved first. */
export const planState = (state, paths = null) => (isFork(state) ? show("/api/plans", { verb: "keep", ref: state, paths }) : planRestore(state, paths));
export const planUndo = () => show("/api/undo", {});
export const planRedo = () => show("/api/redo", {});
/** Plans the same again, for these hunks only. */
export const planHunks = (asked, hunks, note = "") => show(asked.address, { ...asked.body, hunks }, note);

/** Returns what a revert of a row is called: its prompt, or the checkpoint that holds its changes. */
export function revertOf(found) {
  if (!found || !spanOf(found) || spanOf(found).a === "nothing") return null;
  return found.type === "prompt" ? `@${found.entry.short || found.entry.session}/prompt-${found.entry.prompt}` : spanOf(found).b;
}

export async function apply() {
  const shownPlan = plan.value;
  if (shownPlan?.state !== "shown" || shownPlan.is_noop || about.value?.read_only) return;
  plan.value = { ...shownPlan, state: "applying" };
  try {
    const { report } = await post(`/api/plans/${shownPlan.digest}/apply`);
    plan.value = { state: "done", report, command: shownPlan.command };
    basket.value = new Map();
    if (view.value === "preview") view.value = shownPlan.from || "changes";
    said.value = report.complete ? "Applied." : "Applied in part; what was left alone is listed.";
  } catch (error) {
    plan.value = { state: "failed", error };
    said.value = error.message;
  }
  (document.querySelector(".story [aria-current] button") || document.querySelector(".story .list"))?.focus();
}
