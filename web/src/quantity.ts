// Numbers as people read them.

/** Three digits and a prefix: 1.23k. */
export function short(value: number): string {
  return scaled(value, 1000, ["", "k", "M", "G", "T"]);
}

/** A time in ns with three digits: 1.23 us. */
export function duration(ns: number): string {
  return scaled(ns, 1000, [" ns", " us", " ms", " s"]);
}

/** A change of a time, with its sign. */
export function signed(ns: number): string {
  return `${ns < 0 ? "-" : "+"}${duration(Math.abs(ns))}`;
}

export function percent(share: number): string {
  return `${(100 * share).toFixed(1)} %`;
}

function scaled(value: number, step: number, units: string[]): string {
  let [unit, rest] = [0, value];
  while (Math.abs(rest) >= step * 0.9995 && unit + 1 < units.length) {
    rest /= step;
    unit += 1;
  }
  return `${Number(rest.toPrecision(3))}${units[unit]}`;
}
