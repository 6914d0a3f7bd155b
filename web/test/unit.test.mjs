// The logic of pages, without a browser: views in addresses, CSV, flame graphs, ledgers, on data that the program
// writes for golden records. KNEE is the program, which .ci/test-pages sets.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { after, before, test } from "node:test";
import { pathToFileURL } from "node:url";
import { build } from "esbuild";

const KNEE = process.env.KNEE;
const skip = KNEE ? false : "no program in $KNEE";
const records = resolve(import.meta.dirname, "records");
const golden = resolve(import.meta.dirname, "../../crates/store/tests/golden");
const folder = mkdtempSync(join(tmpdir(), "knee-unit-"));
after(() => rmSync(folder, { recursive: true, force: true }));

let data, csv, view, layout, ledger, quantity, explore;
before(async () => {
  const names = ["data", "csv", "view", "flame-layout", "ledger", "quantity", "explore"];
  const entryPoints = names.map((name) => resolve(import.meta.dirname, `../src/${name}.ts`));
  await build({ entryPoints, bundle: true, format: "esm", outdir: folder, outExtension: { ".js": ".mjs" }, logLevel: "error" });
  const modules = names.map((name) => import(pathToFileURL(join(folder, `${name}.mjs`)).href));
  [data, csv, view, layout, ledger, quantity, explore] = await Promise.all(modules);
});

/** What the program prints. */
function knee(...words) {
  return execFileSync(KNEE, words, {
    encoding: "utf8", env: { ...process.env, HOME: folder, XDG_CACHE_HOME: folder }, stdio: ["ignore", "pipe", "ignore"], maxBuffer: 1 << 26,
  });
}

/** The data of a record's page, and the runs behind its curves. */
async function pageOf(record) {
  const html = knee("report", "--html", "-", record);
  const text = (id) => new RegExp(`id="${id}">(.*?)</script>`, "s").exec(html)?.[1];
  assert.ok(text("knee-data"), "the page has data");
  return { ...(await data.pageData(text("knee-data"))), runs: await data.pageRuns(text("knee-runs") ?? "") };
}

const sum = (values) => values.reduce((a, b) => a + b, 0);
const isNear = (a, b, most) => assert.ok(Math.abs(a - b) <= most, `${a} and ${b}`);

test("a view survives its way through an address, and rubbish does not", () => {
  const views = [
    [],
    ["perCpu", "logCpus"],
    ["hide.2", "hide.0", "zoom.1-4.5"],
    ["logValues", "ideal", "band", "runs", "idle", "hide.3"],
  ];
  for (const words of views) {
    const fragment = view.write(new Map([["s1-0", words]]));
    const back = view.chartWords(view.chartView(view.read(fragment).get("s1-0")));
    assert.deepEqual(back.sort(), [...words].sort());
  }
  for (const rubbish of ["#", "#s1", "#=perCpu", "#__proto__=a", "#s1-0=<script>", "#s1-0=%", "#&&&", "#s1-0=hide.-1,zoom.9-1,at.x"]) {
    const words = view.read(rubbish);
    const shown = view.chartView(words.get("s1-0") ?? []);
    assert.deepEqual(view.chartWords(shown), []);
    assert.equal(view.numbers(words.get("s1-0") ?? [], "at"), undefined);
  }
});

test("cells of CSV are quoted, and none is a formula", { skip }, async () => {
  const chart = {
    id: "s1-0", metric: "m", unit: "", over: "CPUs", ideal: null,
    lines: [{ name: '=cmd|"x",\n', form: "processes", knee: null, points: [[1, 1, 5, null, null], [2, 2, 7, null, null]] }],
  };
  assert.equal(
    csv.chartCsv(chart, [[[[0], [0], [5.5], [0]]]]),
    'line,form,cpus,tasks,run,block,m,left_out\r\n"\'=cmd|""x"",\n",processes,1,1,0,0,5.5,1\r\n"\'=cmd|""x"",\n",processes,2,2,,,7,0\r\n',
  );
});

test("the data of a golden record are its runs, as knee show tells them", { skip }, async () => {
  const record = join(golden, "v1/20261120-115530-7f3a9c");
  const page = await pageOf(record);
  const told = JSON.parse(knee("show", record, "--json")).curves.filter((curve) => curve.pass === "rate");
  const means = told.flatMap((curve) => curve.cells.map((cell) => cell.metrics.operations_per_s?.mean));
  assert.ok(page.charts.length > 0);
  for (const chart of page.charts) {
    const runs = page.runs[chart.id];
    chart.lines.forEach((line, index) => {
      line.points.forEach(([, , mean], at) => {
        const [numbers, blocks, values, leftOut] = runs[index][at];
        assert.ok(values.length > 0 && leftOut.length === 0);
        assert.deepEqual([numbers.length, blocks.length], [values.length, values.length]);
        isNear(sum(values) / values.length, mean, 1e-9 * mean);
        assert.ok(means.some((one) => Math.abs(one - mean) <= 1e-9 * mean), `${mean} is in knee show`);
      });
    });
    const all = sum(runs.flat().map(([, , values]) => values.length));
    assert.equal(csv.chartCsv(chart, runs).split("\r\n").length, all + 2);
  }
});

/** The golden comparison at two CPU counts; in one block, the hypervisor took time of one run. */
function disturbed() {
  const from = join(golden, "v2/20261120-165542-d10222");
  const record = join(folder, "20261120-165542-d10223");
  const plan = JSON.parse(readFileSync(join(from, "record.json"), "utf8"));
  const lines = readFileSync(join(from, "runs.ndjson"), "utf8").trim().split("\n").map((line) => JSON.parse(line));
  const model = lines.find((run) => run.state === "finished");
  const cpus = [1, 1, 2, 2];
  const points = cpus.map((cpus, index) => ({ ...plan.points[index % 2], cpus, tasks: cpus, cell: cpus - 1, cpu_list: [0, 1].slice(0, cpus) }));
  const runs = Array.from({ length: 24 }, (_, run) => {
    const metrics = { ...model.metrics, operations_per_s: 1000 + run, steal_percent: run === 9 ? 9 : 0 };
    return { ...model, run, point: run % 4, block: Math.floor(run / 4), metrics, counters: {} };
  });
  mkdirSync(record);
  writeFileSync(join(record, "record.json"), JSON.stringify({ ...plan, id: "20261120-165542-d10223", points, files: {}, runs_finished: 24 }));
  writeFileSync(join(record, "runs.ndjson"), runs.map((run) => JSON.stringify(run)).join("\n") + "\n");
  return record;
}

test("runs that a comparison leaves out are marked in its data", { skip }, async () => {
  const record = disturbed();
  const page = await pageOf(record);
  const passes = JSON.parse(knee("compare", record, "--json")).cells.flatMap((cell) => cell.passes.flat());
  const discarded = new Map(passes.map((run) => [run.run, run.discarded]));
  const marked = Object.values(page.runs).flat(2).flatMap(([numbers, , , leftOut]) => leftOut.map((at) => numbers[at]));
  assert.deepEqual(marked.sort((a, b) => a - b), [8, 9], "the whole block of the cell");
  assert.deepEqual(marked, [...discarded].filter(([, is]) => is).map(([run]) => run).sort((a, b) => a - b));
  assert.equal(sum(Object.values(page.runs).flat(2).map(([numbers]) => numbers.length)), discarded.size);
});

test("many runs and many CPU counts become what a drawing can show", () => {
  const values = Array.from({ length: 100_000 }, (_, index) => index / 1000);
  const rows = explore.rowsOf(values, (value) => 300 - value);
  assert.deepEqual([rows.length, Math.max(...rows), Math.min(...rows)], [101, 300, 200]);
  for (const isLogarithmic of [true, false]) {
    const counts = Array.from({ length: 5000 }, (_, index) => index + 1);
    const labels = explore.labelled(counts, isLogarithmic);
    assert.ok(labels.length > 5 && labels.length < 15, `${labels}`);
    assert.deepEqual([labels[0], labels.at(-1)], [1, 5000]);
  }
  assert.deepEqual(explore.labelled([1, 2, 4, 8, 16], true), [1, 2, 4, 8, 16]);
  assert.deepEqual(explore.labelled([7], true), [7]);
});

test("zooming by keyboard stays within the counts, and a point is told in words", () => {
  const all = [1, 2, 4, 8, 16];
  assert.deepEqual(explore.magnified(all, [1, 16], 4, 0.5), [2, 10]);
  assert.deepEqual(explore.magnified(all, [3, 5], 4, 0.01), [2, 8], "from neighbour to neighbour");
  assert.deepEqual(explore.magnified(all, [2, 8], 4, Infinity), [1, 16]);
  assert.deepEqual(explore.magnified(all, [1, 16], 1, 0.5), [1, 8.5]);
  const points = [[1, 1, 1000, null, null], [2, 2, 3000, 150, null]];
  const chart = { id: "s1-0", metric: "m", unit: "", over: "CPUs", ideal: null, lines: [{ name: "a", form: "", knee: null, points }] };
  assert.equal(explore.inWords(chart, { ...view.PLAIN, hidden: [] }, 2), "2 CPUs: a 3k ± 150");
  assert.equal(explore.inWords(chart, { ...view.PLAIN, hidden: [], perCpu: true }, 2), "2 CPUs: a 1.5k ± 75");
  assert.equal(explore.inWords(chart, { ...view.PLAIN, hidden: [0] }, 1), "1 CPU: ");
});

test("rows of a profiled record's ledger add up, and changes are those of count and cost", { skip }, async () => {
  const page = await pageOf(join(records, "20261124-121413-a12a52"));
  assert.ok(page.ledgers.length > 0);
  let split = 0;
  const check = (row) => {
    const [, ns, , , change, rows] = row;
    if (rows.length > 0) ns.forEach((own, column) => isNear(own, sum(rows.map((part) => part[1][column])), 1e-6 * own + 1e-6));
    if (change && change[1] !== null) {
      isNear(change[1] + change[2], ledger.delta(row), 1e-6 * Math.max(...ns) + 1e-6);
      split += 1;
    }
    const sizes = ledger.ranked(rows).map((part) => Math.abs(ledger.delta(part)));
    assert.deepEqual(sizes, [...sizes].sort((a, b) => b - a));
    rows.forEach(check);
  };
  page.ledgers.forEach((one) => check(one.root));
  assert.ok(split > 0, "some row has its change split");
  assert.ok(csv.ledgerCsv(page.ledgers[0]).startsWith("row,depth,ext4_ns,xfs_ns,"));
});

test("a flame graph's lanes hold all time, and calls lie within their callers", { skip }, async () => {
  const page = await pageOf(join(records, "20261124-121413-a12a52"));
  const [flame] = page.flames;
  assert.deepEqual(flame.columns, ["ext4", "xfs"]);
  const { frames, now, gone } = layout.layout(flame.root, 1, 0);
  assert.equal(now, flame.root[1][1]);
  assert.ok(gone > 0 && gone < flame.root[1][0], `${gone} ns vanished`);
  for (const frame of frames.filter((one) => one.parent)) {
    assert.ok(frame.x >= frame.parent.x - 1e-6 && frame.x + frame.width <= frame.parent.x + frame.parent.width + 1e-2);
    assert.equal(frame.gone, frame.parent.gone);
  }
  // What only ext4 calls is in the lane, and nothing of it beside.
  const own = frames.filter((frame) => frame.call[0].startsWith("ext4_"));
  assert.ok(own.length > 0 && own.every((frame) => frame.gone));
  assert.equal(layout.layout(flame.root, 1, undefined).gone, 0);
  assert.equal(csv.flameCsv(flame).split("\r\n")[0], "stack,ext4_ns,xfs_ns");
});

test("keys walk through a flame graph, and chance alone is no difference", () => {
  const leaf = (name, a, b) => [name, [a, b], []];
  const root = ["all", [100, 110], [["f", [60, 80], [leaf("g", 10, 70), leaf("h", 50, 0)]], leaf("i", 40, 30)]];
  const { frames, gone } = layout.layout(root, 1, 0);
  assert.equal(gone, 50);
  const at = (name, isGone = false) => frames.find((frame) => frame.call[0] === name && frame.gone === isGone);
  assert.equal(layout.next(frames, at("all"), "ArrowDown"), at("f"));
  assert.equal(layout.next(frames, at("f"), "ArrowRight"), at("i"));
  assert.equal(layout.next(frames, at("i"), "ArrowRight"), at("f", true));
  assert.equal(layout.next(frames, at("g"), "ArrowUp"), at("f"));
  assert.equal(layout.next(frames, at("all"), "ArrowUp"), undefined);
  const samples = [100, 110];
  assert.ok(layout.difference(root, samples, root[2][0][2][0], 1, 0).isClear);
  assert.ok(!layout.difference(root, samples, root[2][1], 1, 0).isClear);
  assert.equal(layout.matched(root, 1, "f"), 80);
});

test("times have three digits and a unit", () => {
  assert.deepEqual([0, 12.345, 999.6, 1234, 5e6, -2500].map(quantity.duration), ["0 ns", "12.3 ns", "1 us", "1.23 us", "5 ms", "-2.5 us"]);
  assert.deepEqual([999, 1000, 1.5e9].map(quantity.short), ["999", "1k", "1.5G"]);
  assert.equal(quantity.signed(-12), "-12 ns");
});
