// Agenda: the days that have events, one below the other.

import { between, isKnown, type Shown } from "../../state/calendars";
import { tk } from "../../text/calendar";
import type { Day } from "../../state/days";
import { Icon } from "../icons";
import { Block, Marks, placeOf } from "./block";
import { drawnAs } from "../../state/objects";
import { tasksBetween } from "../../state/tasks";
import { titleOf } from "./open";
import { TaskChip } from "./taskparts";
import { dayText, days, now, timeText, today } from "./view";

export function Agenda() {
  const gap = days.value.findIndex((d) => !isKnown(d)); // months come in any order: nothing is put in above what somebody is about to press
  const list = gap < 0 ? days.value : days.value.slice(0, Math.max(1, gap));
  const all = between(list[0]!, list[list.length - 1]!);
  const there = list.map((d) => ({ d, events: all.filter((s) => s.first <= d && s.last >= d) })).filter(({ d, events }) => events.length > 0 || d === today.value || tasksBetween(d, d).length > 0);
  return (
    <div class="agenda" tabIndex={0}>
      {there.map(({ d, events }) => <AgendaDay key={d} d={d} list={events} empty={d === today.value} />)}
      {there.length === 0 && <p class="quiet">{tk("nothingUntil", dayText(list[list.length - 1]!))}</p>}
    </div>
  );
}

export function AgendaDay({ d, list, empty = false }: { d: Day; list: Shown[]; empty?: boolean }) {
  const tasks = tasksBetween(d, d);
  return (
    <section class="agenda-day" data-day={d} aria-label={dayText(d)}>
      <h3 class={d === today.value ? "is-today" : ""}><b>{Number(d.slice(8))}</b><span>{dayText(d, { weekday: "long" })}<small>{d === today.value ? tk("today") : dayText(d, { month: "long", year: "numeric" })}</small></span></h3>
      <div class="agenda-events">
        {list.map((s) => <Line key={drawnAs(s.key)} s={s} d={d} />)}
        {tasks.map((s) => <TaskChip key={drawnAs(s.key)} s={s} look="line-task" />)}
        {list.length === 0 && tasks.length === 0 && empty && <p class="quiet">{tk("nothing")}</p>}
      </div>
    </section>
  );
}

function Line({ s, d }: { s: Shown; d: Day }) {
  const place = placeOf(s);
  const time = s.allDay || (s.first < d && s.last > d) ? tk("allDay") : s.first < d ? tk("untilDay", timeText(s.to)) : `${timeText(s.from)}${s.last === d ? ` – ${timeText(s.to)}` : ""}`;
  return (
    <Block s={s} look={`line-event ${!s.allDay && s.to < now.value ? "past" : ""}`}>
      <i class="dot" /><span class="at">{time}</span>
      <span class="what">{titleOf(s)}{place && <small><Icon name="place" />{place}</small>}</span>
      <span class="marks"><Marks s={s} /></span>
    </Block>
  );
}
