// The nearest existing address to one that nobody has.

import type { Address } from "../jmap/types";
import { known, listed } from "./people";

/** The number of letters to add, take out, change or swap with the next between two texts; more than most counts as most + 1. */
export function distance(a: string, b: string, most: number): number {
  if (Math.abs(a.length - b.length) > most) return most + 1;
  let before: number[] = [], above = Array.from({ length: b.length + 1 }, (_, i) => i);
  for (let i = 1; i <= a.length; i++) {
    const row = [i];
    for (let k = 1; k <= b.length; k++) {
      const same = a[i - 1] === b[k - 1] ? 0 : 1;
      let d = Math.min(above[k]! + 1, row[k - 1]! + 1, above[k - 1]! + same);
      if (i > 1 && k > 1 && a[i - 1] === b[k - 2] && a[i - 2] === b[k - 1]) d = Math.min(d, before[k - 2]! + 1);
      row.push(d);
    }
    if (Math.min(...row) > most) return most + 1;
    [before, above] = [above, row];
  }
  return above[b.length]!;
}

/** The address most like one that nobody has, among people whom one knows and those of the directory; undefined: none is near. */
export async function nearest(email: string, signal: AbortSignal): Promise<Address | undefined> {
  const wanted = email.toLowerCase();
  const local = wanted.split("@")[0] ?? "";
  const most = local.length < 5 ? 1 : 2;
  // The directory finds words by their beginnings: the mistake is in the first letters, or behind them.
  const beginnings = [...new Set([local.slice(0, 3), local.slice(0, 1), local.slice(1, 2)])].filter((s) => /[\p{L}\p{N}]/u.test(s));
  const people = [...known(), ...(await Promise.all(beginnings.map((b) => listed(b, signal)))).flat()];
  let best: { a: Address; d: number } | undefined;
  for (const a of people) {
    const d = distance(wanted, a.email.toLowerCase(), most);
    if (d > 0 && d <= most && (!best || d < best.d)) best = { a, d };
  }
  return best?.a;
}
