// An invitation in its mail: the event, who comes, and the answer.

import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import type { Id, Message } from "../jmap/types";
import { answerMessage, organizer, readEvents, type Answer, type Event, type Participant } from "../state/invitation";
import { rows } from "../state/messages";
import { identities, outgoing } from "../state/outgoing";
import { intend, takeBack, waiting, type AnswerSent } from "../state/outbox";
import { preferences } from "../state/prefs";
import { say } from "../state/screen";
import { account, attempt, client, home } from "../state/session";
import { language, t } from "../text";
import { ti, type InvitationText } from "../text/invitation";
import { Attached } from "./attached";
import { Icon } from "./icons";
import { Conflicts } from "./invited";

const answers: { answer: Answer; word: InvitationText; you: InvitationText; subject: InvitationText; text: InvitationText }[] = [
  { answer: "accepted", word: "accept", you: "youAccepted", subject: "subjectAccepted", text: "textAccepted" },
  { answer: "tentative", word: "maybe", you: "youTentative", subject: "subjectTentative", text: "textTentative" },
  { answer: "declined", word: "decline", you: "youDeclined", subject: "subjectDeclined", text: "textDeclined" },
];

const nameOf = (p: Pick<Participant, "name" | "email">) => p.name || p.email || "?";

/** When an event is, in the time of the reader; its own time beside that where clocks there show another. */
function when(e: Event): string {
  if (!e.start) return "";
  const format = (options: Intl.DateTimeFormatOptions) => new Intl.DateTimeFormat(language.value, options);
  const day: Intl.DateTimeFormatOptions = { weekday: "long", day: "numeric", month: "long", year: "numeric" };
  const time: Intl.DateTimeFormatOptions = { hour: "numeric", minute: "2-digit" };
  const begin = new Date(`${e.start}Z`);
  if (e.showWithoutTime) {
    const days = Number(/^P(\d+)D$/u.exec(e.duration ?? "")?.[1] ?? 1);
    return format({ ...day, timeZone: "UTC" }).formatRange(begin, new Date(begin.getTime() + (days - 1) * 86_400_000));
  }
  if (!e.utcStart || !e.utcEnd) return `${format({ ...day, ...time, timeZone: "UTC" }).format(begin)} (${ti("localTime")})`;
  const from = new Date(e.utcStart), to = new Date(e.utcEnd);
  const here = format({ ...day, ...time }).formatRange(from, to);
  const there = e.timeZone && e.timeZone !== "Etc/UTC" ? format({ ...time, timeZone: e.timeZone }).formatRange(from, to) : "";
  return there && there !== format(time).formatRange(from, to) ? `${here} (${ti("theirTime", there, e.timeZone!.split("/").pop()!.replaceAll("_", " "))})` : here;
}

function repeats(e: Event): string {
  const r = e.recurrenceRules?.[0];
  if (!r) return "";
  const every = r.interval && r.interval > 1;
  const key = every ? `repeats${r.frequency.charAt(0).toUpperCase()}${r.frequency.slice(1)}` : r.frequency;
  const known = ["daily", "weekly", "monthly", "yearly"].includes(r.frequency);
  const words = [known ? ti(key as InvitationText, r.interval ?? 1) : ti("repeats")];
  if (r.until) words.push(ti("until", new Intl.DateTimeFormat(language.value, { dateStyle: "long", timeZone: "UTC" }).format(new Date(`${r.until}Z`))));
  if (r.count) words.push(ti("times", r.count));
  return words.join(", ");
}

function Day({ e }: { e: Event }) {
  if (!e.start) return null;
  const local = e.utcStart && !e.showWithoutTime ? { at: new Date(e.utcStart) } : { at: new Date(`${e.start}Z`), timeZone: "UTC" };
  const part = (options: Intl.DateTimeFormatOptions) => new Intl.DateTimeFormat(language.value, { ...options, ...(local.timeZone ? { timeZone: local.timeZone } : {}) }).format(local.at);
  return <div class="day" aria-hidden="true"><span>{part({ month: "short" })}</span><b>{part({ day: "numeric" }).replace(/\D/gu, "")}</b><span>{part({ weekday: "short" })}</span></div>;
}

export function Invitation({ m, blob }: { m: Message; blob: Id }) {
  const events = useSignal<Event[]>([]);
  const keywords = rows.value.get(m.id)?.keywords ?? m.keywords;
  useEffect(() => {
    void attempt(() => readEvents(account.value, blob)).then((list) => (events.value = list ?? []), () => undefined); // the file stays to be downloaded
  }, [blob]);
  const e = events.value[0];
  if (!e) return null;
  const people = Object.values(e.participants ?? {});
  const guests = people.filter((p) => p.roles["attendee"] || p.roles["informational"]);
  const mine = new Set(identities.value.map((i) => i.email.toLowerCase()));
  const me = guests.find((p) => p.email && mine.has(p.email.toLowerCase()));
  const from = organizer(e);
  // Anybody can write a name into an invitation: where the message is of somebody else, that is said.
  const claimed = e.method === "reply" ? guests[0]?.email : from?.email;
  const sender = m.from?.[0];
  const foreign = claimed && sender && sender.email.toLowerCase() !== claimed.toLowerCase();
  const own = !!from && mine.has(from.email.toLowerCase());
  const who = from ? from.name || from.email : "?";
  const asked = e.method === "request" && !!from && !own && !!me && account.value === home.value;
  const underWay = waiting.value.findLast((i) => i.kind === "answer" && i.email === m.id) as (AnswerSent & { key: string }) | undefined;
  const now = underWay?.answer ?? answers.find((a) => keywords[`$${a.answer}`])?.answer ?? null;
  const head = e.method === "cancel" || e.status === "cancelled" ? ti("cancelled", who)
    : e.method === "reply" ? guests.map((p) => ti("answered", nameOf(p), ti(p.participationStatus ?? "needs-action"))).join(", ")
    : e.method === "request" ? own ? ti("yours", guests.filter((p) => p !== me).map(nameOf).join(", ")) : ti("invites", who) : ti("event");

  const give = async (a: (typeof answers)[number]) => {
    const identity = identities.value.find((i) => i.email.toLowerCase() === me!.email!.toLowerCase());
    const { drafts, sent } = outgoing.value;
    if (!identity || !drafts || !sent) return say(t("cannotReach"));
    if (underWay) await takeBack(underWay.key);
    const id = `${crypto.randomUUID()}@${identity.email.split("@")[1] ?? "localhost"}`;
    const words = { subject: ti(a.subject, e.title ?? ""), text: ti(a.text, identity.name || identity.email) };
    const seconds = preferences.value.undoSeconds;
    const intention = await intend({
      kind: "answer", account: home.value, at: Date.now() + seconds * 1000, email: m.id, answer: a.answer, identity: identity.id, drafts, sent, messageID: id,
      message: answerMessage(e, identity, from!, a.answer, words, id, m.messageId?.[0], client.now()),
      envelope: { mailFrom: { email: identity.email }, rcptTo: [{ email: from!.email }] },
      ...(e.uid ? { event: { blob, uid: e.uid, me: me!.email!.toLowerCase() } } : {}),
    });
    if (seconds === 0) return say(t("sending"));
    return say(t("sendUndo", seconds), {
      text: t("undo"),
      run: () => void takeBack(intention.key).then((was) => was && say(t("sendTakenBack"))),
    }, seconds);
  };

  return (
    <section class="invitation" aria-label={ti(e.method === "request" ? "invitation" : "event")}>
      <Day e={e} />
      <div>
        <p class="quiet">{head}</p>
        {foreign && <p class="said">{ti("foreign", sender.email, claimed)}</p>}
        <h2 dir="auto">{e.title || t("noSubject")}</h2>
        <p>{when(e)}</p>
        {repeats(e) && <p>{repeats(e)}</p>}
        {Object.values(e.locations ?? {}).map((l) => <p><span class="quiet">{ti("where")}: </span><span dir="auto">{l.name}</span></p>)}
        {Object.values(e.virtualLocations ?? {}).map((l) => <p><a href={l.uri} target="_blank" rel="noopener noreferrer">{ti("meet")}</a> <span class="quiet">{new URL(l.uri).host}</span></p>)}
        {asked && e.status !== "cancelled" && <Conflicts e={e} />}
        <Attached account={account.value} links={e.links} />
        {e.method !== "reply" && guests.length > 0 && (
          <details>
            <summary>{ti("guests", guests.length)}</summary>
            <ul>{guests.map((p) => <li><span dir="auto" title={p.email}>{nameOf(p)}</span> <span class="quiet">{ti(p === me && now ? now : (p.participationStatus ?? "needs-action"))}</span></li>)}</ul>
          </details>
        )}
        {events.value.length > 1 && <p class="quiet">{ti("more", events.value.length - 1)}</p>}
        {asked && e.status !== "cancelled" && (
          <div class="ends">
            {now && <span role="status">{ti(answers.find((a) => a.answer === now)!.you)}</span>}
            {now && <span class="quiet">{ti("change")}</span>}
            {answers.filter((a) => a.answer !== now).map((a) => <button key={a.answer} class={`button ${!now && a.answer === "accepted" ? "primary" : ""}`} onClick={() => void give(a)}>{!now && a.answer === "accepted" && <Icon name="check" />}{ti(a.word)}</button>)}
          </div>
        )}
      </div>
    </section>
  );
}
