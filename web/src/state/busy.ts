// The busy times of an event's people (Principal/getAvailability).

import type { BusyPeriod } from "../jmap/calendar";
import { ref, Refused } from "../jmap/client";
import type { Address, Call, Id } from "../jmap/types";
import { attempt, client, home } from "./session";

export interface Busy {
  from: number;
  to: number;
  tentative: boolean;
}

/** The busy times of people by their address; null: nobody here knows them. */
export type BusyTimes = Map<string, Busy[] | null>;

/** The answers about people: away has those whose server does not answer, with the moment of which their times are; null: it is not known. */
export interface Asked {
  times: BusyTimes;
  away: Map<string, number | null>;
}

const utc = (at: number) => new Date(at).toISOString().replace(/\.\d+Z$/u, "Z");

/** The principals of addresses (RFC 9670), as far as the directory has them. */
async function principalsOf(emails: string[]): Promise<Map<string, Id>> {
  const answers = await client.calls(emails.flatMap((email, i): Call[] => [
    ["Principal/query", { accountId: home.peek(), filter: { email }, limit: 1 }, `q${i}`],
    ["Principal/get", { accountId: home.peek(), "#ids": ref(`q${i}`, "Principal/query", "/ids"), properties: ["email"] }, `g${i}`],
  ]));
  const out = new Map<string, Id>();
  emails.forEach((email, i) => {
    const found = (answers.get(`g${i}`)!["list"] as { id: Id; email: string | null }[])[0];
    if (found?.email?.toLowerCase() === email) out.set(email, found.id);
  });
  return out;
}

const known = new Map<string, Id | null>();

/** Notes the principal of an address that a search has told. */
export const knowPrincipal = (email: string, id: Id): void => void known.set(email.toLowerCase(), id);

/** So many people are asked about in one request: each takes two calls. */
const atOnce = 8;

async function learn(emails: string[]): Promise<void> {
  const fresh = emails.filter((e) => !known.has(e));
  for (let i = 0; i < fresh.length; i += atOnce) {
    const piece = fresh.slice(i, i + atOnce);
    const found = await principalsOf(piece);
    for (const e of piece) known.set(e, found.get(e) ?? null);
  }
}

/** Asks when people are busy between two moments; undefined: the server did not answer, or may later. */
export async function askBusy(people: Address[], from: number, to: number): Promise<Asked | undefined> {
  const emails = [...new Set(people.map((a) => a.email.toLowerCase()))];
  return attempt(async () => {
    await learn(emails);
    const times: BusyTimes = new Map(emails.map((e) => [e, null]));
    const away: Asked["away"] = new Map();
    const here = emails.filter((e) => known.get(e));
    for (let i = 0; i < here.length; i += atOnce) {
      const piece = here.slice(i, i + atOnce);
      const answers = await client.calls(piece.map((e): Call => ["Principal/getAvailability", { accountId: home.peek(), id: known.get(e), utcStart: utc(from), utcEnd: utc(to), showDetails: false }, e]));
      for (const e of piece) {
        const { list, fromReplica } = answers.get(e)! as { list: BusyPeriod[]; fromReplica?: { asOf: string | null } };
        times.set(e, list.map((b) => ({ from: Date.parse(b.utcStart), to: Date.parse(b.utcEnd), tentative: b.busyStatus === "tentative" })));
        if (fromReplica) away.set(e, fromReplica.asOf === null ? null : Date.parse(fromReplica.asOf));
      }
    }
    return { times, away };
  }).catch((e: unknown) => {
    if (e instanceof Refused && e.later !== undefined) return undefined;
    return { times: new Map(emails.map((e) => [e, null])), away: new Map() }; // a server that does not say when people are busy
  });
}

const overlaps = (b: Busy, from: number, to: number) => b.from < to && b.to > from;

/** The people who are busy at a time. */
export const busyAt = (times: BusyTimes, from: number, to: number): string[] => [...times].filter(([, list]) => list?.some((b) => overlaps(b, from, to))).map(([email]) => email);

/** The first time after one at which nobody is busy, in steps of half an hour; isGood leaves out nights and weekends. */
export function nextFree(times: BusyTimes, from: number, length: number, until: number, isGood: (at: number) => boolean): number | undefined {
  const step = 30 * 60_000;
  for (let at = Math.ceil((from + 1) / step) * step; at + length <= until; at += step) {
    if (isGood(at) && isGood(at + length - 1) && busyAt(times, at, at + length).length === 0) return at;
  }
  return undefined;
}
