// How the reader looks at a page. All of it is in the address's fragment, so that a link shows the same.

/** What differs from the plain page: words for each drawing, and for the sections that are open or shut. */
export type Words = Map<string, string[]>;

const ID = /^(s\d{1,5}-\d{1,5}|open|shut)$/;
const WORD = /^[A-Za-z0-9%._~!*'()-]{1,300}$/;

/** `#s1-0=perCpu,hide.2&open=s4` as words by drawing. What cannot be read is left out. */
export function read(fragment: string): Words {
  const words: Words = new Map();
  for (const part of fragment.replace(/^#/, "").split("&")) {
    const [id, list] = part.split("=", 2);
    if (!id || list === undefined || !ID.test(id)) continue;
    words.set(id, list.split(",").filter((word) => WORD.test(word)));
  }
  return words;
}

/** The fragment of these words; empty where there are none. */
export function write(words: Words): string {
  const parts = [...words].map(([id, list]) => `${id}=${list.join(",")}`);
  return parts.length > 0 ? `#${parts.join("&")}` : "";
}

/** The numbers of `NAME.1.2`; `undefined` if no word begins so, or has something else. */
export function numbers(words: string[], name: string): number[] | undefined {
  const word = words.find((word) => word.startsWith(`${name}.`));
  const values = word?.slice(name.length + 1).split(".").map(Number);
  return values?.every((value) => Number.isInteger(value) && value >= 0) ? values : undefined;
}

/** How a chart of curves is shown. */
export interface View {
  /** Numbers of the lines that are hidden. */
  hidden: number[];
  /** Values are divided by the number of CPUs. */
  perCpu: boolean;
  logCpus: boolean;
  logValues: boolean;
  ideal: boolean;
  band: boolean;
  runs: boolean;
  idle: boolean;
  /** The CPUs that are in sight; absent where all are. */
  zoom?: [from: number, to: number];
}

export const PLAIN: View = {
  hidden: [],
  perCpu: false,
  logCpus: true,
  logValues: false,
  ideal: true,
  band: true,
  runs: true,
  idle: false,
};

const FLAGS = ["perCpu", "logCpus", "logValues", "ideal", "band", "runs", "idle"] as const;
export type Flag = (typeof FLAGS)[number];

/** Words as a view of a chart. */
export function chartView(words: string[]): View {
  const view: View = { ...PLAIN, hidden: [] };
  for (const word of words) {
    const flag = FLAGS.find((flag) => flag === word);
    const hide = /^hide\.(\d{1,4})$/.exec(word);
    const zoom = /^zoom\.(\d+(?:\.\d+)?)-(\d+(?:\.\d+)?)$/.exec(word);
    if (flag) view[flag] = !PLAIN[flag];
    if (hide) view.hidden.push(Number(hide[1]));
    if (zoom && Number(zoom[1]) < Number(zoom[2])) view.zoom = [Number(zoom[1]), Number(zoom[2])];
  }
  return view;
}

/** The words of a view: only what differs from a plain one. */
export function chartWords(view: View): string[] {
  const words: string[] = FLAGS.filter((flag) => view[flag] !== PLAIN[flag]);
  const zoom = view.zoom?.map((cpus) => Number(cpus.toFixed(2))).join("-");
  return [...words, ...view.hidden.map((line) => `hide.${line}`), ...(zoom ? [`zoom.${zoom}`] : [])];
}
