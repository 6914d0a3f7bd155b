// What a page holds for its drawings, as crates/pages/src/html/data.rs writes it.

/** What the runs at one number of CPUs say together. */
export type Point = [cpus: number, tasks: number, mean: number, deviation: number | null, idle: number | null];

/** The runs of a point as columns: their numbers, blocks and values, and the positions of those left out. */
export type Runs = [numbers: number[], blocks: number[], values: number[], leftOut: number[]];

/** The runs of each point of each line. */
export type ChartRuns = Runs[][];

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

/** The data of a page's drawings; `undefined` if it has none. */
export async function pageData(text: string): Promise<PageData | undefined> {
  return (await parsed(text)) as PageData | undefined;
}

/** The runs behind the curves of a page, by the id of the chart. */
export async function pageRuns(text: string): Promise<Record<string, ChartRuns>> {
  return ((await parsed(text)) ?? {}) as Record<string, ChartRuns>;
}

/** What an element holds, which may be compressed; `undefined` if it holds nothing. */
async function parsed(text: string): Promise<unknown> {
  if (!text) return undefined;
  // Letters of base64 stand in quotes and need no parser.
  const value: unknown = text.startsWith('"') ? text.slice(1, -1) : JSON.parse(text);
  if (typeof value !== "string") return value;
  const letters = atob(value);
  const bytes = new Uint8Array(letters.length);
  for (let index = 0; index < letters.length; index += 1) bytes[index] = letters.charCodeAt(index);
  const plain = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(plain).json();
}
