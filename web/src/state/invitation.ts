// Invitations in mail: what the server reads of them (CalendarEvent/parse), and the answers to them (iTIP and iMIP, RFC 5546, RFC 6047).

import type { Link } from "../jmap/calendar";
import type { Address, Id, Identity } from "../jmap/types";
import { base64, dateField, mailbox, subjectText } from "./fields";
import { client } from "./session";
import { instant, isZone } from "./zone";

/** An event of JSCalendar (RFC 8984), as far as the client shows it. */
export interface Event {
  uid?: string;
  method?: string;
  sequence: number;
  title?: string;
  description?: string;
  start?: string;
  timeZone?: string | null;
  duration?: string;
  showWithoutTime?: boolean;
  status?: string;
  locations?: Record<Id, { name: string }>;
  virtualLocations?: Record<Id, { uri: string }>;
  links?: Record<Id, Link>;
  replyTo?: { imip: string };
  participants?: Record<Id, Participant>;
  recurrenceId?: string;
  recurrenceIdTimeZone?: string;
  recurrenceRules?: { frequency: string; interval?: number; count?: number; until?: string }[];
  utcStart?: string;
  utcEnd?: string;
}

export interface Participant {
  name?: string;
  email?: string;
  roles: Record<string, boolean>;
  participationStatus?: Status;
}

export type Status = "accepted" | "tentative" | "declined" | "needs-action" | "delegated";
export type Answer = "accepted" | "tentative" | "declined";

/** Reads the events of a part of a message; [] where it has none. */
export async function readEvents(account: Id, blob: Id): Promise<Event[]> {
  const answer = await client.call("CalendarEvent/parse", { accountId: account, blobIds: [blob] });
  return ((answer["parsed"] as Record<Id, Event[]> | null)?.[blob] ?? []).map(sound);
}

const isTime = (local: string | undefined) => local !== undefined && !Number.isNaN(Date.parse(local.endsWith("Z") ? local : `${local}Z`));

/** An event without what this browser cannot show: years that it cannot count, time zones and addresses that it does not know. */
function sound(e: Event): Event {
  const out = { ...e };
  if (!isTime(out.start)) delete out.start;
  if (!isTime(out.utcStart) || !isTime(out.utcEnd)) {
    delete out.utcStart;
    delete out.utcEnd;
  }
  if (!isTime(out.recurrenceId)) delete out.recurrenceId;
  if (!isZone(out.timeZone)) delete out.timeZone;
  if (!isZone(out.recurrenceIdTimeZone)) delete out.recurrenceIdTimeZone;
  if (out.recurrenceRules) out.recurrenceRules = out.recurrenceRules.map(({ until, ...r }) => (isTime(until) ? { ...r, until: until! } : r));
  if (out.virtualLocations) out.virtualLocations = Object.fromEntries(Object.entries(out.virtualLocations).filter(([, l]) => URL.canParse(l.uri)));
  return out;
}

/** The address that an answer goes to. */
export function organizer(e: Event): Address | null {
  const to = /^mailto:([^?\s<>,;:"\u0000-\u001f\u007f]+@[^?\s<>,;:"\u0000-\u001f\u007f]+)(?:\?|$)/iu.exec(e.replyTo?.imip ?? "")?.[1];
  if (!to) return null;
  const known = Object.values(e.participants ?? {}).find((p) => p.email?.toLowerCase() === to.toLowerCase());
  return { name: known?.name ?? null, email: to };
}

export const text = (s: string) => s.replace(/[\\;,]/gu, "\\$&").replace(/\r?\n/gu, "\\n");
export const quoted = (s: string) => `"${s.replace(/\^/gu, "^^").replace(/"/gu, "^'").replace(/\r?\n/gu, "^n")}"`;
export const basic = (iso: string) => iso.replace(/[-:]/gu, "").replace(/\.\d+/u, "");

/** Lines of an iCalendar object, folded at 75 bytes (RFC 5545 §3.1): nothing that strangers wrote makes a line of its own. */
export function fold(lines: string[]): string {
  const encoder = new TextEncoder();
  return lines.map((line) => {
    let out = "", room = 75;
    for (const c of line.replace(/[\u0000-\u001f\u007f]/gu, "")) {
      const n = encoder.encode(c).length;
      if (n > room) {
        out += "\r\n ";
        room = 74;
      }
      out += c;
      room -= n;
    }
    return `${out}\r\n`;
  }).join("");
}

/** The moments of an event, as its answer names them: in UTC, so that no time zone has to be explained. */
function moments(e: Event): string[] {
  const out: string[] = [];
  const line = (name: string, local: string, at: string | undefined) => out.push(e.showWithoutTime ? `${name};VALUE=DATE:${basic(local.slice(0, 10))}` : `${name}:${basic(at ?? local)}`);
  if (e.start) line("DTSTART", e.start, e.utcStart);
  if (e.recurrenceId) line("RECURRENCE-ID", e.recurrenceId, e.recurrenceIdTimeZone && new Date(instant(e.recurrenceId, e.recurrenceIdTimeZone)).toISOString());
  return out;
}

/** The answer to an invitation, as an iCalendar object. */
export function reply(e: Event, me: Address, answer: Answer, now: Date): string {
  return fold([
    "BEGIN:VCALENDAR", "PRODID:-//Doublet//EN", "VERSION:2.0", "METHOD:REPLY", "BEGIN:VEVENT",
    `UID:${text(e.uid ?? "")}`, `SEQUENCE:${e.sequence}`, `DTSTAMP:${basic(now.toISOString())}`,
    `ORGANIZER:${e.replyTo?.imip ?? ""}`,
    `ATTENDEE;PARTSTAT=${answer.toUpperCase()}${me.name ? `;CN=${quoted(me.name)}` : ""}:mailto:${me.email}`,
    ...moments(e), ...(e.title ? [`SUMMARY:${text(e.title)}`] : []),
    "END:VEVENT", "END:VCALENDAR",
  ]);
}

const lines76 = (s: string) => s.replace(/.{76}/gu, "$&\r\n");

/** The message that brings an answer to who invited. */
export function answerMessage(e: Event, from: Identity, to: Address, answer: Answer, words: { subject: string; text: string }, id: string, answers: string | undefined, now: Date): string {
  const boundary = `doublet-${id.split("@")[0]}`;
  const part = (type: string, body: string) => `--${boundary}\r\nContent-Type: ${type}\r\nContent-Transfer-Encoding: base64\r\n\r\n${lines76(base64(body))}\r\n`;
  const me = { name: from.name || null, email: from.email };
  return [
    `From: ${mailbox(me)}`, `To: ${mailbox(to)}`, `Subject: ${subjectText(words.subject)}`, `Date: ${dateField(now)}`, `Message-ID: <${id}>`,
    ...(answers ? [`In-Reply-To: <${answers}>`, `References: <${answers}>`] : []),
    "MIME-Version: 1.0", `Content-Type: multipart/alternative; boundary="${boundary}"`, "", "",
  ].join("\r\n") + part("text/plain; charset=utf-8", `${words.text}\r\n`) + part("text/calendar; charset=utf-8; method=REPLY", reply(e, me, answer, now)) + `--${boundary}--\r\n`;
}
