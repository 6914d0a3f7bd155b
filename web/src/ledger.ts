// What scripts add to a ledger: one CPU count at a time, and its difference as a tree by count and cost.

import { ledgerCsv } from "./csv";
import { controls, download, slider, toggle } from "./controls";
import type { Change, Ledger, Row } from "./data";
import { numbers } from "./view";

/** Rows below this depth are folded until the reader asks. */
const OPEN_DEPTH = 3;

/** Offers the other ways to look at the ledger in `figure`; `changed` gets the words of the view. */
export function ledger(figure: HTMLElement, ledger: Ledger, words: string[], changed: (words: string[]) => void): void {
  const rows = figure.querySelector<HTMLElement>(".rows");
  if (!rows) return;
  let at = numbers(words, "at")?.[0] ?? 0;
  let tree: HTMLElement | undefined;
  const remember = () => changed([...(at > 0 ? [`at.${at}`] : []), ...(tree ? ["change"] : [])]);
  const columns = ["all", ...ledger.columns];
  const choose = (column: number) => {
    at = column < columns.length ? column : 0;
    show(rows, at);
    remember();
  };
  const change = (on: boolean) => {
    tree?.remove();
    tree = on ? changeTree(ledger) : undefined;
    rows.hidden = on;
    if (tree) rows.after(tree);
    remember();
  };
  const isDifference = ledger.root[4] !== null;
  const line = controls(
    isDifference && toggle("what made the change: by count, by cost", words.includes("change"), change),
    !isDifference && ledger.columns.length > 1 && slider("CPUs", columns, at, choose),
    download(`ledger ${ledger.columns.join(" ")}`, () => ledgerCsv(ledger)),
  );
  figure.querySelector("figcaption")?.after(line);
  if (at > 0) choose(at);
  if (isDifference && words.includes("change")) change(true);
}

/** Shows one column, or all for 0. */
function show(rows: HTMLElement, at: number): void {
  for (const part of rows.querySelectorAll<HTMLElement>("[data-column]")) {
    part.classList.toggle("off", at > 0 && part.dataset.column !== String(at - 1));
  }
}

/** The change of a row between its first and its last column. */
export function delta([, ns]: Row): number {
  return (ns.at(-1) ?? 0) - (ns[0] ?? 0);
}

/** A row's parts, those that changed most first. */
export function ranked(rows: Row[]): Row[] {
  return [...rows].sort((a, b) => Math.abs(delta(b)) - Math.abs(delta(a)));
}

/** The largest change, or part of one, in a tree. */
export function reach(row: Row): number {
  const [, , , , change, rows] = row;
  const own = [delta(row), change?.[1] ?? 0, change?.[2] ?? 0].map(Math.abs);
  return Math.max(...own, ...rows.map(reach));
}

function changeTree(ledger: Ledger): HTMLElement {
  const most = Math.max(reach(ledger.root), 1e-9);
  const tree = document.createElement("div");
  tree.className = "rows changes";
  tree.tabIndex = 0;
  tree.setAttribute("role", "group");
  tree.setAttribute("aria-label", `Changes of ${ledger.heading}, by count and by cost`);
  const head = document.createElement("div");
  head.className = "line head";
  head.append(span("name d0", ""), legend());
  for (const [index, name] of ledger.details.entries()) head.append(span(index === 0 ? "value" : "detail", name));
  tree.append(head, node(ledger.root, ledger.details.length, most, 0));
  return tree;
}

function legend(): HTMLElement {
  const legend = span("bars parts", "");
  legend.append(span("part by-count", "by count"), " ", span("part by-cost", "by cost"));
  return legend;
}

function node(row: Row, details: number, most: number, depth: number): HTMLElement {
  const [name, , , texts, change, rows] = row;
  const line = document.createElement(rows.length > 0 ? "summary" : "div");
  const isNoise = change !== null && change[0] !== null && Math.abs(delta(row)) <= change[0];
  line.className = isNoise ? "line noise" : "line";
  line.append(span(`name d${Math.min(depth, 9)}`, name), bars(delta(row), change, most));
  for (let index = 0; index < details; index += 1) {
    line.append(span(index === 0 ? "value" : "detail", texts[index] ?? ""));
  }
  if (rows.length === 0) return line;
  const group = document.createElement("details");
  group.className = "row";
  group.open = depth < OPEN_DEPTH;
  group.append(line, ...ranked(rows).map((part) => node(part, details, most, depth + 1)));
  return group;
}

/** The parts by count and by cost from the middle line, and a mark at their sum. */
function bars(change: number, parts: Change | null, most: number): SVGElement {
  const drawing = svg("svg", { class: "bars split", width: "100%", height: "16", "aria-hidden": "true" });
  const x = (value: number) => 50 + (48 * value) / most;
  const bar = (kind: string, value: number, y: number, height: number) => {
    const [left, right] = [x(Math.min(value, 0)), x(Math.max(value, 0))];
    const place = { x: `${left.toFixed(2)}%`, width: `${(right - left).toFixed(2)}%`, y: String(y), height: String(height) };
    drawing.append(svg("rect", { class: kind, ...place }));
  };
  const [, count, cost] = parts ?? [null, null, null];
  if (count === null || cost === null) {
    bar("whole", change, 4, 8);
  } else {
    bar("by-count", count, 1, 7);
    bar("by-cost", cost, 8, 7);
  }
  drawing.append(svg("line", { class: "zero", x1: "50%", x2: "50%", y1: "0", y2: "16" }));
  const sum = `${x(change).toFixed(2)}%`;
  drawing.append(svg("line", { class: "sum", x1: sum, x2: sum, y1: "0", y2: "16" }));
  return drawing;
}

function span(kind: string, text: string): HTMLElement {
  const span = document.createElement("span");
  span.className = kind;
  span.textContent = text;
  return span;
}

function svg(name: string, attributes: Record<string, string>): SVGElement {
  const element = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [attribute, value] of Object.entries(attributes)) element.setAttribute(attribute, value);
  return element;
}
