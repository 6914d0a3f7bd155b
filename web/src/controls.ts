// Buttons, boxes and sliders that drawings share.

/** A button; its text says what it does. */
export function button(text: string, pressed: () => void | Promise<void>): HTMLButtonElement {
  const button = document.createElement("button");
  button.type = "button";
  button.textContent = text;
  button.addEventListener("click", () => void pressed());
  return button;
}

/** A box with its name. */
export function toggle(name: string, on: boolean, changed: (on: boolean) => void): HTMLElement {
  const label = document.createElement("label");
  const box = document.createElement("input");
  box.type = "checkbox";
  box.checked = on;
  box.addEventListener("change", () => changed(box.checked));
  label.append(box, ` ${name}`);
  return label;
}

/** A slider over names. */
export function slider(title: string, names: string[], at: number, changed: (at: number) => void): HTMLElement {
  const label = document.createElement("label");
  const range = document.createElement("input");
  const output = document.createElement("output");
  Object.assign(range, { type: "range", min: "0", max: String(names.length - 1), step: "1", value: String(at) });
  const say = () => {
    const name = names[Number(range.value)] ?? "";
    output.textContent = name;
    range.setAttribute("aria-valuetext", name);
  };
  range.addEventListener("input", () => (say(), changed(Number(range.value))));
  say();
  label.append(`${title} `, range, " ", output);
  return label;
}

/** A button that saves a drawing's data. */
export function download(name: string, csv: () => string | Promise<string>): HTMLButtonElement {
  return button("data (CSV)", async () => {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([await csv()], { type: "text/csv" }));
    link.download = `${name.replace(/[^A-Za-z0-9_.-]/g, "_").slice(0, 80)}.csv`;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
  });
}

/** A line of controls. */
export function controls(...parts: (HTMLElement | undefined | false)[]): HTMLElement {
  const line = document.createElement("div");
  line.className = "controls";
  line.append(...parts.filter((part) => part !== undefined && part !== false));
  return line;
}
