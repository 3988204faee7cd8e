// Which letters of a conversation have a frame: those near what is shown. A frame is a document of its own, with all that it costs. The
// others keep their height, and get their frame when one scrolls to them, prints, or looks for words with the browser.

import { signal } from "@preact/signals";

/** Letters so far above and below what is shown have a frame, in pixels: more than a press of Page Down scrolls. */
const margin = 1500;
/** The height of a letter that had no frame yet. */
const usual = "120px";
/** So long printing waits for frames, in milliseconds. */
const patience = 15_000;

/** Every letter has a frame: the browser looks for words in them, or prints them. */
const all = signal(false);

/** The letters of the page that have no frame that is filled, with what stands in print instead. */
const without = new Map<HTMLElement, () => string>();
/** Letters far away that have a frame yet: with the focus in it, or selected words. */
const held = new Set<() => void>();

/** Reports if somebody is at work in a frame. */
function isUsed(frame: HTMLIFrameElement | null | undefined): boolean {
  if (!frame) return false;
  const selection = frame.contentDocument?.getSelection();
  return document.activeElement === frame || (!!selection && !selection.isCollapsed);
}

/**
 * Watches a letter's box, and calls set when it is to have a frame or none. words returns its text. filled is called with true when
 * its frame shows it. The first result ends the watch.
 */
export function watchNear(box: HTMLElement, set: (near: boolean) => void, words: () => string): { end: () => void; filled: (is: boolean) => void } {
  box.style.height ||= usual;
  let isNear = false;
  const look = () => {
    const used = !isNear && !all.peek() && isUsed(box.querySelector("iframe"));
    if (used) held.add(look);
    else held.delete(look);
    set(isNear || all.peek() || used);
  };
  const watch = new IntersectionObserver((seen) => {
    isNear = seen.at(-1)!.isIntersecting;
    look();
    for (const other of [...held]) if (other !== look) other();
  }, { root: box.closest(".reader"), rootMargin: `${margin}px 0px` });
  watch.observe(box);
  const stop = all.subscribe(look);
  let over = false;
  const filled = (is: boolean) => {
    if (is || over) without.delete(box);
    else without.set(box, words);
  };
  filled(false);
  return {
    filled,
    end: () => {
      over = true;
      watch.disconnect();
      stop();
      held.delete(look);
      without.delete(box);
    },
  };
}

/** Prints the page, with all letters in their frames. */
export async function printAll(): Promise<void> {
  all.value = true;
  const until = Date.now() + patience;
  while (without.size > 0 && Date.now() < until) await new Promise((done) => setTimeout(done, 50));
  print();
  all.value = false;
}

// The browser's own search and print know what is in the page alone.
addEventListener("keydown", (e) => {
  const key = e.key.toLowerCase(), command = (e.ctrlKey || e.metaKey) && !e.altKey;
  if (e.key === "F3" || (command && (key === "f" || key === "g"))) all.value = true;
  else if (command && key === "p" && without.size > 0) {
    e.preventDefault();
    void printAll();
  } else if (!command && e.key !== "Shift" && e.key !== "Control" && e.key !== "Meta") all.value = false;
}, true);
addEventListener("pointerdown", () => (all.value = false), true);

// Printing from the browser's menu waits for nothing: the words stand in for a frame.
addEventListener("beforeprint", () => {
  for (const [box, words] of without) {
    const text = document.createElement("div");
    text.className = "plain in-print";
    text.textContent = words();
    box.append(text);
  }
});
addEventListener("afterprint", () => document.querySelectorAll(".letter > .in-print").forEach((e) => e.remove()));
