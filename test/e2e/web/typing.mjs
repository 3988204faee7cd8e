// Measures the cost of a key in the writer. Run alone it compares servers, by turns in one browser:
//   ROUNDS=5 node typing.mjs old=http://127.0.0.1:18090 new=http://127.0.0.1:18091
// With LONG=2000 the message quotes so many paragraphs. "bare" is a page with an empty editable element and nothing else, whose cost is
// the browser's.

import { browser, open, signIn } from "./world.mjs";

const text = "What a person types who has something to say to somebody, and says it. ".repeat(3).slice(0, 200);
const figures = { script: "ScriptDuration", layout: "LayoutDuration", style: "RecalcStyleDuration", "main thread": "TaskDuration" };

/** Returns the value below which a share of a list lies. */
export const at = (list, share) => list.toSorted((a, b) => a - b)[Math.min(list.length - 1, Math.floor(list.length * share))];

/** Opens a page with an empty editable element and nothing else. */
export async function bare() {
  const page = await open();
  await page.setContent('<div class="writer"><div class="ProseMirror" contenteditable style="width: 400px; height: 300px"></div></div>');
  return page;
}

/** Opens the writer, with so many quoted paragraphs below an empty one. */
export async function writing(page, paragraphs = 0) {
  await page.keyboard.press("c");
  await page.locator(".writer .ProseMirror").waitFor();
  if (paragraphs === 0) return;
  await page.click(".writer .ProseMirror");
  await page.evaluate((n) => {
    const data = new DataTransfer();
    data.setData("text/html", `<p>x</p><blockquote>${"<p>A line of words of a text that is long, and is quoted.</p>".repeat(n)}</blockquote>`);
    document.querySelector(".writer .ProseMirror").dispatchEvent(new ClipboardEvent("paste", { clipboardData: data, bubbles: true, cancelable: true }));
  }, paragraphs);
  await page.waitForFunction((n) => document.querySelectorAll(".writer .ProseMirror blockquote p").length >= n, paragraphs);
}

/**
 * Types 200 keys at the beginning of what is written. Returns for each key the milliseconds from its event to the layout of what it wrote
 * (layout) and until the browser runs the next task, which it puts behind the frame that shows the key (frame); and the milliseconds of
 * processor time that a key takes on the page's main thread (cost).
 */
export async function typed(page) {
  await page.click(".writer .ProseMirror");
  await page.keyboard.press("Control+Home");
  await page.waitForTimeout(2500); // the draft of before is saved
  await page.evaluate(() => {
    globalThis.typing?.end.abort();
    const { layout, frame, end } = (globalThis.typing = { layout: [], frame: [], end: new AbortController() });
    let pressed = 0;
    addEventListener("keydown", (e) => {
      pressed = e.timeStamp;
      setTimeout(() => frame.push(performance.now() - e.timeStamp));
    }, { capture: true, signal: end.signal });
    // The editor reads what was typed in a microtask that the browser has queued already.
    addEventListener("input", () => queueMicrotask(() => queueMicrotask(() => {
      void document.body.offsetHeight;
      layout.push(performance.now() - pressed);
    })), { signal: end.signal });
  });
  const cdp = await page.context().newCDPSession(page);
  await cdp.send("Performance.enable", { timeDomain: "threadTicks" });
  const read = async () => Object.fromEntries((await cdp.send("Performance.getMetrics")).metrics.map((m) => [m.name, m.value]));
  const before = await read();
  await page.keyboard.type(text, { delay: 25 });
  const after = await read();
  await cdp.detach();
  const cost = Object.fromEntries(Object.entries(figures).map(([name, metric]) => [name, (after[metric] - before[metric]) * 1000 / text.length]));
  return { ...(await page.evaluate(() => ({ layout: globalThis.typing.layout, frame: globalThis.typing.frame }))), cost };
}

/** Types into the writers of servers by turns, and prints the cost of a key at each. */
async function compare(servers, rounds, paragraphs) {
  const pages = [];
  for (const [name, url] of [...servers, ["bare"]]) {
    const page = url ? await open({ at: url }) : await bare();
    if (url) {
      await signIn(page, "alice", "demo", url);
      await page.locator(".row .subject").first().click();
      await page.waitForTimeout(3000); // what is kept of the inbox is fetched ahead
      await writing(page, paragraphs);
    }
    pages.push({ name, page, runs: [] });
  }
  for (let round = 0; round <= rounds; round++) {
    for (const p of round % 2 ? pages : pages.toReversed()) {
      await p.page.bringToFront();
      const run = await typed(p.page);
      if (round > 0) p.runs.push(run); // the first one compiles
    }
  }
  for (const { name, runs } of pages) {
    console.log(`${name}, ${rounds} rounds of ${text.length} keys`);
    for (const to of ["layout", "frame"]) console.log(`  to the ${to}`.padEnd(16), `p50 ${at(runs.flatMap((r) => r[to]), 0.5).toFixed(1)} ms, p95 ${at(runs.flatMap((r) => r[to]), 0.95).toFixed(1)} ms`);
    for (const of of Object.keys(figures)) {
      const list = runs.map((r) => r.cost[of]);
      console.log(`  ${of}`.padEnd(16), `${at(list, 0.5).toFixed(2)} ms of processor time (${Math.min(...list).toFixed(2)}–${Math.max(...list).toFixed(2)})`);
    }
  }
}

if (process.argv[1] === import.meta.filename) {
  try {
    await compare(process.argv.slice(2).map((a) => a.split(/=(.*)/su)), Number(process.env.ROUNDS ?? 5), Number(process.env.LONG ?? 0));
  } finally {
    await browser.close();
  }
}
