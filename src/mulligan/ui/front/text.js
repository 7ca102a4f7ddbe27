// Text from a workspace, made safe and short. Nothing in here makes HTML: all of it ends up in text nodes.

// The same characters as in mulligan.present.visible: controls, direction marks, invisible spaces, lone surrogates.
const ACTS = /[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb]|\udb40[\udc00-\udc7f]|[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g;

function escaped(found) {
  const code = found.codePointAt(0);
  if (code >= 0xdc80 && code <= 0xdcff) return "\\x" + (code - 0xdc00).toString(16);
  if (code < 0x100) return "\\x" + code.toString(16).padStart(2, "0");
  return code < 0x10000 ? "\\u" + code.toString(16).padStart(4, "0") : "\\U" + code.toString(16).padStart(8, "0");
}

/** Returns text in which every character that would act is written out as an escape. */
export function visible(text) {
  return String(text).replace(ACTS, escaped);
}

/** Returns a name on one line: newlines and tabs are written out too. */
export function line(text) {
  return visible(text).replace(/\n/g, "\\n").replace(/\t/g, "\\t");
}

/** Returns the first line of a longer text. */
export function firstLine(text) {
  const found = visible(text).trim().split("\n", 1)[0];
  return found.length < text.trim().length ? found + " …" : found;
}

/** Returns a path for an address; a byte that is not UTF-8 comes as a lone surrogate and is sent as that byte. */
export function encodePath(path) {
  return path.replace(/[\udc80-\udcff]|[\ud800-\udbff][\udc00-\udfff]|[^A-Za-z0-9._~/-]/g, (found) => {
    const code = found.charCodeAt(0);
    if (found.length === 1 && code >= 0xdc80 && code <= 0xdcff) return "%" + (code - 0xdc00).toString(16).toUpperCase();
    return found === "%" ? "%25" : encodeURIComponent(found);
  });
}

const STEPS = [[60, "s", 1], [3600, "min", 60], [86400, "h", 3600], [86400 * 30, "d", 86400]];

export function ago(at, now = Date.now()) {
  const seconds = Math.max(0, (now - Date.parse(at)) / 1000);
  if (seconds < 10) return "just now";
  for (const [below, unit, size] of STEPS) if (seconds < below) return `${Math.floor(seconds / size)} ${unit} ago`;
  return new Date(at).toLocaleDateString(undefined, { year: "numeric", month: "short", day: "numeric" });
}

export function clock(at) {
  return new Date(at).toLocaleTimeString(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit" });
}

/** Returns the time of a day, with the day where that is not today. */
export function when(at) {
  const day = new Date(at).toDateString() === new Date().toDateString() ? "" : new Date(at).toLocaleDateString(undefined, { month: "short", day: "numeric" }) + ", ";
  return day + new Date(at).toLocaleTimeString(undefined, { hour: "2-digit", minute: "2-digit" });
}

export function moment(at) {
  return new Date(at).toLocaleString();
}

export function lasted(from, to) {
  const seconds = Math.round((Date.parse(to) - Date.parse(from)) / 1000);
  if (!(seconds > 0)) return "";
  return seconds < 60 ? `${seconds} s` : seconds < 3600 ? `${Math.floor(seconds / 60)} min` : `${(seconds / 3600).toFixed(1)} h`;
}

export function count(number, word) {
  const many = word.endsWith("y") ? word.slice(0, -1) + "ies" : word.endsWith("ch") ? word + "es" : word + "s";
  return `${number.toLocaleString("en")} ${number === 1 ? word : many}`;
}

export function bytes(size) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let at = 0;
  while (size >= 1024 && at < 4) [size, at] = [size / 1024, at + 1];
  return `${at && size < 10 ? size.toFixed(1) : Math.round(size)} ${units[at]}`;
}

export const baseName = (path) => path.slice(path.lastIndexOf("/") + 1);
export const folderOf = (path) => path.slice(0, path.lastIndexOf("/") + 1);

const AGENTS = { "claude-code": "Claude Code", claude: "Claude Code", codex: "Codex", gemini: "Gemini CLI", opencode: "opencode", cursor: "Cursor", aider: "aider", git: "git" };
export const agentName = (agent) => AGENTS[agent] || line(agent || "agent");
