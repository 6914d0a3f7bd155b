// The curves of a page, as the page holds them: crates/pages/src/html/data.rs writes this form.

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
  ideal: number | null;
  lines: Line[];
}

/** The charts of this page; none if it has no curves. */
export async function charts(): Promise<Chart[]> {
  const element = document.getElementById("knee-data");
  if (!element?.textContent) return [];
  const value: unknown = JSON.parse(element.textContent);
  if (typeof value !== "string") return value as Chart[];
  const bytes = Uint8Array.from(atob(value), (letter) => letter.charCodeAt(0));
  const plain = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return JSON.parse(await new Response(plain).text()) as Chart[];
}

/** A chart's runs, a line each, as RFC 4180 wants them. */
export function csv(chart: Chart): string {
  const rows: (string | number)[][] = [
    ["line", "form", "cpus", "tasks", "run", "block", chart.metric, "left_out"],
  ];
  for (const line of chart.lines) {
    for (const [cpus, tasks, mean, , , runs] of line.points) {
      const all: (Run | null)[] = runs.length > 0 ? runs : [null];
      for (const run of all) {
        rows.push(
          run
            ? [line.name, line.form, cpus, tasks, run[0], run[1], run[2], run[3]]
            : [line.name, line.form, cpus, tasks, "", "", mean, 0],
        );
      }
    }
  }
  return rows.map((row) => row.map(cell).join(",")).join("\r\n") + "\r\n";
}

function cell(value: string | number): string {
  if (typeof value === "number") return String(value);
  // A spreadsheet would take such a text for a formula.
  const text = /^[=+\-@\t\r]/.test(value) ? `'${value}` : value;
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}
