// A page whose style sheet was lost on the way is unusable: rows lie above messages. It is loaded again.

/** The pause before the first further attempt, in milliseconds; it doubles up to a minute. */
const pause = 250;

/** Loads the style sheet again if it could not be loaded: its tokens are missing then (link.sheet is there all the same). */
export function keepStyled(): void {
  const look = () => {
    if (getComputedStyle(document.documentElement).getPropertyValue("--paper")) return;
    for (const link of document.querySelectorAll<HTMLLinkElement>('link[rel="stylesheet"]')) again(link, pause);
  };
  if (document.readyState === "complete") look();
  else addEventListener("load", look, { once: true });
}

function again(lost: HTMLLinkElement, after: number): void {
  setTimeout(() => {
    const link = lost.cloneNode() as HTMLLinkElement;
    link.addEventListener("error", () => again(link, Math.min(2 * after, 60_000)), { once: true });
    lost.replaceWith(link);
  }, after);
}
