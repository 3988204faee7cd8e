// Dragging in the grid of hours: a new event, or one that is moved or made longer.

import { signal } from "@preact/signals";
import type { Shown } from "../../state/calendars";
import { mayWrite, viewZone } from "../../state/calendars";
import { addDays, daysBetween, type Day } from "../../state/days";
import { instant, localTime } from "../../state/zone";
import { localAt, moveEvent, newEvent } from "./open";
import { days } from "./view";

interface Drag {
  kind: "create" | "move" | "resize";
  event: Shown | null;
  day: Day;
  /** Minutes after midnight of the day. */
  from: number;
  to: number;
}

/** The dragged event; null before the pointer has moved. */
export const drag = signal<Drag | null>(null);

/** A click that ends a drag opens nothing. */
export const justDragged = { is: false };

const snap = 15;
/** So far the pointer moves before it drags, in pixels; so near the edge the grid scrolls. */
const slack = 4;
const edge = 36;

/** Minutes of a moment after midnight of a day, by the clocks of the view. */
export function minutesIn(at: number, d: Day): number {
  const local = localTime(at, viewZone.value);
  return daysBetween(d, local.slice(0, 10)) * 1440 + Number(local.slice(11, 13)) * 60 + Number(local.slice(14, 16));
}

interface Place {
  day: Day;
  minutes: number;
}

/** The day and minute below a pointer. */
function placeOf(body: HTMLElement, x: number, y: number): Place {
  const box = body.getBoundingClientRect();
  const list = days.value;
  const left = body.querySelector<HTMLElement>(".grid-column")!.getBoundingClientRect().left;
  const at = Math.floor(((x - left) / (box.right - left)) * list.length);
  return { day: list[Math.max(0, Math.min(list.length - 1, at))]!, minutes: Math.max(0, Math.min(1440, ((y - box.top) / box.height) * 1440)) };
}

const snapped = (m: number) => Math.round(m / snap) * snap;

function next(kind: Drag["kind"], s: Shown | null, begin: Place, at: Place): Drag {
  if (kind === "create") {
    const a = Math.floor(begin.minutes / snap) * snap, b = snapped(at.minutes);
    return { kind, event: null, day: begin.day, from: Math.min(a, b), to: Math.max(b, a + snap) };
  }
  const from = minutesIn(s!.from, begin.day), to = from + Math.round((s!.to - s!.from) / 60_000);
  if (kind === "resize") return { kind, event: s, day: begin.day, from, to: Math.max(from + snap, snapped(at.minutes + daysBetween(begin.day, at.day) * 1440)) };
  const moved = snapped(from + at.minutes - begin.minutes) - from;
  return { kind, event: s, day: at.day, from: from + moved, to: to + moved };
}

function drop(d: Drag): void {
  if (d.kind === "create") return void newEvent(d.day, d.from, d.to - d.from);
  const from = instant(localAt(d.day, d.from), viewZone.value);
  return moveEvent(d.event!, d.kind === "resize" ? d.event!.from : from, d.kind === "resize" ? instant(localAt(d.day, d.to), viewZone.value) : from + d.event!.to - d.event!.from);
}

/** Begins with a pressed pointer. A finger scrolls; it drags nothing. */
export function beginDrag(e: PointerEvent, kind: Drag["kind"], s: Shown | null): void {
  const body = (e.currentTarget as HTMLElement).closest<HTMLElement>(".grid-body");
  if (!body || e.button !== 0 || e.pointerType === "touch" || (s && !mayWrite(s.shelf))) return;
  e.stopPropagation();
  const begin = placeOf(body, e.clientX, e.clientY);
  const scroll = body.closest<HTMLElement>(".grid-scroll")!;
  const move = (m: PointerEvent) => {
    if (!drag.value && Math.hypot(m.clientX - e.clientX, m.clientY - e.clientY) < slack) return;
    const box = scroll.getBoundingClientRect();
    if (m.clientY > box.bottom - edge) scroll.scrollTop += 8;
    else if (m.clientY < box.top + 2 * edge) scroll.scrollTop -= 8;
    drag.value = next(kind, s, begin, placeOf(body, m.clientX, m.clientY));
    m.preventDefault();
  };
  const end = (how: Event) => {
    removeEventListener("pointermove", move);
    removeEventListener("pointerup", end);
    removeEventListener("pointercancel", end);
    removeEventListener("keydown", escape, true);
    const d = drag.value;
    drag.value = null;
    if (!d) return;
    justDragged.is = true;
    setTimeout(() => (justDragged.is = false));
    if (how.type === "pointerup") drop(d);
  };
  const escape = (k: KeyboardEvent) => {
    if (k.key !== "Escape") return;
    k.stopPropagation();
    end(k);
  };
  addEventListener("pointermove", move);
  addEventListener("pointerup", end);
  addEventListener("pointercancel", end);
  addEventListener("keydown", escape, true);
}

/** The element below a pointer that stands for a day. */
export const dayBelow = (x: number, y: number): HTMLElement | undefined =>
  document.elementsFromPoint(x, y).find((e) => (e as HTMLElement).dataset["day"] !== undefined) as HTMLElement | undefined;

/** The days that are being dragged over in the month. */
export const over = signal<{ first: Day; last: Day } | null>(null);

/** Drags an event of the month to another day, or, without one, over days for a new event. */
export function beginDayDrag(e: PointerEvent, s: Shown | null, done: (from: Day, to: Day) => void): void {
  if (e.button !== 0 || e.pointerType === "touch" || (s && !mayWrite(s.shelf))) return;
  e.stopPropagation();
  const from = dayBelow(e.clientX, e.clientY)?.dataset["day"];
  if (!from) return;
  const move = (m: PointerEvent) => {
    const to = dayBelow(m.clientX, m.clientY)?.dataset["day"];
    if (!to || (!over.value && to === from)) return;
    const by = daysBetween(from, to);
    over.value = s ? { first: addDays(s.first, by), last: addDays(s.last, by) } : { first: to < from ? to : from, last: to < from ? from : to };
    m.preventDefault();
  };
  const end = (how: Event) => {
    removeEventListener("pointermove", move);
    removeEventListener("pointerup", end);
    removeEventListener("pointercancel", end);
    const was = over.value;
    over.value = null;
    if (!was) return;
    justDragged.is = true;
    setTimeout(() => (justDragged.is = false));
    if (how.type === "pointerup") done(s ? s.first : was.first, s ? was.first : was.last);
  };
  addEventListener("pointermove", move);
  addEventListener("pointerup", end);
  addEventListener("pointercancel", end);
}
