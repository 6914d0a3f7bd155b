// A flame graph on a canvas: time per operation by call stack, its difference, and a lane for what vanished.

import { button, controls, download, slider, toggle } from "./controls";
import { flameCsv } from "./csv";
import type { Flame } from "./data";
import { difference, layout, matched, next, type Frame, type Layout } from "./flame-layout";
import { duration, percent, signed } from "./quantity";
import { numbers } from "./view";

const ROW = 18;
/** Between the graph and the lane of what vanished. */
const GAP = 12;
const FONT = "11px ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace";
const HELP = "Arrow keys move between functions, Enter magnifies one, Escape shows the whole.";

/** Draws the graph into `figure`; `changed` gets the words of the view. */
export function flame(figure: HTMLElement, graph: Flame, words: string[], changed: (words: string[]) => void): void {
  new Drawing(figure, graph, words, changed);
}

class Drawing {
  private readonly canvas = document.createElement("canvas");
  private readonly told = document.createElement("p");
  private at: number;
  private isDifference: boolean;
  private search: string;
  private placed: Layout = { frames: [], now: 0, gone: 0 };
  private selected: Frame | undefined;
  private zoomed: Frame | undefined;

  constructor(
    figure: HTMLElement,
    private readonly graph: Flame,
    words: string[],
    private readonly changed: (words: string[]) => void,
  ) {
    const last = graph.columns.length - 1;
    this.at = Math.min(numbers(words, "at")?.[0] ?? last, last);
    this.isDifference = last > 0 && !words.includes("plain");
    this.search = found(words);
    this.place();
    const path = numbers(words, "focus");
    const isGone = words.includes("gone");
    this.zoomed = path && this.placed.frames.find((one) => one.gone === isGone && one.path.join() === path.join());
    this.selected = this.zoomed;
    this.build(figure);
    new ResizeObserver(() => this.draw()).observe(this.canvas.parentElement ?? figure);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.draw());
  }

  private build(figure: HTMLElement): void {
    const { columns } = this.graph;
    const find = document.createElement("input");
    Object.assign(find, { type: "search", placeholder: "Find a function", value: this.search });
    find.setAttribute("aria-label", "Find a function");
    find.addEventListener("input", () => ((this.search = find.value), this.renew()));
    const line = controls(
      columns.length > 1 && slider("shown", columns, this.at, (at) => ((this.at = at), this.renewed())),
      columns.length > 1 &&
        toggle(`difference to ${columns[0]}`, this.isDifference, (on) => ((this.isDifference = on), this.renewed())),
      find,
      button("whole graph", () => this.zoom(undefined)),
      download(`stacks ${columns.join(" ")}`, () => flameCsv(this.graph)),
    );
    const stage = document.createElement("div");
    stage.className = "stage";
    this.canvas.tabIndex = 0;
    this.canvas.setAttribute("role", "application");
    this.canvas.setAttribute("aria-label", `Flame graph. ${HELP}`);
    this.told.className = "told";
    this.told.setAttribute("role", "status");
    stage.append(this.canvas);
    figure.querySelector("figcaption")?.after(line, this.told, stage);
    this.canvas.addEventListener("mousemove", (event) => this.tell(this.under(event)));
    this.canvas.addEventListener("mouseleave", () => this.tell(this.selected));
    this.canvas.addEventListener("click", (event) => this.zoom(this.under(event)));
    this.canvas.addEventListener("keydown", (event) => this.key(event));
    this.canvas.addEventListener("focus", () => this.select(this.selected ?? this.placed.frames[0]));
    this.tell(this.selected);
  }

  private get against(): number | undefined {
    return this.isDifference && this.at !== 0 ? 0 : undefined;
  }

  private place(): void {
    this.placed = layout(this.graph.root, this.at, this.against);
  }

  /** Another side is shown: frames lie elsewhere. */
  private renewed(): void {
    this.place();
    this.zoomed = this.selected = undefined;
    this.renew();
  }

  private renew(): void {
    this.draw();
    this.tell(this.selected);
    const last = this.graph.columns.length - 1;
    this.changed([
      ...(this.at !== last ? [`at.${this.at}`] : []),
      ...(last > 0 && !this.isDifference ? ["plain"] : []),
      ...(this.zoomed?.gone ? ["gone"] : []),
      ...(this.zoomed?.path.length ? [`focus.${this.zoomed.path.join(".")}`] : []),
      ...(this.search ? [`find.${encodeURIComponent(this.search).replaceAll(".", "%2E")}`] : []),
    ]);
  }

  private zoom(frame: Frame | undefined): void {
    this.zoomed = frame === this.zoomed ? undefined : frame;
    this.selected = this.zoomed;
    this.renew();
  }

  private select(frame: Frame | undefined): void {
    if (!frame) return;
    this.selected = frame;
    this.draw();
    this.tell(frame);
  }

  private key(event: KeyboardEvent): void {
    const from = this.selected ?? this.placed.frames[0];
    if (!from) return;
    if (event.key === "Enter" || event.key === " ") this.zoom(from);
    else if (event.key === "Escape") this.zoom(undefined);
    else if (event.key === "Home") this.select(this.placed.frames[0]);
    else if (event.key.startsWith("Arrow")) this.select(next(this.placed.frames, from, event.key));
    else return;
    event.preventDefault();
  }

  /** The pixels of a frame; `undefined` if it is out of sight. */
  private span(frame: Frame, width: number): [left: number, right: number] | undefined {
    const { now, gone } = this.placed;
    const zoomed = this.zoomed;
    if (zoomed) {
      if (frame.gone !== zoomed.gone) return undefined;
      const scale = width / zoomed.width;
      const [left, right] = [(frame.x - zoomed.x) * scale, (frame.x + frame.width - zoomed.x) * scale];
      return right <= 0.01 || left >= width - 0.01 ? undefined : [Math.max(left, 0), Math.min(right, width)];
    }
    const scale = (width - (gone > 0 ? GAP : 0)) / Math.max(now + gone, 1e-9);
    const shift = frame.gone ? GAP : 0;
    return [frame.x * scale + shift, (frame.x + frame.width) * scale + shift];
  }

  private under(event: MouseEvent): Frame | undefined {
    const width = this.canvas.clientWidth;
    const depth = Math.floor(event.offsetY / ROW);
    return this.placed.frames.find((frame) => {
      const span = frame.depth === depth ? this.span(frame, width) : undefined;
      return span && event.offsetX >= span[0] && event.offsetX < span[1];
    });
  }

  private draw(): void {
    const width = this.canvas.parentElement?.clientWidth ?? 0;
    if (width === 0) return;
    const shown = this.placed.frames.flatMap((frame) => {
      const span = this.span(frame, width);
      return span && span[1] - span[0] >= 0.4 ? [{ frame, left: span[0], right: span[1] }] : [];
    });
    const height = ROW * (1 + Math.max(0, ...shown.map(({ frame }) => frame.depth)));
    const density = devicePixelRatio || 1;
    Object.assign(this.canvas, { width: Math.round(width * density), height: Math.round(height * density) });
    this.canvas.style.width = `${width}px`;
    this.canvas.style.height = `${height}px`;
    const context = this.canvas.getContext("2d");
    if (!context) return;
    context.scale(density, density);
    context.font = FONT;
    context.textBaseline = "middle";
    const style = getComputedStyle(document.documentElement);
    const colour = (name: string) => style.getPropertyValue(name).trim();
    const text = this.search.toLowerCase();
    for (const { frame, left, right } of shown) {
      const isDim = text !== "" && !frame.call[0].toLowerCase().includes(text);
      context.globalAlpha = isDim ? 0.35 : 1;
      this.frame(context, frame, left, right - left, colour);
    }
    context.globalAlpha = 1;
  }

  private frame(
    context: CanvasRenderingContext2D,
    frame: Frame,
    left: number,
    width: number,
    colour: (name: string) => string,
  ): void {
    const top = frame.depth * ROW;
    const [fill, share] = this.fill(frame);
    context.fillStyle = colour("--raised");
    context.fillRect(left, top, Math.max(width - 0.5, 0.4), ROW - 1);
    if (share > 0) {
      const alpha = context.globalAlpha;
      context.globalAlpha = alpha * share;
      context.fillStyle = colour(fill);
      context.fillRect(left, top, Math.max(width - 0.5, 0.4), ROW - 1);
      context.globalAlpha = alpha;
    }
    if (frame === this.selected) {
      context.strokeStyle = colour("--text");
      context.lineWidth = 2;
      context.strokeRect(left + 1, top + 1, Math.max(width - 2.5, 1), ROW - 3);
    }
    if (width < 24) return;
    context.fillStyle = colour("--text");
    context.fillText(shortened(context, frame.call[0], width - 8), left + 4, top + ROW / 2);
  }

  /** The colour of a frame, and how strong it is. */
  private fill(frame: Frame): [string, number] {
    const { against, at } = this;
    if (against === undefined) return ["--c0", 0.14 + 0.26 * hashed(frame.call[0])];
    const { before, now, isClear } = difference(this.graph.root, this.graph.samples, frame.call, at, against);
    // Callers of what vanished are there still.
    if (frame.gone && now > 0) return ["--line", 0.6];
    if (!isClear) return ["--line", 0.5];
    const share = Math.abs(now - before) / Math.max(now, before);
    return [now > before ? "--c1" : "--c0", 0.2 + 0.5 * share];
  }

  private tell(frame: Frame | undefined): void {
    this.told.textContent = frame ? this.inWords(frame) : this.summary();
  }

  private summary(): string {
    const { columns, root } = this.graph;
    const at = root[1][this.at] ?? 0;
    const text = this.search.toLowerCase();
    if (text !== "") {
      const sum = matched(root, this.at, text);
      return `“${this.search}”: ${duration(sum)} per operation, ${percent(at > 0 ? sum / at : 0)} of ${columns[this.at]}`;
    }
    const gone = this.placed.gone > 0 ? `; at the right, what only ${columns[0]} has: ${duration(this.placed.gone)}` : "";
    return `${columns[this.at]}: ${duration(at)} per operation${gone}. ${HELP}`;
  }

  private inWords(frame: Frame): string {
    const { root, samples, columns } = this.graph;
    const [name, ns] = frame.call;
    const [own, all] = [ns[this.at] ?? 0, root[1][this.at] ?? 0];
    const n = all > 0 ? Math.round((own / all) * (samples[this.at] ?? 0)) : 0;
    const told = `${name}: ${duration(own)} per operation, ${percent(all > 0 ? own / all : 0)}, about ${n} samples`;
    if (this.against === undefined) return told;
    const { before, now, isClear } = difference(root, samples, frame.call, this.at, this.against);
    const doubt = isClear ? "" : ", within what chance does to so many samples";
    return `${told}; ${columns[0]} ${duration(before)}: ${signed(now - before)}${doubt}`;
  }
}

/** The text that is searched for. */
function found(words: string[]): string {
  const word = words.find((word) => word.startsWith("find."));
  try {
    return decodeURIComponent(word?.slice(5) ?? "");
  } catch {
    return "";
  }
}

/** As much of a name as fits. */
function shortened(context: CanvasRenderingContext2D, name: string, width: number): string {
  const most = Math.floor(width / context.measureText("m").width);
  return name.length <= most ? name : most > 2 ? `${name.slice(0, most - 1)}…` : "";
}

/** A number between 0 and 1 that depends on a name. */
function hashed(name: string): number {
  let hash = 7;
  for (const letter of name) hash = (31 * hash + letter.charCodeAt(0)) % 65_521;
  return hash / 65_521;
}
