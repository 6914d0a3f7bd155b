// How the reader looks at the charts. All of it is in the address's fragment, so that a link shows the same.

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

/** `#s1-0=perCpu,hide.2&s2-0=` as views by chart. What cannot be read is left out. */
export function read(fragment: string): Map<string, View> {
  const views = new Map<string, View>();
  for (const part of fragment.replace(/^#/, "").split("&")) {
    const [id, words] = part.split("=", 2);
    if (!id || words === undefined || !/^s\d+-\d+$/.test(id)) continue;
    const view: View = { ...PLAIN, hidden: [] };
    for (const word of words.split(",")) {
      const flag = FLAGS.find((flag) => flag === word);
      const hide = /^hide\.(\d{1,4})$/.exec(word);
      if (flag) view[flag] = !PLAIN[flag];
      if (hide) view.hidden.push(Number(hide[1]));
    }
    views.set(id, view);
  }
  return views;
}

/** The fragment of these views: only what differs from a plain view is in it. */
export function write(views: Map<string, View>): string {
  const parts = [...views].map(([id, view]) => {
    const words: string[] = FLAGS.filter((flag) => view[flag] !== PLAIN[flag]);
    return `${id}=${words.concat(view.hidden.map((line) => `hide.${line}`)).join(",")}`;
  });
  return parts.length > 0 ? `#${parts.join("&")}` : "";
}
