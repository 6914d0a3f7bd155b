// What scripts add to a page that is whole without them: charts to explore, and news while a run goes on.

import "uplot/dist/uPlot.min.css";
import "./page.css";
import { charts, type Chart } from "./data";
import { explore } from "./explore";
import { PLAIN, read, write, type View } from "./view";

const views = read(location.hash);

function remember(): void {
  history.replaceState(null, "", write(views) || location.pathname + location.search);
}

/** The button that shows a chart to explore, and hides it again. */
function offer(figure: HTMLElement, chart: Chart): void {
  const button = document.createElement("button");
  button.className = "explore-button";
  button.textContent = "Explore";
  button.setAttribute("aria-expanded", "false");
  let close: (() => void) | undefined;
  const open = (view: View) => {
    views.set(chart.id, view);
    close = explore(figure, chart, view, remember);
    button.textContent = "Back to the drawing";
    button.setAttribute("aria-expanded", "true");
  };
  button.addEventListener("click", () => {
    if (close) {
      close();
      close = undefined;
      views.delete(chart.id);
      button.textContent = "Explore";
      button.setAttribute("aria-expanded", "false");
    } else {
      open({ ...PLAIN, hidden: [] });
    }
    remember();
  });
  figure.append(button);
  const view = views.get(chart.id);
  if (view) open(view);
}

/** A link to a part of the page opens it. */
function openTarget(): void {
  const target = document.getElementById(location.hash.slice(1));
  if (target instanceof HTMLDetailsElement) target.open = true;
}

async function start(): Promise<void> {
  openTarget();
  for (const chart of await charts()) {
    const figure = document.querySelector<HTMLElement>(`[data-chart="${chart.id}"]`);
    if (figure) offer(figure, chart);
  }
  // Only a page from `knee serve` has somebody to ask.
  if (location.protocol === "http:" && document.documentElement.dataset.live === "yes") {
    new EventSource("/events").addEventListener("changed", () => location.reload());
  }
}

void start();
