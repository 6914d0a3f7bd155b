// Where the frames of a flame graph lie. Pure: the drawing is in flame.ts.

import type { Call } from "./data";

/** A function at its place: from `x` on, `width` wide, both in ns per operation of the side that is shown. */
export interface Frame {
  call: Call;
  x: number;
  width: number;
  depth: number;
  /** Whether it lies in the lane of what only the first side has. */
  gone: boolean;
  parent: Frame | undefined;
  /** Numbers of the calls that lead to it from the root. */
  path: number[];
}

export interface Layout {
  frames: Frame[];
  /** Width of what is shown, and of the lane of what vanished. */
  now: number;
  gone: number;
}

/** The frames of the column `at`, and in a lane what only `against` has; `undefined` for no difference. */
export function layout(root: Call, at: number, against: number | undefined): Layout {
  const frames: Frame[] = [];
  const now = root[1][at] ?? 0;
  place(frames, root, { x: 0, depth: 0, gone: false, parent: undefined, path: [] }, (call) => call[1][at] ?? 0);
  if (against === undefined) return { frames, now, gone: 0 };
  const sums = new Map<Call, number>();
  const gone = vanished(root, at, against, sums);
  const start = { x: now, depth: 0, gone: true, parent: undefined, path: [] };
  if (gone > 0) place(frames, root, start, (call) => sums.get(call) ?? 0);
  return { frames, now, gone };
}

/** Time of calls below `call` that `against` has and `at` has not; notes it for each. */
function vanished(call: Call, at: number, against: number, sums: Map<Call, number>): number {
  const [, ns, calls] = call;
  const below = calls.map((child) => vanished(child, at, against, sums)).reduce((a, b) => a + b, 0);
  const sum = (ns[at] ?? 0) > 0 ? below : (ns[against] ?? 0);
  sums.set(call, sum);
  return sum;
}

type Start = Pick<Frame, "x" | "depth" | "gone" | "parent" | "path">;

function place(frames: Frame[], call: Call, start: Start, width: (call: Call) => number): void {
  const frame: Frame = { call, width: width(call), ...start };
  if (frame.width <= 0) return;
  frames.push(frame);
  let x = start.x;
  call[2].forEach((child, index) => {
    const path = [...start.path, index];
    place(frames, child, { x, depth: start.depth + 1, gone: start.gone, parent: frame, path }, width);
    x += width(child);
  });
}

/** How a frame's time differs between two sides. */
export interface Difference {
  before: number;
  now: number;
  /** Whether the difference is larger than what chance does to so many samples, at 95 %. */
  isClear: boolean;
}

/** The difference of a call, where `samples` fell on each side in all. */
export function difference(root: Call, samples: number[], call: Call, at: number, against: number): Difference {
  const value = (column: number) => {
    const [all, ns, n] = [root[1][column] ?? 0, call[1][column] ?? 0, samples[column] ?? 0];
    const each = n > 0 ? all / n : 0;
    // A sample more or less is what can be told at all, even where none fell.
    return { ns, variance: each * Math.max(ns, each) };
  };
  const [before, now] = [value(against), value(at)];
  const half = 1.96 * Math.sqrt(before.variance + now.variance);
  return { before: before.ns, now: now.ns, isClear: Math.abs(now.ns - before.ns) > half };
}

/** The frame that a key leads to from `from`; `undefined` if there is none. */
export function next(frames: Frame[], from: Frame, key: string): Frame | undefined {
  if (key === "ArrowUp") return from.parent;
  if (key === "ArrowDown") {
    const calls = frames.filter((frame) => frame.parent === from);
    return calls.reduce<Frame | undefined>((most, frame) => (most && most.width >= frame.width ? most : frame), undefined);
  }
  const level = frames.filter((frame) => frame.depth === from.depth).sort((a, b) => a.x - b.x);
  const index = level.indexOf(from);
  return key === "ArrowRight" ? level[index + 1] : key === "ArrowLeft" ? level[index - 1] : undefined;
}

/** The time in functions whose name has `text`, each stack counted once. */
export function matched(call: Call, column: number, text: string): number {
  if (call[0].toLowerCase().includes(text)) return call[1][column] ?? 0;
  return call[2].map((child) => matched(child, column, text)).reduce((a, b) => a + b, 0);
}
