// Colours for code: the tokens of a piece of text as runs of [class, text] per line. No HTML is made here.
import "./prism-manual.js";
import Prism from "prismjs/components/prism-core.js";
import "prismjs/components/prism-markup.js";
import "prismjs/components/prism-css.js";
import "prismjs/components/prism-clike.js";
import "prismjs/components/prism-javascript.js";
import "prismjs/components/prism-typescript.js";
import "prismjs/components/prism-python.js";
import "prismjs/components/prism-bash.js";
import "prismjs/components/prism-c.js";
import "prismjs/components/prism-cpp.js";
import "prismjs/components/prism-java.js";
import "prismjs/components/prism-go.js";
import "prismjs/components/prism-rust.js";
import "prismjs/components/prism-ruby.js";
import "prismjs/components/prism-json.js";
import "prismjs/components/prism-yaml.js";
import "prismjs/components/prism-toml.js";
import "prismjs/components/prism-sql.js";
import "prismjs/components/prism-markdown.js";

const LANGUAGES = {
  html: "markup", htm: "markup", xml: "markup", svg: "markup", vue: "markup", css: "css", scss: "css", js: "javascript", mjs: "javascript", cjs: "javascript",
  jsx: "javascript", ts: "typescript", tsx: "typescript", py: "python", pyi: "python", sh: "bash", bash: "bash", zsh: "bash", c: "c", h: "c", cc: "cpp",
  cpp: "cpp", hpp: "cpp", java: "java", kt: "java", go: "go", rs: "rust", rb: "ruby", json: "json", yaml: "yaml", yml: "yaml", toml: "toml", sql: "sql", md: "markdown",
};
const SHOWN = { comment: "c", prolog: "c", string: "s", "template-string": "s", char: "s", "triple-quoted-string": "s", "string-interpolation": "s", "attr-value": "s", regex: "s", keyword: "k", boolean: "n", number: "n", constant: "n", function: "f", "class-name": "f", tag: "k", selector: "k", property: "f", "attr-name": "f", builtin: "f", decorator: "f", title: "k", atrule: "k", key: "f" };
const LONGEST = 1000;

export function languageOf(path) {
  return LANGUAGES[path.slice(path.lastIndexOf(".") + 1).toLowerCase()] || null;
}

/** Returns for each line its runs of [class, text]. */
export function highlighted(lines, language) {
  const grammar = language && Prism.languages[language];
  if (!grammar || lines.some((line) => line.length > LONGEST)) return lines.map((line) => [["", line]]);
  const made = [[]];
  const walk = (tokens, kind) => {
    for (const token of Array.isArray(tokens) ? tokens : [tokens]) {
      if (typeof token !== "string") {
        walk(token.content, SHOWN[token.type] || kind);
        continue;
      }
      token.split("\n").forEach((part, at) => {
        if (at) made.push([]);
        if (part) made.at(-1).push([kind, part]);
      });
    }
  };
  walk(Prism.tokenize(lines.join("\n"), grammar), "");
  return made;
}
