// Starts Debian's Chromium for the tests, without a network.

import { existsSync } from "node:fs";
import { chromium } from "playwright-core";

const PLACES = [process.env.CHROMIUM, "/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"];

export const program = PLACES.find((path) => path && existsSync(path));

export async function start() {
  return chromium.launch({
    executablePath: program,
    headless: true,
    args: [
      "--no-sandbox",
      "--disable-gpu",
      "--disable-quic",
      "--no-first-run",
      "--disable-background-networking",
      "--disable-component-update",
      "--disable-sync",
    ],
  });
}

/** A page of the file, with all that it asked for and said. */
export async function open(browser, address, options = {}) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 }, ...options });
  // The server shows a page that grows again in a twentieth of the time only: where showing it takes two seconds, 40 s
  // pass until there is more to see.
  context.setDefaultTimeout(150_000);
  const page = await context.newPage();
  const requests = [];
  const said = [];
  page.on("request", (request) => request.url() !== address && requests.push(request.url()));
  page.on("console", (message) => ["error", "warning"].includes(message.type()) && said.push(message.text()));
  page.on("pageerror", (error) => said.push(String(error)));
  page.on("dialog", (dialog) => (said.push(`dialog: ${dialog.message()}`), dialog.dismiss()));
  await page.goto(address);
  return { context, page, requests, said };
}
