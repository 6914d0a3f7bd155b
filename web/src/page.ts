// What scripts add to a page that is whole without them: charts to explore, ledgers by count and cost, flame
// graphs, and news while a run goes on.

import "uplot/dist/uPlot.min.css";
import "./page.css";
import { button, controls, download } from "./controls";
import { chartCsv } from "./csv";
import { pageData, type Chart } from "./data";
import { explore } from "./explore";
import { flame } from "./flame";
import { ledger } from "./ledger";
import { PLAIN, chartView, chartWords, read, write, type View } from "./view";

const words = read(location.hash);

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
    close = explore(figure, chart, view, () => remember(chart.id, chartWords(view)));
    say();
  };
  say();
  figure.append(controls(shown, download(chart.metric, () => chartCsv(chart))));
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

/** Shows the list as it is now; what the reader types in the search stays. */
async function renew(): Promise<void> {
  const answer = await fetch(location.href);
  if (!answer.ok) return;
  const now = new DOMParser().parseFromString(await answer.text(), "text/html").querySelector("main");
  if (now) document.querySelector("main")?.replaceWith(now);
}

async function start(): Promise<void> {
  openTarget();
  sections();
  const data = await pageData(document.getElementById("knee-data")?.textContent ?? "");
  if (data) {
    each("chart", data.charts, offer);
    each("ledger", data.ledgers, ledger);
    each("flame", data.flames, flame);
  }
  document.documentElement.dataset.ready = "yes";
  // Only a page from `knee serve` has somebody to ask.
  if (location.protocol === "http:" && document.documentElement.dataset.live === "yes") {
    new EventSource("/events").addEventListener("changed", () => void renew());
  }
}

void start();
