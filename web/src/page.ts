// What scripts add to a page that is whole without them: charts to explore, ledgers by count and cost, and flame
// graphs.

import "uplot/dist/uPlot.min.css";
import "./page.css";
import { button, controls, download } from "./controls";
import { chartCsv } from "./csv";
import { pageData, pageRuns, type Chart, type ChartRuns } from "./data";
import { explore } from "./explore";
import { flame } from "./flame";
import { ledger } from "./ledger";
import { PLAIN, chartView, chartWords, read, write, type View } from "./view";

const words = read(location.hash);

let allRuns: Promise<Record<string, ChartRuns>> | undefined;

/** The runs behind a chart. They are read when the first of them is asked for: there may be a million. */
async function runsOf(chart: Chart): Promise<ChartRuns> {
  allRuns ??= pageRuns(document.getElementById("knee-runs")?.textContent ?? "");
  return (await allRuns)[chart.id] ?? [];
}

/** Puts the words of a drawing into the address; `undefined` takes them out. */
function remember(id: string, own: string[] | undefined): void {
  if (own && (own.length > 0 || document.querySelector(`[data-chart="${id}"]`))) words.set(id, own);
  else words.delete(id);
  history.replaceState(null, "", write(words) || location.pathname + location.search);
}

/** The button that shows a chart to explore, and hides it again. */
function offer(figure: HTMLElement, chart: Chart): void {
  let close: (() => void) | undefined;
  const shown = button("Explore", () => {
    if (close) {
      close();
      close = undefined;
      remember(chart.id, undefined);
    } else {
      const view = { ...PLAIN, hidden: [] };
      open(view);
      remember(chart.id, chartWords(view));
    }
    say();
  });
  const say = () => {
    shown.textContent = close ? "Back to the drawing" : "Explore";
    shown.setAttribute("aria-expanded", String(close !== undefined));
  };
  const open = (view: View) => {
    close = explore(figure, chart, view, () => runsOf(chart), () => remember(chart.id, chartWords(view)));
    say();
  };
  say();
  figure.append(controls(shown, download(chart.metric, async () => chartCsv(chart, await runsOf(chart)))));
  const own = words.get(chart.id);
  if (own) open(chartView(own));
}

/** Sections as the address has them, and the address as the reader opens and shuts them. */
function sections(): void {
  const ids = (name: string) => new Set(words.get(name) ?? []);
  const [open, shut] = [ids("open"), ids("shut")];
  for (const section of document.querySelectorAll<HTMLDetailsElement>("details.part[id]")) {
    const { id, open: isOpen } = section;
    if (open.has(id)) section.open = true;
    if (shut.has(id)) section.open = false;
    section.addEventListener("toggle", () => {
      const [own, list]: [Set<string>, string] = isOpen ? [shut, "shut"] : [open, "open"];
      if (section.open === isOpen) own.delete(id);
      else own.add(id);
      if (own.size > 0 || words.has(list)) remember(list, [...own]);
    });
  }
}

/** A link to a part of the page opens it. */
function openTarget(): void {
  const target = document.getElementById(location.hash.slice(1));
  if (target instanceof HTMLDetailsElement) target.open = true;
}

/** Calls `draw` with each drawing's figure, its data, and its words of the address. */
function each<Data extends { id: string }>(
  kind: string,
  all: Data[],
  draw: (figure: HTMLElement, data: Data, words: string[], changed: (words: string[]) => void) => void,
): void {
  for (const data of all) {
    const figure = document.querySelector<HTMLElement>(`[data-${kind}="${data.id}"]`);
    if (figure) draw(figure, data, words.get(data.id) ?? [], (own) => remember(data.id, own));
  }
}

/** Shows what a run that goes on adds; a reader who looks closer is asked first. */
function follow(): void {
  const notice = document.querySelector<HTMLElement>("main[data-growing] > .growing");
  if (!notice) return;
  const show = button("Show it", () => location.reload());
  new EventSource("/events").addEventListener("changed", () => {
    if (words.size === 0) return location.reload();
    if (!show.isConnected) notice.append(" There is more: ", show);
  });
}

async function start(): Promise<void> {
  follow();
  openTarget();
  sections();
  const data = await pageData(document.getElementById("knee-data")?.textContent ?? "");
  if (data) {
    each("chart", data.charts, offer);
    each("ledger", data.ledgers, ledger);
    each("flame", data.flames, flame);
  }
  document.documentElement.dataset.ready = "yes";
}

void start();
