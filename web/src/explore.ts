// A chart to explore: zoom, values under the pointer, and other ways to look. The drawing of the page is
// hidden meanwhile and comes back.

import uPlot from "uplot";
import { controls, toggle } from "./controls";
import type { Chart, ChartRuns, Point } from "./data";
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

/** Points of a line that get marks, at most. */
const MARKS_MAX = 300;
/** Colours of the page, --c0 and so on. */
const COLOURS = 12;
/** Labels on the axis of CPUs, at most. */
const LABELS_MAX = 12;

/**
 * Shows the chart in `figure`, and calls `changed` whenever the reader looks at it in another way. `runs` reads the
 * single runs, which are drawn when they are there.
 */
export function explore(
  figure: HTMLElement,
  chart: Chart,
  view: View,
  runs: () => Promise<ChartRuns>,
  changed: () => void,
): () => void {
  const stage = document.createElement("div");
  stage.className = "explore";
  const line = controls();
  const field = document.createElement("div");
  stage.append(line, field);
  figure.querySelector("figcaption")?.after(stage);
  figure.classList.add("exploring");
  let plot: uPlot | undefined;
  let read: ChartRuns | undefined;
  const draw = () => {
    plot?.destroy();
    const drawn = (plot: uPlot) => {
      drawKnees(plot, chart, view);
      if (view.runs && read) drawRuns(plot, chart, read, view);
    };
    const hooks = { draw: [drawn] };
    plot = new uPlot({ ...options(chart, view, field), hooks }, values(chart, view), field);
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
  hint.textContent = `Drag to zoom, double-click to see all. ${KEYS}`;
  const told = document.createElement("p");
  told.className = "told";
  told.setAttribute("role", "status");
  stage.append(hint, told);
  let at = 0;
  const walk = (event: KeyboardEvent) => {
    const all = counts(chart);
    const step = { ArrowRight: 1, ArrowLeft: -1, Home: -all.length, End: all.length }[event.key];
    const zoom = { "+": 0.5, "=": 0.5, "-": 2, Escape: Infinity }[event.key];
    if (!plot || (step === undefined && zoom === undefined)) return;
    event.preventDefault();
    if (step !== undefined) at = Math.max(0, Math.min(at + step, all.length - 1));
    const count = all[at] ?? 0;
    if (zoom !== undefined) {
      const { min, max } = plot.scales.x ?? {};
      const now: [number, number] = [min ?? all[0] ?? 0, max ?? all.at(-1) ?? 0];
      const [low, high] = magnified(all, now, count, zoom);
      plot.setScale("x", { min: low, max: high });
    }
    const top = plot.over.clientHeight / 2;
    plot.setCursor({ left: plot.valToPos(count, "x"), top });
    told.textContent = inWords(chart, view, count);
  };
  field.tabIndex = 0;
  field.setAttribute("role", "application");
  field.setAttribute("aria-label", `Chart of ${chart.metric}. ${KEYS}`);
  field.addEventListener("keydown", walk);
  draw();
  void runs().then((all) => {
    read = all;
    if (stage.isConnected) plot?.redraw(false);
    stage.dataset.runs = "yes";
  });
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
const KEYS = "Arrow keys move from point to point, + and - magnify, Escape shows all.";

/**
 * The range that is shown after a zoom around a count by a factor: at least from its neighbour to its neighbour,
 * at most all counts, which must ascend.
 */
export function magnified(all: number[], [min, max]: [number, number], count: number, factor: number): [number, number] {
  const [first, last] = [all[0] ?? 0, all.at(-1) ?? 0];
  const at = all.indexOf(count);
  const [before, after] = [all[at - 1] ?? first, all[at + 1] ?? last];
  const low = count - (count - min) * factor;
  const high = count + (max - count) * factor;
  return [Math.max(first, Math.min(low, before)), Math.min(last, Math.max(high, after))];
}

/** The values of all shown lines at a count, for those who do not see the pointer's. */
export function inWords(chart: Chart, view: View, count: number): string {
  const told = chart.lines.flatMap((line, index) => {
    const point = view.hidden.includes(index) ? undefined : line.points.find((point) => point[0] === count);
    if (!point) return [];
    const scaled = (value: number) => short(view.perCpu ? value / count : value);
    const deviation = point[3] === null ? "" : ` ± ${scaled(point[3])}`;
    return [`${line.name} ${scaled(point[2])}${deviation}`];
  });
  const place = isOverCpus(chart) ? `${count} ${count === 1 ? "CPU" : "CPUs"}` : `${chart.over} ${count}`;
  return `${place}: ${told.join("; ")}`;
}

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
  const columns: Column[] = [];
  for (const line of chart.lines) {
    const points = new Map<number, Point>(line.points.map((point) => [point[0], point]));
    for (const side of [0, 1, -1]) {
      columns.push(
        cpus.map((count) => {
          const point = points.get(count);
          return point ? scaled(point[2] + side * (point[3] ?? 0), count) : null;
        }),
      );
    }
    columns.push(cpus.map((count) => points.get(count)?.[4] ?? null));
  }
  const ideal = chart.ideal;
  columns.push(cpus.map((count) => (ideal === null ? null : scaled(ideal * count, count))));
  return [cpus, ...columns] as uPlot.AlignedData;
}

/** Of ascending numbers those that have room for a label on an axis: the first, the last, some between. */
export function labelled(counts: number[], isLogarithmic: boolean): number[] {
  const place = (count: number) => (isLogarithmic ? Math.log(count) : count);
  const [first, last] = [place(counts[0] ?? 1), place(counts.at(-1) ?? 1)];
  const room = (last - first) / LABELS_MAX;
  let before = -Infinity;
  return counts.filter((count, index) => {
    const isLast = index === counts.length - 1;
    if (!isLast && (place(count) < before + room || (index > 0 && place(count) > last - room))) return false;
    before = place(count);
    return true;
  });
}

/** The colours of the page, by the name of their property. */
function colours(): (name: string) => string {
  const style = getComputedStyle(document.documentElement);
  return (name) => style.getPropertyValue(name).trim();
}

function options(chart: Chart, view: View, field: HTMLElement): uPlot.Options {
  const colour = colours();
  const axis = { stroke: colour("--quiet"), grid: { stroke: colour("--line"), width: 1 }, ticks: { show: false } };
  const isLogarithmic = view.logCpus && isOverCpus(chart);
  const labels = labelled(counts(chart), isLogarithmic);
  const isDotted = chart.lines.every((line) => line.points.length <= MARKS_MAX);
  const series: uPlot.Series[] = [{ label: chart.over }];
  const bands: uPlot.Band[] = [];
  chart.lines.forEach((line, index) => {
    const shown = !view.hidden.includes(index);
    const stroke = colour(`--c${index % COLOURS}`);
    const dash = line.form === "threads" && chart.lines.some((other) => other.form !== line.form) ? [7, 4] : [];
    const own = series.length;
    series.push({ label: line.name, stroke, width: 2, dash, show: shown, points: { show: isDotted, size: 7, fill: stroke }, value: number });
    const edge = { stroke: "transparent", show: shown && view.band, points: { show: false }, label: "", class: "unlisted" };
    series.push(edge, edge);
    bands.push({ series: [own + 1, own + 2], fill: `${stroke}2a` });
    series.push({
      label: `${line.name}, idle %`, scale: "%", stroke, width: 1, dash: [2, 3], class: view.idle ? "" : "unlisted",
      show: shown && view.idle && line.points.some((point) => point[4] !== null), value: number,
    });
  });
  series.push({ label: "linear ideal", stroke: colour("--quiet"), width: 1, dash: [2, 4], show: view.ideal && chart.ideal !== null, points: { show: false }, value: number });
  const tops = chart.lines.flatMap((line) => line.points.map((point) => (point[2] + (point[3] ?? 0)) / (view.perCpu ? point[0] : 1)));
  const top = tops.reduce((a, b) => Math.max(a, b), 0);
  return {
    width: Math.max(field.clientWidth, 280),
    height: HEIGHT,
    scales: {
      x: { time: false, distr: isLogarithmic ? 3 : 1, log: 2 },
      y: view.logValues ? { distr: 3 } : { range: (_plot, low, high) => [Math.min(low, 0) * 1.06, Math.min(high, top) * 1.06] },
      "%": { range: [0, 100] },
    },
    axes: [
      { ...axis, label: chart.over, labelSize: 18, size: 28, splits: () => labels, values: (_plot, splits) => splits.map((count) => String(count)) },
      { ...axis, size: 60, values: (_plot, splits) => splits.map((value) => short(value)) },
      ...(view.idle ? [{ ...axis, scale: "%", side: 1 as const, size: 44, grid: { show: false } }] : []),
    ],
    series,
    bands,
  };
}

/** The rows of pixels that have a value of a point: of thousands of runs, a drawing tells no more apart. */
export function rowsOf(values: number[], row: (value: number) => number): number[] {
  return [...new Set(values.map((value) => Math.round(row(value))))];
}

/** Where each line has its knee. */
function drawKnees(plot: uPlot, chart: Chart, view: View): void {
  const { ctx, bbox } = plot;
  const colour = colours();
  ctx.save();
  ctx.setLineDash([4 * devicePixelRatio, 3 * devicePixelRatio]);
  ctx.lineWidth = devicePixelRatio;
  ctx.font = `${11 * devicePixelRatio}px sans-serif`;
  chart.lines.forEach(({ knee }, index) => {
    const { min, max } = plot.scales.x ?? {};
    if (knee === null || view.hidden.includes(index) || knee <= (min ?? 0) || knee > (max ?? 0)) return;
    const x = plot.valToPos(knee, "x", true);
    ctx.strokeStyle = colour(`--c${index % COLOURS}`);
    ctx.fillStyle = colour("--text");
    ctx.beginPath();
    ctx.moveTo(x, bbox.top);
    ctx.lineTo(x, bbox.top + bbox.height);
    ctx.stroke();
    const isRight = x > bbox.left + 0.8 * bbox.width;
    ctx.textAlign = isRight ? "right" : "left";
    const y = bbox.top + bbox.height - (8 + 14 * index) * devicePixelRatio;
    ctx.fillText(`knee ${Math.ceil(knee)}`, x + (isRight ? -4 : 4) * devicePixelRatio, y);
  });
  ctx.restore();
}

/** Single runs as faint rings around their means. */
function drawRuns(plot: uPlot, chart: Chart, runs: ChartRuns, view: View): void {
  const { ctx } = plot;
  const colour = colours();
  ctx.save();
  ctx.globalAlpha = 0.7;
  chart.lines.forEach((line, index) => {
    if (view.hidden.includes(index)) return;
    ctx.strokeStyle = colour(`--c${index % COLOURS}`);
    line.points.forEach(([cpus], at) => {
      const x = plot.valToPos(cpus, "x", true);
      const row = (value: number) => plot.valToPos(view.perCpu ? value / cpus : value, "y", true);
      for (const y of rowsOf(runs[index]?.[at]?.[2] ?? [], row)) {
        ctx.beginPath();
        ctx.arc(x, y, 2.5 * devicePixelRatio, 0, 2 * Math.PI);
        ctx.stroke();
      }
    });
  });
  ctx.restore();
}

const number = (_plot: uPlot, value: number | null) => (value === null || value === undefined ? "-" : short(value));
