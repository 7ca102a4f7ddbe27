// The scrubber: a slider over all states, oldest on the left, with a lane for each agent.
import { html } from "htm/preact";
import { useEffect, useRef } from "preact/hooks";
import { agents, choose, position, selected, stops, theme } from "./state.js";
import { agentName, count, line, when } from "./text.js";

const AGENT_COLOURS = ["--lane-1", "--lane-2", "--lane-3", "--lane-4"];

function describe(stop) {
  if (!stop) return "no step";
  if (stop.type === "save") return `${when(stop.entry.at)}, checkpoint ${line(stop.entry.name || stop.entry.kind)}, ${count(stop.entry.files, "file")}`;
  return `${when(stop.each.at)}, ${agentName(stop.entry.agent)}, prompt ${stop.entry.prompt}: ${line(stop.each.name)}, ${count(stop.each.files, "file")}`;
}

/** Draws a mark for each state in the lane of its agent, as tall as its change is large; a line where you are, one where you look. */
function paint(canvas, found, current) {
  const { width, height } = canvas.getBoundingClientRect();
  const scale = window.devicePixelRatio || 1;
  [canvas.width, canvas.height] = [width * scale, height * scale];
  const pen = canvas.getContext("2d");
  const style = getComputedStyle(canvas);
  const colour = (name) => style.getPropertyValue(name).trim();
  pen.scale(scale, scale);
  pen.clearRect(0, 0, width, height);
  const lanes = agents.value;
  const tall = height / (lanes.length + 1);
  const x = (at) => 8 + (found.length < 2 ? 0 : (at / (found.length - 1)) * (width - 16));
  const thick = Math.max(1, Math.min(6, (width - 16) / Math.max(found.length, 1) - 1));
  pen.fillStyle = colour("--line");
  for (let lane = 1; lane <= lanes.length; lane++) pen.fillRect(0, Math.round(tall * lane), width, 1);
  const line = (at, name, wide) => {
    if (at < 0) return;
    pen.fillStyle = colour(name);
    pen.fillRect(x(at) - wide / 2, 0, wide, height);
  };
  line(found.findIndex((stop) => (stop.each || stop.entry).checkpoint === position.value), "--line-strong", 1);
  found.forEach((stop, at) => {
    const lane = stop.type === "save" ? lanes.length : lanes.indexOf(stop.entry.agent);
    const files = stop.type === "save" ? (stop.entry.parent ? stop.entry.files : 1) : stop.each.files;
    const size = Math.min(tall - 3, 4 + Math.log2(1 + files) * 2.5);
    pen.fillStyle = stop.entry.undone ? colour("--line-strong") : stop.type === "save" ? colour("--muted") : colour(AGENT_COLOURS[Math.max(lane, 0) % 4]);
    pen.fillRect(x(at) - thick / 2, tall * (lane + 1) - size - 1, thick, size);
  });
  const here = found.findIndex((stop) => stop.id === current);
  line(here, "--accent", 2);
  if (here >= 0) {
    pen.beginPath();
    pen.arc(x(here), 4, 4, 0, 7);
    pen.fill();
  }
}

export function Scrubber() {
  const canvas = useRef(null);
  const found = stops.value;
  // A prompt stands where its last change does.
  const at = found.findLastIndex((stop) => stop.id === selected.value || stop.id.startsWith(`${selected.value}#`));
  const current = found[at]?.id;
  useEffect(() => {
    const draw = () => canvas.current && paint(canvas.current, found, current);
    draw();
    const watcher = new ResizeObserver(draw);
    if (canvas.current) watcher.observe(canvas.current);
    const dark = matchMedia("(prefers-color-scheme: dark)");
    dark.addEventListener("change", draw);
    return () => {
      watcher.disconnect();
      dark.removeEventListener("change", draw);
    };
  }, [found, current, theme.value, position.value]);
  if (found.length < 2) return null;
  const shown = at >= 0 ? found[at] : null;
  const lanes = [...agents.value.map(agentName), "you"];
  return html`<section class="scrubber" aria-label="Scrubber" style=${{ "--lanes": lanes.length }}>
    <ul class="lanes" aria-hidden="true">${lanes.map((each) => html`<li key=${each}>${each}</li>`)}</ul>
    <div class="track"><canvas ref=${canvas} aria-hidden="true"></canvas>
      <input type="range" min="0" max=${found.length - 1} step="1" value=${at >= 0 ? at : found.length - 1} aria-label="State of the project" aria-valuetext=${describe(shown)}
        onInput=${(event) => choose(found[Number(event.target.value)].id)} /></div>
    <output>${shown ? describe(shown) : `${count(found.length, "state")}`}</output>
  </section>`;
}
