// Records whose every name wants to be markup or a script.

import { cpSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";

/** Equal seeds give equal numbers. */
export function random(seed) {
  return () => {
    seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0;
    return seed / 2 ** 32;
  };
}

/** Each one that runs opens a dialog, asks for an address or breaks what follows. */
const PIECES = [
  "<script>alert(1)</script>", "</script><script>alert(2)</script>", "</style>", "<!--", "-->", "]]>",
  "\" onload=\"alert(3)", "' onmouseover='alert(4)", "<img src=x onerror=alert(5)>", "<svg/onload=alert(6)>",
  "javascript:alert(7)", "&lt;script&gt;", "&#60;b&#62;", "\u202e", "\u2028", "{{7*7}}", "${alert(8)}",
  "<base href=//evil.example>", "</title><plaintext>", "\\u003cscript>alert(9)\\u003c/script>", "__proto__",
  "<iframe srcdoc='<script>alert(10)</script>'>", "</div></details></main>", "\\\";alert(11);//",
];

/** Keys of a record whose strings are anybody's words. */
const WORDS = new Set([
  "label", "note", "description", "hostname", "kernel_release", "kernel_version", "cpu_model", "options", "command", "text",
  "advice", "functions", "objects", "members",
]);

/** A copy of a record in which each such string, and each variant's name, is another; returns how many. */
export function renamed(from, to, next) {
  let names = 0;
  const known = new Map();
  const name = (old) => {
    if (old === "") return old;
    if (!known.has(old)) {
      const pieces = Array.from({ length: 1 + Math.floor(next() * 4) }, () => PIECES[Math.floor(next() * PIECES.length)]);
      known.set(old, pieces.join("") + names++);
    }
    return known.get(old);
  };
  const variants = new Set(JSON.parse(readFileSync(join(from, "record.json"), "utf8")).variants.map((one) => one.name));
  const walk = (value, key) => {
    if (typeof value === "string") {
      const isVariant = ["name", "variant"].includes(key) && variants.has(value);
      return WORDS.has(key) || isVariant ? name(value) : value;
    }
    if (Array.isArray(value)) return value.map((one) => walk(one, key));
    if (value === null || typeof value !== "object") return value;
    return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, walk(inner, key)]));
  };
  cpSync(from, to, { recursive: true });
  const rewrite = (file, change) => writeFileSync(join(to, file), change(readFileSync(join(from, file), "utf8")));
  rewrite("record.json", (text) => JSON.stringify(walk(JSON.parse(text))));
  const lines = (text) => text.split("\n").map((line) => (line ? JSON.stringify(walk(JSON.parse(line))) : line)).join("\n");
  rewrite("runs.ndjson", lines);
  rewrite("looks.ndjson", lines);
  return names;
}
