// Messages that the server keeps and sends at a time (RFC 4865, RFC 8621 §7).

import { ref } from "../jmap/client";
import type { Address, Id } from "../jmap/types";
import { outgoing } from "./outgoing";
import { sync } from "./sync";
import { client, home, session } from "./session";

/** The latest time at which the server sends a message that it gets now; null: it sends none later. */
export function latest(): Date | null {
  const offer = session.value?.accounts[home.value]?.accountCapabilities["urn:ietf:params:jmap:submission"] as { maxDelayedSend?: number } | undefined;
  return offer?.maxDelayedSend ? new Date(client.now().getTime() + offer.maxDelayedSend * 1000) : null;
}

const at = (now: Date, days: number, hour: number) => new Date(now.getFullYear(), now.getMonth(), now.getDate() + days, hour);

/** The times that are offered: tomorrow at 8 and 13 o'clock, next Monday at 8. */
export function offered(now = client.now()): { name: "tomorrowMorning" | "tomorrowAfternoon" | "mondayMorning"; at: Date }[] {
  const toMonday = (8 - now.getDay()) % 7 || 7;
  const all = [{ name: "tomorrowMorning", at: at(now, 1, 8) }, { name: "tomorrowAfternoon", at: at(now, 1, 13) }, { name: "mondayMorning", at: at(now, toMonday, 8) }] as const;
  const end = latest();
  return all.filter((o, i) => end && o.at <= end && !(i === 2 && toMonday === 1));
}

/** A message that waits for its time. */
export interface Held {
  id: Id;
  email: Id;
  at: string;
  subject: string | null;
  to: Address[];
}

/** Reads the messages that wait, the next first; with email that one alone. */
export async function readHeld(email?: Id): Promise<Held[]> {
  const accountId = home.value;
  const answers = await client.calls([
    ["EmailSubmission/query", { accountId, filter: { undoStatus: "pending", ...(email ? { emailIds: [email] } : {}) }, sort: [{ property: "sentAt", isAscending: true }] }, "q"],
    ["EmailSubmission/get", { accountId, "#ids": ref("q", "EmailSubmission/query", "/ids"), properties: ["id", "emailId", "sendAt"] }, "s"],
    ["Email/get", { accountId, "#ids": ref("s", "EmailSubmission/get", "/list/*/emailId"), properties: ["id", "subject", "to", "cc", "bcc"] }, "e"],
  ]);
  const emails = new Map((answers.get("e")!["list"] as { id: Id; subject: string | null; to: Address[] | null; cc: Address[] | null; bcc: Address[] | null }[]).map((e) => [e.id, e]));
  const held = (answers.get("s")!["list"] as { id: Id; emailId: Id; sendAt: string }[]).map((s) => {
    const e = emails.get(s.emailId);
    return { id: s.id, email: s.emailId, at: s.sendAt, subject: e?.subject ?? null, to: [...(e?.to ?? []), ...(e?.cc ?? []), ...(e?.bcc ?? [])] };
  });
  const now = client.now();
  return held.filter((h) => new Date(h.at) > now).sort((a, b) => (a.at < b.at ? -1 : 1));
}

/** Takes a message back, which becomes a draft again; false: it was sent. */
export async function cancelHeld(h: Held): Promise<boolean> {
  const { drafts, sent } = outgoing.value;
  const answer = await client.call("EmailSubmission/set", {
    accountId: home.value, update: { [h.id]: { undoStatus: "canceled" } },
    onSuccessUpdateEmail: { [h.id]: { [`mailboxIds/${sent}`]: null, [`mailboxIds/${drafts}`]: true, "keywords/$draft": true } },
  });
  void sync();
  return h.id in ((answer["updated"] as Record<Id, unknown> | null) ?? {});
}
