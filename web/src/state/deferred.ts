// Work that is done after some seconds, and can be taken back until then: deletions, of which no undo brings all back.

const waiting = new Map<string, { timer: ReturnType<typeof setTimeout>; run: (last: boolean) => unknown }>();

/** Waiting work is done before the page goes; last: the request has to outlive the page. */
addEventListener("pagehide", () => {
  for (const key of [...waiting.keys()]) done(key, true);
});

function done(key: string, last: boolean): void {
  const d = waiting.get(key);
  clearTimeout(d?.timer);
  if (waiting.delete(key)) void d!.run(last);
}

/** Runs work after some seconds. The answer takes it back; false: it is too late. */
export function defer(key: string, seconds: number, run: (last: boolean) => unknown): () => boolean {
  waiting.set(key, { run, timer: setTimeout(() => done(key, false), seconds * 1000) });
  return () => {
    clearTimeout(waiting.get(key)?.timer);
    return waiting.delete(key);
  };
}
