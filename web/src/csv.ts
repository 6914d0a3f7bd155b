// Data of a drawing as RFC 4180 wants it.

import type { Call, Chart, ChartRuns, Flame, Ledger, Row } from "./data";

type Cell = string | number | null;

/** A chart's runs, a line each; a point without runs has a line with its value. */
export function chartCsv(chart: Chart, runs: ChartRuns): string {
  const rows: Cell[][] = [["line", "form", chart.over === "CPUs" ? "cpus" : chart.over, "tasks", "run", "block", chart.metric, "left_out"]];
  chart.lines.forEach((line, index) => {
    line.points.forEach(([cpus, tasks, mean], at) => {
      const place = [line.name, line.form, cpus, tasks];
      const [numbers, blocks, values, leftOut] = runs[index]?.[at] ?? [[], [], [], []];
      if (values.length === 0) rows.push([...place, null, null, mean, 0]);
      const isOut = new Set(leftOut);
      values.forEach((value, run) => {
        rows.push([...place, numbers[run] ?? null, blocks[run] ?? null, value, isOut.has(run) ? 1 : 0]);
      });
    });
  });
  return csv(rows);
}

/** The rows of a ledger, each with its depth; times in ns. */
export function ledgerCsv(ledger: Ledger): string {
  const columns = ledger.columns.map((name) => `${name}_ns`);
  const rows: Cell[][] = [["row", "depth", ...columns, "half_interval_ns", "by_count_ns", "by_cost_ns"]];
  const add = ([name, ns, , , change, below]: Row, depth: number) => {
    rows.push([name, depth, ...ns, ...(change ?? [null, null, null])]);
    below.forEach((row) => add(row, depth + 1));
  };
  add(ledger.root, 0);
  return csv(rows);
}

/** The stacks of a flame graph, outermost function first; times in ns. */
export function flameCsv(flame: Flame): string {
  const rows: Cell[][] = [["stack", ...flame.columns.map((name) => `${name}_ns`)]];
  const add = ([name, ns, calls]: Call, callers: string[]) => {
    const stack = [...callers, name.replaceAll(";", ":")];
    rows.push([stack.join(";"), ...ns]);
    calls.forEach((call) => add(call, stack));
  };
  add(flame.root, []);
  return csv(rows);
}

function csv(rows: Cell[][]): string {
  return rows.map((row) => row.map(cell).join(",")).join("\r\n") + "\r\n";
}

function cell(value: Cell): string {
  if (value === null) return "";
  if (typeof value === "number") return String(value);
  // A spreadsheet would take such a text for a formula.
  const text = /^[=+\-@\t\r]/.test(value) ? `'${value}` : value;
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}
