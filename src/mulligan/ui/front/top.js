// The bar at the top: where you are, undo and redo, the other views.
import { html } from "htm/preact";
import { exported, online } from "./api.js";
import { trouble } from "./live.js";
import { about, help, keep, pane, planRedo, planUndo, theme, view } from "./state.js";
import { baseName, folderOf, line } from "./text.js";

const THEMES = { auto: "light", light: "dark", dark: "auto" };

function State() {
  if (exported) return html`<span class="badge quiet">exported file</span>`;
  if (!online.value) return html`<span class="badge warn" role="status">connection lost, trying again</span>`;
  if (trouble.value) return html`<span class="badge warn" title=${trouble.value.message} role="status">store trouble</span>`;
  return html`<span class="live" title="New steps appear by themselves"><span class="pulse"></span>live</span>`;
}

export function open(name) {
  view.value = name;
  pane.value = "changes";
}

export function Top() {
  const root = about.value?.workspace || "";
  return html`<header class="top">
    <h1><svg width="22" height="22" viewBox="0 0 32 32" aria-hidden="true"><rect width="32" height="32" rx="8" fill="var(--accent)" /><path d="M10 13h8.5a5 5 0 0 1 0 10H13M14 8l-5 5 5 5" fill="none" stroke="var(--on-accent)" stroke-width="2.6" stroke-linecap="round" stroke-linejoin="round" /></svg><span class="name">mulligan</span></h1>
    <span class="root" title=${line(root)}><span class="faint">${line(folderOf(root))}</span>${line(baseName(root))}</span>
    <${State} />${about.value?.read_only ? html`<span class="badge quiet">read-only</span>` : null}
    <span class="space"></span>
    ${exported ? null : html`<nav aria-label="Views">
      ${[["changes", "Timeline"], ["search", "Search"], ["compare", "Compare"], ["health", "Health"]].map(([name, text]) => html`<button key=${name} type="button" class="quiet" aria-current=${view.value === name || (name === "changes" && view.value === "file") ? "page" : null} onClick=${() => open(name)}>${text}</button>`)}
    </nav>
    <span class="pair"><button type="button" onClick=${planUndo} title="Show the plan of an undo (u)">Undo</button><button type="button" onClick=${planRedo} title="Show the plan of a redo (U)">Redo</button></span>`}
    <button type="button" class="quiet icon" title=${`Theme: ${theme.value}`} aria-label=${`Theme: ${theme.value}`} onClick=${() => keep("theme", (theme.value = THEMES[theme.value]))}>${{ auto: "◐", light: "☀", dark: "☾" }[theme.value]}</button>
    <button type="button" class="quiet icon" title="Keys (?)" aria-label="Keys" onClick=${() => (help.value = true)}>?</button>
  </header>`;
}

const TABS = [["story", "Story"], ["changes", "Changes"], ["plan", "Plan"]];

export function Tabs() {
  return html`<nav class="tabs" aria-label="Panes">${TABS.map(([name, text]) => (exported && name === "plan" ? null : html`<button key=${name} type="button" aria-current=${pane.value === name ? "page" : null} onClick=${() => (pane.value = name)}>${text}</button>`))}</nav>`;
}
