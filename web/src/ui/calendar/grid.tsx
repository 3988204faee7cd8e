// Day, work week and week: days beside each other, hours below each other.

import { useEffect, useRef } from "preact/hooks";
import { between, viewZone, type Shown } from "../../state/calendars";
import { daysBetween, weekNumberOf, type Day } from "../../state/days";
import { inRows, layOut, type Slot } from "../../state/layout";
import { drawnAs } from "../../state/objects";
import { tasksBetween } from "../../state/tasks";
import { localTime, zoneName } from "../../state/zone";
import { tk } from "../../text/calendar";
import { Bar, Block, isLong, Marks, placeOf } from "./block";
import { beginDayDrag, beginDrag, drag, justDragged, minutesIn } from "./drag";
import { moveDays, newEvent, titleOf } from "./open";
import { TaskChip } from "./taskparts";
import { dayText, days, formatter, now, showView, timeRange, timeText, today, view } from "./view";

/** So many tasks of a day are shown above the hours. */
const mostTasks = 4;

/** The hour to which the grid is scrolled at first. */
const firstHour = 7;

export function TimeGrid() {
  const scroll = useRef<HTMLDivElement>(null);
  const list = days.value;
  const all = between(list[0]!, list[list.length - 1]!);
  const long = all.filter(isLong);
  useEffect(() => {
    const e = scroll.current!;
    const hour = e.querySelector<HTMLElement>(".grid-body")!.offsetHeight / 24;
    const clock = Number(localTime(now.peek(), viewZone.peek()).slice(11, 13));
    const first = list.includes(today.peek()) ? Math.max(0, Math.min(firstHour, clock - 1)) : firstHour;
    e.scrollTop = hour * first - 12; // the name of the first hour stands on its line
  }, []);
  return (
    <div class="grid-scroll" ref={scroll} style={{ "--days": list.length }}>
      <div class="grid-top">
        <div class="grid-head">
          <span class="corner" title={zoneName(viewZone.value)}>{view.value === "day" ? "" : tk("weekOf", weekNumberOf(list))}</span>
          {list.map((d) => <DayHead key={d} d={d} />)}
        </div>
        <Lane list={list} long={long} />
      </div>
      <div class="grid-body">
        <div class="hours" aria-hidden="true">{Array.from({ length: 23 }, (_, h) => <span key={h} style={{ "--at": h + 1 }}>{hourText(h + 1)}</span>)}</div>
        {list.map((d) => <Column key={d} d={d} list={all.filter((s) => !isLong(s) && s.first <= d && s.last >= d)} />)}
      </div>
    </div>
  );
}

const hourText = (h: number) => formatter({ hour: "numeric", timeZone: "UTC" }).format(Date.UTC(2026, 0, 1, h));

function DayHead({ d }: { d: Day }) {
  return (
    <button class="day-head" aria-current={d === today.value ? "date" : undefined} aria-label={dayText(d)} onClick={() => showView("day", d)}>
      <span>{dayText(d, { weekday: "short" })}</span><b>{Number(d.slice(8))}</b>
    </button>
  );
}

/** Events over whole days, above the hours. A press on the free part makes a new one. */
function Lane({ list, long }: { list: Day[]; long: Shown[] }) {
  const rows = inRows(long);
  const used = Math.max(0, ...[...rows.values()].map((r) => r + 1));
  const due = list.map((d) => tasksBetween(d, d));
  const shownTasks = (i: number) => due[i]!.slice(0, due[i]!.length > mostTasks ? mostTasks - 1 : mostTasks);
  return (
    <div class="lane" style={{ "--rows": Math.max(1, used + Math.min(mostTasks, Math.max(...due.map((x) => x.length)))) }}>
      <span class="lane-name">{tk("allDay")}</span>
      {list.map((d, i) => <div key={d} class="lane-day" data-day={d} style={{ "--col": i + 1 }} onPointerDown={(e) => beginDayDrag(e, null, (from, to) => void newEvent(from, null, daysBetween(from, to) + 1))} onDblClick={() => void newEvent(d, null, 1)} />)}
      {long.map((s) => (
        <Bar key={drawnAs(s.key)} s={s} row={rows.get(s)!} from={Math.max(0, daysBetween(list[0]!, s.first))} to={Math.min(list.length - 1, daysBetween(list[0]!, s.last))}
          onPointerDown={(e) => beginDayDrag(e, s, (from, to) => moveDays(s, daysBetween(from, to)))} />
      ))}
      {list.map((d, i) => (
        <>
          {shownTasks(i).map((s, n) => <TaskChip key={drawnAs(s.key)} s={s} look="bar-event" style={{ "--col": i + 1, "--span": 1, "--row": used + n + 1 }} />)}
          {due[i]!.length > mostTasks && <button class="more-events" style={{ "--col": i + 2, "--row": used + mostTasks }} onClick={() => showView("agenda", d)}>{tk("moreEvents", due[i]!.length - mostTasks + 1)}</button>}
        </>
      ))}
    </div>
  );
}

function Column({ d, list }: { d: Day; list: Shown[] }) {
  const slots = layOut(list);
  const dragged = drag.value;
  const create = (e: MouseEvent) => {
    const box = (e.currentTarget as HTMLElement).getBoundingClientRect();
    void newEvent(d, Math.floor((((e.clientY - box.top) / box.height) * 1440) / 30) * 30);
  };
  return (
    <div class="grid-column" data-day={d} role="group" aria-label={dayText(d)} onPointerDown={(e) => beginDrag(e, "create", null)} onClick={(e) => { if (!justDragged.is && (e as unknown as PointerEvent).pointerType === "touch") create(e); }} onDblClick={create}>
      {list.map((s) => <Timed key={drawnAs(s.key)} s={s} d={d} slot={slots.get(s)!} />)}
      {dragged && dragged.day === d && <Ghost />}
      {d === today.value && <i class="now" style={{ "--at": minutesIn(now.value, d) }} />}
    </div>
  );
}

function Timed({ s, d, slot }: { s: Shown; d: Day; slot: Slot }) {
  const from = Math.max(0, minutesIn(s.from, d)), to = Math.min(1440, minutesIn(s.to, d));
  const length = Math.max(to - from, 25);
  const place = placeOf(s);
  const look = `timed ${length < 45 ? "short" : ""} ${drag.value?.event?.key === s.key ? "dragged" : ""} ${s.to < now.value ? "past" : ""}`;
  return (
    <Block s={s} look={look} style={{ "--from": from, "--length": length, "--slot": slot.at, "--slots": slot.of, "--wide": slot.wide }} onPointerDown={(e) => beginDrag(e, "move", s)}>
      <span class="what">{titleOf(s)}</span>
      <span class="at">{length < 45 ? timeText(s.from) : timeRange(s.from, s.to)}</span>
      {place && length >= 75 && <span class="at">{place}</span>}
      <span class="marks"><Marks s={s} /></span>
      {s.last === d && <i class="grip" onPointerDown={(e) => beginDrag(e, "resize", s)} />}
    </Block>
  );
}

/** The dragged event at its new place. */
function Ghost() {
  const g = drag.value!;
  const at = (m: number) => formatter({ hour: "numeric", minute: "2-digit", timeZone: "UTC" }).format(Date.UTC(2026, 0, 1, 0, m));
  return (
    <div class="event timed would-be" style={{ "--hue": g.event?.hue ?? 168, "--from": g.from, "--length": g.to - g.from, "--slot": 0, "--slots": 1, "--wide": 1 }}>
      <span class="what">{g.event ? titleOf(g.event) : tk("newEvent")}</span><span class="at">{at(g.from)} – {at(g.to)}</span>
    </div>
  );
}
