// A chart to explore: zoom, values under the pointer, and other ways to look. The drawing of the page is
// hidden meanwhile and comes back.

import uPlot from "uplot";
import { controls, toggle } from "./controls";
import type { Chart, Line } from "./data";
import { short } from "./quantity";
import type { Flag, View } from "./view";

const TOGGLES: [Flag, string][] = [
  ["ideal", "linear ideal"],
  ["band", "deviation"],
  ["runs", "single runs"],
  ["perCpu", "per CPU"],
  ["idle", "idle share"],
  ["logCpus", "log CPUs"],
  ["logValues", "log values"],
];

/** Shows the chart in `figure`, and calls `changed` whenever the reader looks at it in another way. */
export function explore(figure: HTMLElement, chart: Chart, view: View, changed: () => void): () => void {
  const stage = document.createElement("div");
  stage.className = "explore";
  const line = controls();
  const field = document.createElement("div");
  stage.append(line, field);
  figure.querySelector("figcaption")?.after(stage);
  figure.classList.add("exploring");
  let plot: uPlot | undefined;
  const draw = () => {
    plot?.destroy();
    plot = new uPlot(options(chart, view, field), values(chart, view), field);
    if (view.zoom) plot.setScale("x", { min: view.zoom[0], max: view.zoom[1] });
    // From now on, a change of the scale is the reader's.
    plot.hooks.setScale = [(plot, scale) => scale === "x" && zoomed(plot)];
  };
  const zoomed = ({ scales, data }: uPlot) => {
    const { min, max } = scales.x ?? {};
    const [first, last] = [data[0][0] ?? 0, data[0].at(-1) ?? 0];
    if (typeof min !== "number" || typeof max !== "number") return;
    if (min <= first && max >= last) delete view.zoom;
    else view.zoom = [min, max];
    changed();
  };
  const redraw = () => {
    draw();
    changed();
  };
  for (const [flag, name] of TOGGLES) {
    if (flag === "ideal" && chart.ideal === null) continue;
    if ((flag === "logCpus" || flag === "perCpu") && !isOverCpus(chart)) continue;
    if (flag === "idle" && !chart.lines.some((line) => line.points.some((point) => point[4] !== null))) continue;
    line.append(toggle(name, view[flag], (on) => ((view[flag] = on), redraw())));
  }
  chart.lines.forEach((curve, index) => {
    const shown = !view.hidden.includes(index);
    line.append(
      toggle(curve.name, shown, (on) => {
        view.hidden = view.hidden.filter((other) => other !== index);
        if (!on) view.hidden.push(index);
        redraw();
      }),
    );
  });
  const hint = document.createElement("p");
  hint.className = "hint";
  hint.textContent = "Drag to zoom, double-click to see all.";
  stage.append(hint);
  draw();
  const watcher = new ResizeObserver(() => plot?.setSize({ width: field.clientWidth, height: HEIGHT }));
  watcher.observe(field);
  return () => {
    watcher.disconnect();
    plot?.destroy();
    stage.remove();
    figure.classList.remove("exploring");
  };
}

const HEIGHT = 320;

function isOverCpus(chart: Chart): boolean {
  return chart.over === "CPUs";
}

/** The numbers of CPUs of all lines, ascending. */
export function counts(chart: Chart): number[] {
  const all = chart.lines.flatMap((line) => line.points.map((point) => point[0]));
  return [...new Set(all)].sort((a, b) => a - b);
}

type Column = (number | null)[];

/** Columns for the plot: CPUs; for each line its mean, upper and lower edge; the ideal; idle shares. */
export function values(chart: Chart, view: View): uPlot.AlignedData {
  const cpus = counts(chart);
  const scaled = (value: number, count: number) => (view.perCpu ? value / count : value);
  const at = (line: Line, count: number) => line.points.find((point) => point[0] === count);
  const columns: Column[] = [];
  for (const line of chart.lines) {
    for (const side of [0, 1, -1]) {
      columns.push(
        cpus.map((count) => {
          const point = at(line, count);
          return point ? scaled(point[2] + side * (point[3] ?? 0), count) : null;
        }),
      );
    }
    columns.push(cpus.map((count) => at(line, count)?.[4] ?? null));
  }
  const ideal = chart.ideal;
  columns.push(cpus.map((count) => (ideal === null ? null : scaled(ideal * count, count))));
  return [cpus, ...columns] as uPlot.AlignedData;
}

function options(chart: Chart, view: View, field: HTMLElement): uPlot.Options {
  const style = getComputedStyle(document.documentElement);
  const colour = (name: string) => style.getPropertyValue(name).trim();
  const axis = { stroke: colour("--quiet"), grid: { stroke: colour("--line"), width: 1 }, ticks: { show: false } };
  const cpus = counts(chart);
  const series: uPlot.Series[] = [{ label: chart.over }];
  const bands: uPlot.Band[] = [];
  chart.lines.forEach((line, index) => {
    const shown = !view.hidden.includes(index);
    const stroke = colour(`--c${index % 7}`);
    const dash = line.form === "threads" && chart.lines.some((other) => other.form !== line.form) ? [7, 4] : [];
    const own = series.length;
    series.push({ label: line.name, stroke, width: 2, dash, show: shown, points: { show: true, size: 7, fill: stroke }, value: number });
    const edge = { stroke: "transparent", show: shown && view.band, points: { show: false }, label: "", class: "unlisted" };
    series.push(edge, edge);
    bands.push({ series: [own + 1, own + 2], fill: `${stroke}2a` });
    series.push({
      label: `${line.name}, idle %`, scale: "%", stroke, width: 1, dash: [2, 3], class: view.idle ? "" : "unlisted",
      show: shown && view.idle && line.points.some((point) => point[4] !== null), value: number,
    });
  });
  series.push({ label: "linear ideal", stroke: colour("--quiet"), width: 1, dash: [2, 4], show: view.ideal && chart.ideal !== null, points: { show: false }, value: number });
  const top = Math.max(...chart.lines.flatMap((line) => line.points.map((point) => (point[2] + (point[3] ?? 0)) / (view.perCpu ? point[0] : 1))));
  return {
    width: Math.max(field.clientWidth, 280),
    height: HEIGHT,
    scales: {
      x: { time: false, distr: view.logCpus && isOverCpus(chart) ? 3 : 1, log: 2 },
      y: view.logValues ? { distr: 3 } : { range: (_plot, _low, high) => [0, Math.min(high, top) * 1.06] },
      "%": { range: [0, 100] },
    },
    axes: [
      { ...axis, label: chart.over, labelSize: 18, size: 28, splits: () => cpus, values: (_plot, splits) => splits.map((count) => String(count)) },
      { ...axis, size: 60, values: (_plot, splits) => splits.map((value) => short(value)) },
      ...(view.idle ? [{ ...axis, scale: "%", side: 1 as const, size: 44, grid: { show: false } }] : []),
    ],
    series,
    bands,
    hooks: { draw: [(plot) => view.runs && drawRuns(plot, chart, view, colour)] },
  };
}

/** Single runs as faint rings around their means. */
function drawRuns(plot: uPlot, chart: Chart, view: View, colour: (name: string) => string): void {
  const { ctx } = plot;
  ctx.save();
  ctx.globalAlpha = 0.7;
  chart.lines.forEach((line, index) => {
    if (view.hidden.includes(index)) return;
    ctx.strokeStyle = colour(`--c${index % 7}`);
    for (const [cpus, , , , , runs] of line.points) {
      for (const [, , value] of runs) {
        const x = plot.valToPos(cpus, "x", true);
        const y = plot.valToPos(view.perCpu ? value / cpus : value, "y", true);
        ctx.beginPath();
        ctx.arc(x, y, 2.5 * devicePixelRatio, 0, 2 * Math.PI);
        ctx.stroke();
      }
    }
  });
  ctx.restore();
}

const number = (_plot: uPlot, value: number | null) => (value === null || value === undefined ? "-" : short(value));
