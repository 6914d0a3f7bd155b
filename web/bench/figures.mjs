// Measures pages and prints what it finds: sizes, first paint, requests, and the time to write large pages. No
// test: times depend on the host. `KNEE=PROGRAM node web/bench/figures.mjs [files] [served] [large]`; a release build,
// on a quiet host.

import { execFileSync, spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { gzipSync } from "node:zlib";
import { start } from "../test/browser.mjs";

const KNEE = process.env.KNEE;
const golden = resolve(import.meta.dirname, "../../crates/store/tests/golden/v2/20261120-165542-d10222");
const explained = resolve(import.meta.dirname, "../test/records/20261124-121413-a12a52");
const folder = mkdtempSync(join(tmpdir(), "knee-figures-"));
const PAINTS = 7;

function knee(...words) {
  const began = performance.now();
  execFileSync(KNEE, ["--records", join(folder, "records"), ...words], {
    env: { ...process.env, HOME: folder, XDG_CACHE_HOME: join(folder, "cache") }, stdio: "ignore", maxBuffer: 1 << 30,
  });
  return (performance.now() - began) / 1e3;
}

/** A record like the golden one, with so many loads, CPU counts and blocks; two variants, so twice as many points. */
function record(id, loads, counts, blocks) {
  const path = join(folder, "records", id.slice(16, 18), id);
  mkdirSync(path, { recursive: true });
  const plan = JSON.parse(readFileSync(join(golden, "record.json"), "utf8"));
  const lines = readFileSync(join(golden, "runs.ndjson"), "utf8").trim().split("\n").map((line) => JSON.parse(line));
  const model = { ...lines.find((run) => run.state === "finished"), counters: {} };
  const pair = plan.points.slice(0, 2);
  const points = [];
  for (let cell = 0; cell < loads * counts; cell += 1) {
    const cpus = 1 + (cell % counts);
    const parameters = { idle_ns: String(Math.floor(cell / counts)) };
    for (const one of pair) {
      const list = Array.from({ length: cpus }, (_, index) => index);
      points.push({ ...one, cpus, tasks: cpus, cell, cpu_list: list, parameters: { ...one.parameters, ...parameters } });
    }
  }
  let seed = 7;
  const random = () => (seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0) / 2 ** 32;
  const runs = [];
  for (let block = 0; block < blocks; block += 1) {
    points.forEach((point, index) => {
      const rate = 1e6 * Math.sqrt(point.cpus) * (1 + 0.05 * (index % 2)) * (0.97 + 0.06 * random());
      const metrics = { ...model.metrics, operations_per_s: rate };
      runs.push(JSON.stringify({ ...model, run: runs.length, point: index, block, metrics }));
    });
  }
  const text = runs.join("\n") + "\n";
  writeFileSync(join(path, "runs.ndjson"), text);
  const seal = { bytes: Buffer.byteLength(text), sha256: createHash("sha256").update(text).digest("hex") };
  const files = { "runs.ndjson": seal };
  const whole = { ...plan, id, points, files, runs_finished: runs.length };
  writeFileSync(join(path, "record.json"), JSON.stringify({ ...whole, experiment: { ...plan.experiment, blocks } }));
  return path;
}

const median = (values) => Math.round(values.sort((a, b) => a - b)[Math.floor(values.length / 2)]);
const range = (values) => `${median(values)} ms (${Math.round(values[0])} to ${Math.round(values.at(-1))})`;

/** Milliseconds to the first paint, and until scripts are done, the median of several; what was asked for and said. */
async function paints(browser, address) {
  const paint = [], ready = [], said = [], asked = [];
  for (let number = 0; number < PAINTS; number += 1) {
    const context = await browser.newContext({ viewport: { width: 1280, height: 900 } });
    const page = await context.newPage();
    page.on("request", (request) => request.url() !== address && asked.push(request.url()));
    page.on("console", (message) => message.type() === "error" && said.push(message.text()));
    page.on("pageerror", (error) => said.push(String(error)));
    await page.goto(address);
    await page.locator("html[data-ready]").waitFor({ timeout: 60_000 });
    ready.push(await page.evaluate(() => performance.now()));
    const first = () => performance.getEntriesByName("first-contentful-paint")[0]?.startTime;
    await page.waitForFunction(first);
    paint.push(await page.evaluate(first));
    await context.close();
  }
  return `first paint ${range(paint)}, scripts done at ${range(ready)}; ${asked.length} requests, ${said.length} errors`;
}

/** A page in which an element of data holds these, as the program writes them. */
function withData(html, id, data) {
  const letters = gzipSync(JSON.stringify(data), { level: 6 }).toString("base64");
  const element = new RegExp(`<script type="[^"]*" id="${id}">.*?</script>`, "s");
  return html.replace(element, `<script type="application/gzip+json" id="${id}">"${letters}"</script>`);
}

/** Milliseconds from a press of Explore until the single runs are drawn, the median of several. */
async function explored(browser, address) {
  const times = [];
  for (let number = 0; number < PAINTS; number += 1) {
    const context = await browser.newContext({ viewport: { width: 1280, height: 900 } });
    const page = await context.newPage();
    await page.goto(address);
    await page.locator("html[data-ready]").waitFor();
    times.push(await page.evaluate(async () => {
      const began = performance.now();
      [...document.querySelectorAll("button")].find((one) => one.textContent === "Explore").click();
      while (!document.querySelector(".explore[data-runs]")) await new Promise((next) => setTimeout(next, 5));
      await new Promise((next) => requestAnimationFrame(() => setTimeout(next)));
      return performance.now() - began;
    }));
    await context.close();
  }
  return `single runs drawn ${range(times)} after Explore was pressed`;
}

function kilobytes(path) {
  return `${(statSync(path).size / 1e3).toFixed(0)} KB`;
}

async function files(browser) {
  const page = (name) => join(folder, `${name}.html`);
  const export_ = (name, ...words) => (knee("report", "--html", page(name), ...words), page(name));
  const show = async (what, path) => console.log(`${what}: ${kilobytes(path)}; ${await paints(browser, pathToFileURL(path).href)}`);
  await show("golden comparison, 21 runs", export_("golden", golden));
  await show("profiled comparison with flame graphs", export_("explained", explained));
  console.log(`without scripts: ${kilobytes(export_("plain", "--no-scripts", golden))}`);
  const thousand = export_("thousand", record("20261124-000000-100000", 1, 25, 20));
  await show("1000 runs of 50 points", thousand);
  export_("again", join(folder, "records/10/20261124-000000-100000"));
  console.log(`two exports are ${readFileSync(page("again")).equals(readFileSync(thousand)) ? "equal" : "NOT EQUAL"} byte for byte`);
  const points = Array.from({ length: 25 }, (_, index) => [index + 1, index + 1, 1e6 * Math.sqrt(index + 1), 1e3, 0]);
  const lines = ["a", "b"].map((name) => ({ name, form: "processes", knee: null, points }));
  const chart = { id: "s1-0", metric: "operations_per_s", unit: "1/s", over: "CPUs", ideal: 1e6, lines };
  const each = Array.from({ length: 20_000 }, (_, run) => run);
  const runs = points.map(([cpus]) => [each, each, each.map((run) => 1e6 * Math.sqrt(cpus) + 100 * (run % 997)), []]);
  const million = page("million");
  const html = withData(readFileSync(thousand, "utf8"), "knee-data", { charts: [chart], ledgers: [], flames: [] });
  writeFileSync(million, withData(html, "knee-runs", { "s1-0": [runs, runs] }));
  await show("10^6 values behind 50 points", million);
  console.log(`10^6 values behind 50 points: ${await explored(browser, pathToFileURL(million).href)}`);
}

async function served(browser) {
  for (let number = 0; number < 1000; number += 1) {
    const id = `20261120-${String(100000 + number)}-${number.toString(16).padStart(6, "0")}`;
    const path = join(folder, "many", id.slice(16, 18), id);
    cpSync(golden, path, { recursive: true });
    const text = readFileSync(join(path, "record.json"), "utf8").replaceAll("20261120-165542-d10222", id);
    writeFileSync(join(path, "record.json"), text);
  }
  const server = spawn(KNEE, ["--records", join(folder, "many"), "serve", "--port", "0"], {
    env: { ...process.env, HOME: folder, XDG_CACHE_HOME: join(folder, "cache") }, stdio: ["ignore", "pipe", "ignore"],
  });
  const home = await new Promise((found) => server.stdout.once("data", (data) => found(String(data).trim())));
  let began = performance.now();
  await (await fetch(home)).text();
  console.log(`knee serve, 1000 records: first answer in ${((performance.now() - began) / 1e3).toFixed(2)} s (index and verdicts are made)`);
  began = performance.now();
  await (await fetch(home)).text();
  console.log(`knee serve, 1000 records: later answers in ${(performance.now() - began).toFixed(0)} ms`);
  console.log(`knee serve, 1000 records: ${await paints(browser, home)}`);
  server.kill();
}

function large() {
  for (const [loads, counts] of [[5000, 1], [100, 50], [1, 5000]]) {
    const path = record(`20261124-000000-${String(loads).padStart(6, "0")}`, loads, counts, 4);
    const told = [
      ["knee show --json", knee("show", path, "--json")],
      ["knee compare --json", knee("compare", path, "--json")],
      ["knee compare", knee("compare", path)],
      ["knee report --html", knee("report", path, "--html", join(folder, "large.html"))],
    ];
    const times = told.map(([what, s]) => `${what} ${s.toFixed(1)} s`).join(", ");
    console.log(`10 000 points, ${loads} loads x ${counts} CPU counts x 2 variants, 40 000 runs: ${times}; ${kilobytes(join(folder, "large.html"))}`);
  }
}

const parts = process.argv.slice(2);
const isAsked = (part) => parts.length === 0 || parts.includes(part);
const browser = await start();
try {
  console.log(`Chromium ${browser.version()}; medians of ${PAINTS}`);
  if (isAsked("files")) await files(browser);
  if (isAsked("served")) await served(browser);
  if (isAsked("large")) large();
} finally {
  await browser.close();
  rmSync(folder, { recursive: true, force: true });
}
