// The server's statistics of the last minutes, read once for all pages.

import { signal } from "@preact/signals";
import type { Point } from "./chart";
import { run, type Stat } from "./verbs";

/** The seconds between two readings, and the number of readings kept: a little more than five minutes. */
const every = 2;
const keep = 160;

export const stats = signal<Map<string, Stat>>(new Map());
const history = new Map<string, Point[]>();
export const paused = signal(false);
let watchers = 0;
let timer: ReturnType<typeof setTimeout> | undefined;

async function turn(): Promise<void> {
  clearTimeout(timer);
  if (!paused.value && !document.hidden) {
    try {
      const list = await run<Stat[]>("show stat");
      const at = Date.now();
      for (const s of list) {
        if (s.kind === "text") continue;
        const points = history.get(s.name) ?? [];
        points.push({ at, value: s.value });
        if (points.length > keep) points.shift();
        history.set(s.name, points);
      }
      stats.value = new Map(list.map((s) => [s.name, s]));
    } catch {
      // told by whoever acts; a reading that is missing is a gap
    }
  }
  if (watchers > 0) timer = setTimeout(() => void turn(), every * 1000);
}

/** Reads as long as somebody looks; what it returns ends that. */
export function watch(): () => void {
  if (++watchers === 1) void turn();
  return () => {
    if (--watchers === 0) clearTimeout(timer);
  };
}

/** The values of a gauge. */
export const gauge = (name: string): Point[] => history.get(name) ?? [];

/** The growth of a counter, or of the sum of several, in a second; after a restart it begins at zero. */
export function rate(...names: string[]): Point[] {
  const first = history.get(names[0]!) ?? [];
  const sum = (i: number) => names.reduce((n, name) => n + (history.get(name)?.[i]?.value ?? 0), 0);
  return first.slice(1).map((p, i) => ({ at: p.at, value: Math.max(0, sum(i + 1) - sum(i)) / Math.max(0.001, (p.at - first[i]!.at) / 1000) }));
}

/** The sum of several gauges. */
export function total(...names: string[]): Point[] {
  const first = history.get(names[0]!) ?? [];
  return first.map((p, i) => ({ at: p.at, value: names.reduce((n, name) => n + (history.get(name)?.[i]?.value ?? 0), 0) }));
}
