// Month: weeks below each other. On telephones days have dots, and the events of the chosen day stand below.

import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { between, weekStart, type Shown } from "../../state/calendars";
import { daysBetween, weeksOfMonth, weekNumberOf, type Day } from "../../state/days";
import { inRows } from "../../state/layout";
import { drawnAs } from "../../state/objects";
import { narrow } from "../../state/screen";
import { tk } from "../../text/calendar";
import { AgendaDay } from "./agenda";
import { Bar } from "./block";
import { beginDayDrag, over } from "./drag";
import { moveDays, newEvent } from "./open";
import { day, dayText, showView, today } from "./view";

/** Heights in pixels: of an event with what is around it, and of the number of the day. */
const eventHeight = 25;
const numberHeight = 30;

export function Month() {
  const box = useRef<HTMLDivElement>(null);
  const height = useSignal(0);
  const weeks = weeksOfMonth(day.value, weekStart.value);
  useEffect(() => {
    const seen = new ResizeObserver(() => (height.value = box.current?.clientHeight ?? 0));
    seen.observe(box.current!);
    return () => seen.disconnect();
  }, []);
  const most = Math.max(1, Math.floor((height.value / weeks.length - numberHeight) / eventHeight));
  return (
    <div class="month">
      <div class="month-head" aria-hidden="true">{weeks[0]!.map((d) => <span key={d}>{dayText(d, { weekday: "short" })}</span>)}</div>
      <div class="month-weeks" ref={box} style={{ "--weeks": weeks.length }}>{weeks.map((w) => <Week key={w[0]} days={w} most={most} />)}</div>
      {narrow.value && <div class="month-day"><AgendaDay d={day.value} list={between(day.value, day.value)} empty /></div>}
    </div>
  );
}

function Week({ days, most }: { days: Day[]; most: number }) {
  const first = days[0]!, last = days[6]!;
  const list = between(first, last);
  const rows = inRows(list);
  const hidden = (d: Day) => {
    const there = list.filter((s) => s.first <= d && s.last >= d);
    return there.some((s) => rows.get(s)! >= most) ? there.filter((s) => rows.get(s)! >= most - 1).length : 0;
  };
  const more = days.map(hidden);
  const shown = narrow.value ? [] : list.filter((s) => rows.get(s)! < most - (days.some((d, i) => more[i]! > 0 && s.first <= d && s.last >= d) ? 1 : 0));
  const at = (d: Day) => Math.max(0, Math.min(6, daysBetween(first, d)));
  return (
    <div class="month-week">
      <span class="week-number" title={tk("weekOf", weekNumberOf(days))}>{weekNumberOf(days)}</span>
      {days.map((d, i) => <Cell key={d} d={d} at={i} events={list} />)}
      {shown.map((s) => <Bar key={drawnAs(s.key)} s={s} from={at(s.first)} to={at(s.last)} row={rows.get(s)! + 1} onPointerDown={(e) => beginDayDrag(e, s, (from, to) => moveDays(s, daysBetween(from, to)))} />)}
      {!narrow.value && days.map((d, i) => more[i]! > 0 && <button key={d} class="more-events" style={{ "--col": i + 1, "--row": most + 1 }} onClick={() => showView("day", d)}>{tk("moreEvents", more[i]!)}</button>)}
    </div>
  );
}

function Cell({ d, at, events }: { d: Day; at: number; events: Shown[] }) {
  const isOver = over.value && over.value.first <= d && over.value.last >= d;
  const there = narrow.value ? events.filter((s) => s.first <= d && s.last >= d).slice(0, 4) : [];
  const look = `month-day-cell ${d.slice(0, 7) === day.value.slice(0, 7) ? "" : "outside"} ${isOver ? "over" : ""} ${narrow.value && d === day.value ? "chosen" : ""}`;
  return (
    <div class={look} data-day={d} style={{ "--col": at + 1 }} onPointerDown={(e) => beginDayDrag(e, null, (from, to) => void newEvent(from, null, daysBetween(from, to) + 1))} onDblClick={() => void newEvent(d)}>
      <button class="number" aria-current={d === today.value ? "date" : undefined} aria-label={dayText(d)} onClick={() => (narrow.value ? showView("month", d, true) : showView("day", d))}>
        {Number(d.slice(8))}{d.endsWith("-01") && !narrow.value && <small> {dayText(d, { month: "short" })}</small>}
      </button>
      {there.length > 0 && <span class="dots">{there.map((s) => <i key={s.key} class="dot" style={{ "--hue": s.hue }} />)}</span>}
    </div>
  );
}
