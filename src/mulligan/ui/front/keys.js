// The keyboard: everything in the page can be done without a mouse.
import { html } from "htm/preact";
import { useEffect, useRef } from "preact/hooks";
import { planBasket } from "./changes.js";
import { fileInView, jump, toggle } from "./listing.js";
import { close } from "./plan.js";
import { apply, choosable, choose, help, pane, plan, planRedo, planUndo, selected, view } from "./state.js";
import { open } from "./top.js";

const KEYS = [
  ["j k", "next, previous step"], ["[ ]", "previous, next prompt"], ["Enter", "to the changes of the step"], ["F7 ⇧F7", "next, previous change"],
  ["x", "tick the file on the screen"], ["r", "plan: take back what is ticked, else everything"], ["u U", "plan of an undo, of a redo"], ["a", "apply the plan that is shown"],
  ["/", "search"], ["g h c", "timeline, health, compare"], ["Esc", "close"], ["?", "this list"],
];

function move(by, only = () => true) {
  const rows = choosable.value;
  let at = rows.findIndex((row) => row.id === selected.value);
  do at += by;
  while (rows[at] && !only(rows[at]));
  if (rows[at]) choose(rows[at].id);
  requestAnimationFrame(() => document.querySelector(".story [aria-current] button")?.focus({ preventScroll: true }));
}

const isPrompt = (row) => row.type !== "step";

const ACTIONS = {
  j: () => move(1), k: () => move(-1), ArrowDown: null, "]": () => move(1, isPrompt), "[": () => move(-1, isPrompt),
  F7: (event) => jump(event.shiftKey ? -1 : 1), r: planBasket, u: planUndo, U: planRedo, a: apply, "?": () => (help.value = true),
  x: () => fileInView() && toggle(fileInView().path), g: () => open("changes"), h: () => open("health"), c: () => open("compare"),
  "/": () => { open("search"); requestAnimationFrame(() => document.querySelector(".search input")?.focus()); },
  Escape: () => (help.value ? (help.value = false) : plan.value ? close() : view.value !== "changes" ? open("changes") : (pane.value = "story")),
};

function pressed(event) {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const typing = /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName) && event.target.type !== "checkbox" && event.target.type !== "range";
  if (typing && event.key !== "Escape") return;
  if (help.value && event.key !== "Escape") return;
  if (event.key === "Enter" && event.target.closest(".story button.row")) {
    requestAnimationFrame(() => document.querySelector(".centre .scroll")?.focus());
    return;
  }
  const action = ACTIONS[event.key];
  if (!action) return;
  event.preventDefault();
  action(event);
}

export function listenToKeys() {
  addEventListener("keydown", pressed);
}

export function Help() {
  const dialog = useRef(null);
  useEffect(() => {
    if (help.value) dialog.current?.showModal();
    else dialog.current?.close();
  }, [help.value]);
  return html`<dialog ref=${dialog} class="help" aria-label="Keys" onClose=${() => (help.value = false)}>
    <h2>Keys</h2><dl>${KEYS.map(([keys, what]) => html`<dt key=${keys}>${keys.split(" ").map((each) => html`<kbd key=${each}>${each}</kbd>`)}</dt><dd>${what}</dd>`)}</dl>
    <button type="button" onClick=${() => (help.value = false)}>Close</button>
  </dialog>`;
}
