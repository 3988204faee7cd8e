// Quick entry: a line of text becomes an event. What it will be is said while one types.

import { useSignal } from "@preact/signals";
import { useRef } from "preact/hooks";
import type { CalendarEvent } from "../../jmap/calendar";
import { viewZone, type Shelf } from "../../state/calendars";
import { addDays, formatDuration } from "../../state/days";
import { known } from "../../state/people";
import { readQuick, type Quick } from "../../state/quick";
import { goQuery } from "../../state/route";
import { instant } from "../../state/zone";
import { tk } from "../../text/calendar";
import { Icon } from "../icons";
import { begun, createAtOnce, localAt, shelfForNew } from "./open";
import { day, dayText, showView, timeRange, today, view } from "./view";

function eventOf(q: Quick): Partial<CalendarEvent> {
  const times = q.from === undefined
    ? { start: `${q.day}T00:00:00`, showWithoutTime: true, timeZone: null, duration: `P${q.days}D` }
    : { start: localAt(q.day, q.from), timeZone: viewZone.value, duration: formatDuration(q.minutes) };
  return { title: q.title, ...times, ...(q.place ? { locations: { l1: { "@type": "Location", name: q.place } } } : {}) };
}

function whenOf(q: Quick): string {
  const days = q.days > 1 && q.from === undefined ? `${dayText(q.day)} – ${dayText(addDays(q.day, q.days - 1))}` : dayText(q.day);
  if (q.from === undefined) return `${days}, ${tk("allDay")}`;
  const at = instant(localAt(q.day, q.from), viewZone.value);
  return `${days}, ${timeRange(at, at + q.minutes * 60_000)}`;
}

export function QuickEntry() {
  const text = useSignal("");
  const input = useRef<HTMLInputElement>(null);
  const q = text.value.trim() ? readQuick(text.value, today.value) : undefined;
  const write = (line: string) => { if (input.current) text.value = input.current.value = line; };
  const clear = () => write("");
  /** Takes the line, and puts it back if there is no calendar for new events. */
  const take = async (): Promise<Shelf | undefined> => {
    const line = text.value;
    clear(); // at once, so that a second Enter makes no second event
    const shelf = await shelfForNew();
    if (!shelf && !text.value) write(line);
    return shelf;
  };
  // People are invited by hand: nobody gets an invitation by a line that was read wrong.
  const edit = async () => {
    const shelf = q && await take();
    if (!shelf) return;
    const people = q.people.flatMap((name) => known().find((a) => (a.name ?? "").toLowerCase().split(/\s+/u).includes(name.toLowerCase())) ?? []);
    begun.value = { account: shelf.account, event: null, calendar: shelf.id, people, with: eventOf(q) };
    goQuery({ edit: "new", event: "" });
  };
  const done = async () => {
    const line = text.value;
    const shelf = q && await take();
    if (!shelf) return;
    void createAtOnce(shelf.account, { "@type": "Event", uid: crypto.randomUUID(), calendarIds: { [shelf.id]: true }, ...eventOf(q) } as unknown as Omit<CalendarEvent, "id">)
      .then((made) => { if (!made && !text.value) write(line); });
    if (q.day !== day.value) showView(view.value, q.day);
  };
  return (
    <form class="search quick" onSubmit={(e) => { e.preventDefault(); void done(); }}>
      <Icon name="plus" />
      <input id="quick" ref={input} aria-label={tk("quickAdd")} placeholder={tk("quickHint")} autocomplete="off" {...(q ? { "aria-describedby": "quick-says" } : {})} onInput={(e) => (text.value = e.currentTarget.value)}
        onKeyDown={(e) => { if (e.key === "Escape") { clear(); e.currentTarget.blur(); e.stopPropagation(); } }} />
      {q && (
        <div class="search-help" id="quick-says" role="status">
          <p><b dir="auto">{q.title}</b>{q.place && <span class="quiet"> · {q.place}</span>}</p>
          <p>{whenOf(q)}</p>
          <p class="ends"><button type="button" class="button" onMouseDown={(e) => e.preventDefault()} onClick={() => void edit()}>{tk("edit")}</button><button class="button primary">{tk("save")}</button></p>
        </div>
      )}
    </form>
  );
}
