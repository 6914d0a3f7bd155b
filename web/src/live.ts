// The list of `knee serve` while runs go on: it follows what the server tells. A bundle of its own, since a list
// has no drawings.

/** Shows the list as it is now; what the reader types in the search stays. */
async function renew(): Promise<void> {
  const answer = await fetch(location.href);
  if (!answer.ok) return;
  const now = new DOMParser().parseFromString(await answer.text(), "text/html").querySelector("main");
  if (now) document.querySelector("main")?.replaceWith(now);
}

new EventSource("/events").addEventListener("changed", () => void renew());
document.documentElement.dataset.ready = "yes";
