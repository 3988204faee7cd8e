// Booking a room: rooms that fit, free or not at the time of the event.

import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import type { Address } from "../../jmap/types";
import { askBusy, busyAt, type BusyTimes } from "../../state/busy";
import { findRooms, knownRooms, type Room } from "../../state/rooms";
import { tk } from "../../text/calendar";
import { Icon } from "../icons";

/** The pause in typing before the server is asked, in milliseconds. */
const pause = 200;
/** The busy times of so many rooms are asked for. */
const looked = 16;

interface Props {
  from: number;
  to: number;
  chosen: Address[];
  /** The event's own time, at which the rooms that it has booked are busy with it. */
  own: { from: number; to: number } | null;
  add: (r: Room) => void;
}

export function Rooms({ from, to, chosen, own, add }: Props) {
  const text = useSignal("");
  const people = useSignal("");
  const site = useSignal("");
  const equipment = useSignal<string[]>([]);
  const found = useSignal<{ list: Room[]; more: boolean } | undefined>(undefined);
  const times = useSignal<BusyTimes>(new Map());
  const key = [text.value, people.value, site.value, ...equipment.value].join("\n");
  useEffect(() => {
    let there = true;
    const timer = setTimeout(async () => {
      const answer = await findRooms({ text: text.value.trim(), capacity: Number(people.value) || 0, equipment: equipment.value, site: site.value });
      if (there && answer) found.value = answer;
    }, pause);
    return () => { there = false; clearTimeout(timer); };
  }, [key]);
  const rooms = found.value?.list ?? [];
  const asked = rooms.slice(0, looked).map((r) => r.email).join();
  useEffect(() => {
    if (!asked) return;
    let there = true;
    void askBusy(rooms.slice(0, looked), from, to).then((answer) => { if (there && answer) times.value = answer.times; });
    return () => { there = false; };
  }, [asked, from, to]);
  const all = [...knownRooms.value.values()];
  const sites = [...new Set(all.map((r) => r.site).filter((s): s is string => !!s))].sort();
  const things = [...new Set(all.flatMap((r) => r.equipment))].sort();
  const taken = (r: Room) => busyAt(new Map([[r.email.toLowerCase(), (times.value.get(r.email.toLowerCase()) ?? []).filter((b) => !own || b.from !== own.from || b.to !== own.to)]]), from, to).length > 0;
  const isChosen = (r: Room) => chosen.some((a) => a.email.toLowerCase() === r.email.toLowerCase());
  return (
    <fieldset class="rooms">
      <legend>{tk("rooms")}</legend>
      <div class="room-wishes">
        <label class="field"><span>{tk("roomSearch")}</span><input type="search" value={text.value} onInput={(e) => (text.value = e.currentTarget.value)} autocomplete="off" /></label>
        <label class="field"><span>{tk("roomPeople")}</span><input type="number" min="0" inputmode="numeric" value={people.value} onInput={(e) => (people.value = e.currentTarget.value)} /></label>
        {sites.length > 0 && <label class="field"><span>{tk("roomSite")}</span><select value={site.value} onChange={(e) => (site.value = e.currentTarget.value)}><option value="">{tk("roomAnySite")}</option>{sites.map((s) => <option key={s} value={s}>{s}</option>)}</select></label>}
      </div>
      {things.length > 0 && <div class="room-things" role="group" aria-label={tk("roomEquipment")}>{things.map((x) => <label key={x} class="check"><input type="checkbox" checked={equipment.value.includes(x)} onChange={(e) => (equipment.value = e.currentTarget.checked ? [...equipment.value, x] : equipment.value.filter((y) => y !== x))} />{x}</label>)}</div>}
      <ul class="room-list" aria-live="polite">
        {rooms.map((r) => (
          <li key={r.id} class={taken(r) ? "taken" : ""}>
            <span class="room-name"><Icon name="place" /><b dir="auto">{r.name}</b></span>
            <span class="quiet">{[r.capacity > 0 && tk("roomSeats", r.capacity), r.site, ...r.equipment].filter(Boolean).join(" · ")}</span>
            <span class="quiet">{taken(r) ? tk("roomTaken") : times.value.get(r.email.toLowerCase()) ? tk("roomFree") : ""}{r.approval && ` · ${tk("roomApproval")}`}{r.ownersOnly && ` · ${tk("roomOwners")}`}</span>
            <button type="button" class="button" disabled={isChosen(r)} aria-label={tk("roomBookNamed", r.name)} onClick={() => add(r)}>{isChosen(r) ? tk("roomChosen") : tk("roomBook")}</button>
          </li>
        ))}
      </ul>
      {found.value && rooms.length === 0 && <p class="quiet" role="status">{tk("roomNone")}</p>}
      {found.value?.more && <p class="quiet">{tk("roomMore")}</p>}
    </fieldset>
  );
}
