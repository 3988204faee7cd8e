// The columns of events of one day that overlap.

export interface Timed {
  from: number;
  to: number;
}

/** The column of an event among those that it overlaps with: at of columns, and how many it may take. */
export interface Slot {
  at: number;
  of: number;
  wide: number;
}

/** Events shorter than this, in milliseconds, are drawn as long as this: they overlap with what is drawn there. */
const shortest = 25 * 60_000;

/** Places events that are sorted by their start: overlapping ones share the width, and one takes what is free to its right. */
export function layOut<T extends Timed>(list: T[]): Map<T, Slot> {
  const out = new Map<T, Slot>();
  const end = (e: Timed) => Math.max(e.to, e.from + shortest);
  let cluster: T[] = [], until = -Infinity;
  const close = () => {
    const columns: T[][] = [];
    for (const e of cluster) {
      const free = columns.find((c) => end(c[c.length - 1]!) <= e.from);
      if (free) free.push(e);
      else columns.push([e]);
    }
    columns.forEach((column, at) => {
      for (const e of column) {
        let wide = 1;
        while (at + wide < columns.length && !columns[at + wide]!.some((o) => o.from < end(e) && e.from < end(o))) wide++;
        out.set(e, { at, of: columns.length, wide });
      }
    });
    cluster = [];
  };
  for (const e of list) {
    if (e.from >= until) close();
    cluster.push(e);
    until = Math.max(cluster.length === 1 ? -Infinity : until, end(e));
  }
  close();
  return out;
}

/** Events over whole days, in rows: none overlaps with another of its row. Those of the same days keep their order. */
export function inRows<T extends { first: string; last: string }>(list: T[]): Map<T, number> {
  const out = new Map<T, number>(), ends: string[] = [];
  for (const e of [...list].sort((a, b) => (a.first < b.first ? -1 : a.first > b.first ? 1 : a.last < b.last ? 1 : a.last > b.last ? -1 : 0))) {
    let row = ends.findIndex((last) => last < e.first);
    if (row < 0) row = ends.length;
    ends[row] = e.last;
    out.set(e, row);
  }
  return out;
}
