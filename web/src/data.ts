// What a page holds for its drawings, as crates/pages/src/html/data.rs writes it.

/** Number of the run, block, value, 1 if its block was left out. */
export type Run = [run: number, block: number, value: number, discarded: number];

/** The runs at one number of CPUs. */
export type Point = [
  cpus: number,
  tasks: number,
  mean: number,
  deviation: number | null,
  idle: number | null,
  runs: Run[],
];

export interface Line {
  name: string;
  form: string;
  knee: number | null;
  points: Point[];
}

export interface Chart {
  id: string;
  metric: string;
  unit: string;
  /** What the lines run over: "CPUs", or another quantity with its unit. */
  over: string;
  ideal: number | null;
  lines: Line[];
}

/** What made a row's change: half its 95 % interval, the parts by count and by cost; null is unknown. */
export type Change = [half: number | null, count: number | null, cost: number | null];

/** A row of a ledger: time per operation in ns for each column, and the rows that add up to it. */
export type Row = [name: string, ns: number[], values: string[], details: string[], change: Change | null, rows: Row[]];

export interface Ledger {
  id: string;
  heading: string;
  columns: string[];
  details: string[];
  root: Row;
}

/** A function with the callers that led to it: time per operation in ns for each column, and what it calls. */
export type Call = [name: string, ns: number[], calls: Call[]];

export interface Flame {
  id: string;
  columns: string[];
  samples: number[];
  root: Call;
}

export interface PageData {
  charts: Chart[];
  ledgers: Ledger[];
  flames: Flame[];
}

/** The data of a page; `undefined` if it has no drawings. */
export async function pageData(text: string): Promise<PageData | undefined> {
  if (!text) return undefined;
  const value: unknown = JSON.parse(text);
  if (typeof value !== "string") return value as PageData;
  const bytes = Uint8Array.from(atob(value), (letter) => letter.charCodeAt(0));
  const plain = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return JSON.parse(await new Response(plain).text()) as PageData;
}
