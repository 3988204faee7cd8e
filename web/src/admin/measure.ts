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

/** The hours that the charts show, from the values that the task Collect has stored; 0 shows the last minutes. */
export const hours = signal(0);
const stored = signal<Map<string, Point[]>>(new Map());

/** Shows another time span. */
export function show(span: number): void {
  stored.value = new Map();
  hours.value = span;
}

/** The points of a statistic in the time span that is shown; stored ones are fetched when they are first asked for. */
function pointsOf(name: string): Point[] {
  if (hours.value === 0) return history.get(name) ?? [];
  const have = stored.value.get(name);
  if (have) return have;
  const span = hours.value;
  stored.value.set(name, []); // asked for
  void run<Stat[]>("show stat", { pattern: name, history: true, since: `${span}h` }).then((list) => {
    if (hours.value !== span) return;
    stored.value = new Map(stored.value).set(name, list.filter((s) => s.name === name).map((s) => ({ at: Date.parse(s.time!), value: s.value })));
  }, () => undefined); // nothing is stored of it
  return [];
}
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
export const gauge = (name: string): Point[] => pointsOf(name);

/** The growth of a counter, or of the sum of several, in a second; after a restart it begins at zero. */
export function rate(...names: string[]): Point[] {
  const [first, ...others] = names.map(pointsOf) as [Point[], ...Point[][]];
  const sum = (i: number) => others.reduce((n, points) => n + (points[i]?.value ?? 0), first[i]?.value ?? 0);
  return first.slice(1).map((p, i) => ({ at: p.at, value: Math.max(0, sum(i + 1) - sum(i)) / Math.max(0.001, (p.at - first[i]!.at) / 1000) }));
}

/** The sum of several gauges. */
export function total(...names: string[]): Point[] {
  const [first, ...others] = names.map(pointsOf) as [Point[], ...Point[][]];
  return first.map((p, i) => ({ at: p.at, value: others.reduce((n, points) => n + (points[i]?.value ?? 0), p.value) }));
}
