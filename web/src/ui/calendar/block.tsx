// An event as the views show it: a button that opens it.

import type { Shown } from "../../state/calendars";
import { route } from "../../state/route";
import { Icon } from "../icons";
import { Mark, standingText } from "../unsaved";
import { tk } from "../../text/calendar";
import { justDragged } from "./drag";
import { openEvent, titleOf } from "./open";
import { dayText, timeRange, timeText } from "./view";

/** When an event is, in words. */
export function whenOf(s: Shown): string {
  const day = { weekday: "short", day: "numeric", month: "short" } as const;
  const days = s.first === s.last ? dayText(s.first, day) : `${dayText(s.first, day)} – ${dayText(s.last, day)}`;
  return s.allDay ? `${days}, ${tk("allDay")}` : s.first === s.last ? `${days}, ${timeRange(s.from, s.to)}` : `${dayText(s.first, day)}, ${timeText(s.from)} – ${dayText(s.last, day)}, ${timeText(s.to)}`;
}

export const placeOf = (s: Shown): string => Object.values(s.event.locations ?? {}).map((l) => l.name ?? "").filter(Boolean).join(", ");

/** The words for somebody who does not see the event. */
const labelOf = (s: Shown) => [titleOf(s), whenOf(s), placeOf(s), s.shelf.name, s.repeats ? tk("repeats") : "", s.event.status === "cancelled" ? tk("cancelledEvent") : "", standingText(s.standing)].filter(Boolean).join(", ");

export const looks = (s: Shown): string => `${s.event.freeBusyStatus === "free" ? "free" : ""} ${s.event.status === "cancelled" ? "cancelled" : ""} ${s.event.status === "tentative" ? "tentative" : ""}`;

interface Props {
  s: Shown;
  look: string;
  style?: Record<string, string | number>;
  onPointerDown?: (e: PointerEvent) => void;
  children?: preact.ComponentChildren;
}

export function Block({ s, look, style, onPointerDown, children }: Props) {
  return (
    <button
      class={`event ${look} ${looks(s)}`} style={{ "--hue": s.hue, ...style }} data-event={s.key} aria-label={labelOf(s)} title={`${titleOf(s)}\n${whenOf(s)}`}
      aria-current={route.value.query["event"] === s.key} {...(onPointerDown ? { onPointerDown } : {})}
      onClick={(e) => { e.stopPropagation(); if (!justDragged.is) openEvent(s, e.currentTarget); }}
    >{children}</button>
  );
}

export function Marks({ s }: { s: Shown }) {
  return (
    <>
      <Mark of={s.standing} />
      {s.repeats && <Icon name="repeat" />}
      {s.event.privacy && s.event.privacy !== "public" && <Icon name="lock" />}
    </>
  );
}

/** An event that is drawn over whole days. */
export function Bar({ s, from, to, row, style, onPointerDown }: { s: Shown; from: number; to: number; row: number; style?: Record<string, string | number>; onPointerDown?: (e: PointerEvent) => void }) {
  const whole = s.allDay || s.first !== s.last;
  return (
    <Block s={s} look={whole ? "bar-event" : "dot-event"} style={{ "--col": from + 1, "--span": to - from + 1, "--row": row + 1, ...style }} {...(onPointerDown ? { onPointerDown } : {})}>
      {!whole && <i class="dot" />}
      {!s.allDay && <span class="at">{timeText(s.from)}</span>}
      <span class="what">{titleOf(s)}</span>
      <Marks s={s} />
    </Block>
  );
}

/** Lasts a day or longer, or says no time: it is drawn above the hours. */
export const isLong = (s: Shown): boolean => s.allDay || s.to - s.from >= 86_400_000;
