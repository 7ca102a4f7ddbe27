// Puts the page together.
import { html, render } from "htm/preact";
import { exported, get, loggedOut, login } from "./api.js";
import { Changes } from "./changes.js";
import { Compare } from "./compare.js";
import { FileView } from "./file.js";
import { Health } from "./health.js";
import { Help, listenToKeys } from "./keys.js";
import { listen } from "./live.js";
import { Plan } from "./plan.js";
import { Preview } from "./preview.js";
import { Scrubber } from "./scrubber.js";
import { about, choosable, choose, failure, load, pane, position, rows, said, selected, view } from "./state.js";
import { Search } from "./search.js";
import { Story } from "./story.js";
import { Tabs, Top } from "./top.js";

const VIEWS = { changes: Changes, preview: Preview, file: FileView, search: Search, health: Health, compare: Compare };

function LoggedOut() {
  return html`<main class="gate"><div><h1>mulligan</h1><p>This page is not logged in: its link expired, or the server was started again.</p><p>Type this for a new link:</p><pre>mulligan ui</pre></div></main>`;
}

function App() {
  if (loggedOut.value) return html`<${LoggedOut} />`;
  const View = VIEWS[view.value] || Changes;
  return html`<${Top} />
    <main class="main" data-pane=${pane.value}>
      <${Story} /><section class="centre pane" aria-label="Changes"><${View} /></section><${Plan} />
    </main>
    <${Scrubber} /><${Tabs} /><${Help} />
    <div class="sr" aria-live="polite">${said.value}</div>`;
}

async function begin() {
  listenToKeys();
  try {
    await login();
    about.value = await get("/api/about");
    const version = await load();
    const here = rows.value.find((row) => (row.each || row.entry).checkpoint === position.value);
    if (!selected.value) choose((here || choosable.value[0])?.id ?? null);
    listen(version);
  } catch (error) {
    failure.value = error;
    if (error.status === 401 || error.status === 403) loggedOut.value = true;
  }
}

render(html`<${App} />`, document.getElementById("app"));
document.documentElement.dataset.kind = exported ? "exported" : "live";
begin();
