// An event that is looked at: a card beside it, on telephones a sheet from below.

import { useSignal } from "@preact/signals";
import { useEffect, useLayoutEffect, useRef } from "preact/hooks";
import { emailOf, type CalendarEvent, type Participation } from "../../jmap/calendar";
import { mayWrite, revision, viewZone, type Shown } from "../../state/calendars";
import { readEvent, respond } from "../../state/events";
import { identities } from "../../state/outgoing";
import { closeQuery } from "../../state/route";
import { narrow } from "../../state/screen";
import { isRoom } from "../../state/rooms";
import { guests, owner } from "../../state/written";
import { isZone, zoneName } from "../../state/zone";
import { t } from "../../text";
import { tk } from "../../text/calendar";
import { Attached } from "../attached";
import { Icon } from "../icons";
import { Mark } from "../unsaved";
import { placeOf, whenOf } from "./block";
import { anchor, askScope, deleteEvent, editEvent, tell, titleOf } from "./open";
import { formatter } from "./view";
import { repeats } from "./words";

const answers: { status: Participation; text: "accept" | "maybe" | "decline" }[] = [{ status: "accepted", text: "accept" }, { status: "tentative", text: "maybe" }, { status: "declined", text: "decline" }];

const gap = 8;

/** Lays the card beside what was pressed, inside the window. */
function lay(card: HTMLElement, at: DOMRect | null): void {
  const box = card.getBoundingClientRect();
  const beside = at && at.right + gap + box.width < innerWidth ? at.right + gap : at && at.left - gap - box.width > 0 ? at.left - gap - box.width : (innerWidth - box.width) / 2;
  const top = at ? Math.min(at.top, innerHeight - box.height - gap) : (innerHeight - box.height) / 3;
  card.style.setProperty("--x", `${Math.max(gap, beside)}px`);
  card.style.setProperty("--y", `${Math.max(gap, top)}px`);
}

export function EventCard({ s }: { s: Shown }) {
  const card = useRef<HTMLDivElement>(null);
  const whole = useSignal<CalendarEvent | null>(null);
  const series = useSignal<CalendarEvent | null>(null);
  useEffect(() => {
    whole.value = series.value = null;
  }, [s.key]);
  useEffect(() => {
    let there = true;
    void readEvent(s.account, s.event.id).then((e) => { if (there && e) whole.value = e; });
    if (s.event.baseEventId) void readEvent(s.account, s.event.baseEventId).then((e) => { if (there && e) series.value = e; });
    return () => { there = false; };
  }, [s.key, revision.value]);
  useLayoutEffect(() => { if (!narrow.value) lay(card.current!, anchor.value); }, [s.key, whole.value, series.value]);
  useEffect(() => {
    const before = document.activeElement as HTMLElement | null;
    card.current!.focus();
    const away = (e: PointerEvent) => {
      const to = e.target as HTMLElement;
      if (!card.current?.contains(to) && !to.closest(".toast, .menu, dialog, [data-event]")) closeQuery("event");
    };
    addEventListener("pointerdown", away);
    return () => {
      removeEventListener("pointerdown", away);
      const again = document.querySelector<HTMLElement>(`.calendar-view [data-event="${CSS.escape(s.key)}"]`);
      (again ?? (before?.isConnected ? before : null))?.focus({ preventScroll: true });
    };
  }, [s.key]);
  const e = whole.value ?? s.event;
  const there = isZone(e.timeZone) && !s.allDay ? formatter({ hour: "numeric", minute: "2-digit", timeZone: e.timeZone }).formatRange(s.from, s.to) : "";
  const here = formatter({ hour: "numeric", minute: "2-digit", timeZone: viewZone.value }).formatRange(s.from, s.to);
  const links = Object.values(e.virtualLocations ?? {}).filter((l) => /^https?:/u.test(l.uri) && URL.canParse(l.uri));
  const rhythm = series.value ? repeats(series.value) : repeats(e);
  const may = mayWrite(s.shelf);
  return (
    <div class="event-card" role="dialog" aria-label={titleOf(s)} tabIndex={-1} ref={card} style={{ "--hue": s.hue }}>
      <div class="card-tools">
        {may && <button class="tool" aria-label={tk("edit")} title={`${tk("edit")} (e)`} onClick={() => void editEvent(s)}><Icon name="drafts" /></button>}
        {may && <button class="tool" aria-label={t("delete")} title={`${t("delete")} (#)`} onClick={() => void deleteEvent(s)}><Icon name="trash" /></button>}
        <button class="tool" aria-label={tk("duplicate")} title={tk("duplicate")} onClick={() => void editEvent(s, true)}><Icon name="copy" /></button>
        <button class="tool" aria-label={t("close")} title={`${t("close")} (Esc)`} onClick={() => closeQuery("event")}><Icon name="close" /></button>
      </div>
      <h2 dir="auto"><i class="dot" />{titleOf(s)}<Mark of={s.standing} /></h2>
      <p>{whenOf(s)}{there && there !== here && <span class="quiet"> · {tk("inZone", there, zoneName(e.timeZone!))}</span>}</p>
      {rhythm && <p class="with-icon"><Icon name="repeat" />{rhythm}</p>}
      {placeOf(s) && <p class="with-icon" dir="auto"><Icon name="place" />{placeOf(s)}</p>}
      {links.map((l) => <p class="with-icon"><Icon name="link" /><a href={l.uri} target="_blank" rel="noopener noreferrer">{tk("join")}</a><span class="quiet">{new URL(l.uri).host}</span></p>)}
      {e.description && <p class="description" dir="auto">{e.description}</p>}
      <Attached account={s.account} links={e.links} />
      <People e={e} s={s} />
      <p class="quiet with-icon"><Icon name="calendar" />{s.shelf.name}{s.shelf.owner && ` · ${s.shelf.owner}`}{e.privacy && e.privacy !== "public" ? ` · ${tk("privateWord")}` : ""}{e.freeBusyStatus === "free" ? ` · ${tk("free")}` : ""}</p>
      {!may && <p class="quiet">{tk("readOnly")}</p>}
    </div>
  );
}

function People({ e, s }: { e: CalendarEvent; s: Shown }) {
  const list = guests(e);
  if (list.length === 0) return null;
  const mine = new Set(identities.value.map((i) => i.email.toLowerCase()));
  const me = list.find(([, p]) => mine.has(emailOf(p)));
  const from = owner(e);
  const answer = async (status: Participation) => {
    const scope = s.repeats ? await askScope(tk("scopeChange")) : "this";
    if (!scope) return;
    const problem = await respond(s.account, e, me![0], status, scope);
    if (problem) tell(problem);
  };
  return (
    <>
      <ul class="guests" aria-label={tk("people")}>
        {from && <li><span dir="auto">{from.name || emailOf(from)}</span> <span class="quiet">{tk("organizer")}</span></li>}
        {list.map(([id, p]) => <li key={id} title={emailOf(p)}><span dir="auto">{isRoom(p) && <Icon name="place" />}{p.name || emailOf(p)}</span> <span class="quiet">{tk(p.participationStatus ?? "needs-action")}</span></li>)}
      </ul>
      {me && (mayWrite(s.shelf) || s.shelf.myRights.mayRSVP) && (
        <div class="answer" role="group" aria-label={tk("youAre")}>
          {answers.map((a) => <button key={a.status} class="button" aria-pressed={me[1].participationStatus === a.status} onClick={() => void answer(a.status)}>{tk(a.text)}</button>)}
        </div>
      )}
    </>
  );
}
