// Senders: what the server found out about them, the ones that are blocked, and the lists that one leaves.

import { signal } from "@preact/signals";
import type { Address, Id, Message } from "../jmap/types";
import { pointer, refusalIn, Refused } from "../jmap/client";
import * as db from "./db";
import { messages } from "./messages";
import { attempt, client, home } from "./session";

/** The receiving server's verdict on the domain of the author. */
export interface Verdict {
  result: "pass" | "fail";
  domain: string;
}

/** Reads what the first Authentication-Results field, which is of the last server, says of DMARC; null: nothing that helps. */
export function verdictOf(m: Message): Verdict | null {
  const text = (m["header:Authentication-Results:asRaw:all"]?.[0] ?? "").replace(/\([^()]*\)/gu, " ");
  const found = /;\s*dmarc=(pass|fail)\b[^;]*\bheader\.from=([\w.-]+)/iu.exec(text);
  const from = m.from?.length === 1 ? (m.from[0]!.email.toLowerCase().split("@")[1] ?? "") : "";
  if (!found) return null;
  const result = found[1]!.toLowerCase() as Verdict["result"], domain = found[2]!.toLowerCase();
  if (result === "fail") return { result, domain };
  return from && (from === domain || from.endsWith(`.${domain}`)) ? { result, domain: from } : null;
}

/** The blocked senders; null: not read yet. */
export const blocked = signal<Set<string> | null>(null);

export async function readBlocked(): Promise<void> {
  const answer = await attempt(() => client.call("BlockedSenders/get", { accountId: home.value, ids: null }));
  if (answer) blocked.value = new Set(Object.keys((answer["list"] as { senders: Record<string, true> }[])[0]?.senders ?? {}));
}

/** Blocks a sender, or ends that; false: the server was not reached. */
export async function block(sender: string, on: boolean): Promise<boolean> {
  const key = sender.toLowerCase();
  const path = `senders/${pointer(key)}`;
  const answer = await attempt(() => client.call("BlockedSenders/set", { accountId: home.value, update: { singleton: { [path]: on || null } } }));
  if (!answer) return false;
  const problem = refusalIn(answer);
  if (problem) throw new Refused(problem.type, problem.description);
  const next = new Set(blocked.value ?? []);
  if (on) next.add(key);
  else next.delete(key);
  if (blocked.value) blocked.value = next;
  return true;
}

/** A way to leave the list of a message. */
export type Way = { kind: "request"; host: string } | { kind: "mail"; url: string } | { kind: "page"; url: string };

/** The ways to leave the list of a message (RFC 2369 §3.2, RFC 8058), the shortest first. */
export function waysOf(m: Message): Way[] {
  const urls = m["header:List-Unsubscribe:asURLs"] ?? [];
  const page = urls.find((url) => URL.canParse(url) && new URL(url).protocol === "https:");
  const mail = urls.find((url) => /^mailto:/iu.test(url));
  const request = page && /^\s*List-Unsubscribe=One-Click\s*$/iu.test(m["header:List-Unsubscribe-Post:asText"] ?? "");
  return [
    ...(request ? [{ kind: "request", host: new URL(page).host } as const] : []),
    ...(mail ? [{ kind: "mail", url: mail } as const] : []),
    ...(page ? [{ kind: "page", url: page } as const] : []),
  ];
}

/** Has the server leave the list of a message by one request; "unproven": the message does not prove that its sender offers it. */
export async function leaveAtOnce(email: Id): Promise<"left" | "unproven" | "offline"> {
  try {
    const answer = await attempt(() => client.call("Email/unsubscribe", { accountId: home.value, emailId: email }));
    return answer ? "left" : "offline";
  } catch (e) {
    if (e instanceof Refused && e.type === "noOneClick") return "unproven";
    throw e;
  }
}

/** A message of which all is known without asking the server. */
export async function atHand(id: Id): Promise<Message | undefined> {
  return messages.value.get(id) ?? (await db.get<Message>("messages", id));
}

/** The address that can be blocked: that of the only author, if it is not one's own. */
export function blockable(from: Address[] | null, own: Set<string>): string {
  const address = from?.length === 1 ? from[0]!.email.toLowerCase() : "";
  return address.includes("@") && !own.has(address) ? address : "";
}
