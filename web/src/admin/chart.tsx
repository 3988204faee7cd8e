// Charts: a line over the last minutes or hours, drawn in SVG.

import { useRef } from "preact/hooks";
import { useSignal } from "@preact/signals";
import { ta } from "./text";

export interface Point {
  at: number;
  value: number;
}

const width = 320;
const height = 84;

/** The next round number at or above n: 1, 2 or 5 times a power of ten. */
function round(n: number): number {
  if (n <= 0) return 1;
  const power = 10 ** Math.floor(Math.log10(n));
  for (const m of [1, 2, 5, 10]) if (m * power >= n) return m * power;
  return 10 * power;
}

/** A chart of points; text says a value for people. It says its last value to who does not see it. */
export function Chart({ title, points, text, tone = "accent", note, hours = 0 }: { title: string; points: Point[]; text: (v: number) => string; tone?: "accent" | "flag"; note?: string; hours?: number }) {
  const at = useSignal<number | null>(null);
  const box = useRef<SVGSVGElement>(null);
  const last = points.at(-1);
  const end = last?.at ?? 0;
  // A page that was opened just now shows its first minute, then the last five.
  const minutes = points.length > 1 && end - points[0]!.at > 60_000 ? 5 : 1;
  const start = end - (hours > 0 ? hours * 3_600_000 : minutes * 60_000);
  const top = round(Math.max(...points.map((p) => p.value), 0) * 1.05);
  const x = (p: Point) => ((p.at - start) / (end - start || 1)) * width;
  const y = (p: Point) => height - 2 - (p.value / top) * (height - 8);
  const inside = points.filter((p) => p.at >= start);
  const line = inside.map((p, i) => `${i === 0 ? "M" : "L"}${x(p).toFixed(1)} ${y(p).toFixed(1)}`).join("");
  const near = at.value === null ? undefined : inside.reduce<Point | undefined>((best, p) => (!best || Math.abs(x(p) - at.value!) < Math.abs(x(best) - at.value!) ? p : best), undefined);
  const shown = near ?? last;
  return (
    <figure class={`chart ${tone}`}>
      <figcaption><span>{title}</span><strong>{shown ? text(shown.value) : "–"}</strong></figcaption>
      <svg ref={box} viewBox={`0 0 ${width} ${height}`} preserveAspectRatio="none" role="img" aria-label={last ? ta("chartNow", title, text(last.value)) : ta("chartEmpty")}
        onPointerMove={(e) => {
          const b = box.current!.getBoundingClientRect();
          at.value = ((e.clientX - b.left) / b.width) * width;
        }}
        onPointerLeave={() => (at.value = null)}>
        {[0.25, 0.5, 0.75].map((f) => <line class="grid" x1={0} x2={width} y1={height - 2 - f * (height - 8)} y2={height - 2 - f * (height - 8)} />)}
        {inside.length > 1 && <path class="under" d={`${line}L${x(inside.at(-1)!).toFixed(1)} ${height}L${x(inside[0]!).toFixed(1)} ${height}Z`} />}
        {inside.length > 1 && <path class="over" d={line} />}
        {near && <line class="cross" x1={x(near)} x2={x(near)} y1={0} y2={height} />}
      </svg>
      <small><span>{hours > 0 ? ta("hours", hours) : note ?? minutes === 1 ? ta("minute") : ta("minutes", minutes)}</span><span>{text(top)}</span></small>
    </figure>
  );
}

/** A line without words, for a row. */
export function Spark({ points, max }: { points: number[]; max?: number }) {
  const top = max ?? Math.max(...points, 1);
  const d = points.map((v, i) => `${i === 0 ? "M" : "L"}${((i / Math.max(1, points.length - 1)) * 100).toFixed(1)} ${(23 - (Math.min(v, top) / top) * 22).toFixed(1)}`).join("");
  return <svg class="spark" viewBox="0 0 100 24" preserveAspectRatio="none" aria-hidden="true"><path d={d} /></svg>;
}
