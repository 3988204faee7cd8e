// Possible recipients: people whom one had to do with, the own contacts, and people and groups of the directory.

import { signal } from "@preact/signals";
import { ref } from "../jmap/client";
import type { Address, Call } from "../jmap/types";
import { rows } from "./messages";
import { client, offers, home, online } from "./session";

/** People whom one had to do with, most often first. */
export function known(): Address[] {
  const seen = new Map<string, { a: Address; n: number }>();
  for (const r of rows.value.values()) {
    for (const a of [...(r.from ?? []), ...(r.to ?? [])]) {
      const e = seen.get(a.email.toLowerCase());
      if (e) {
        e.n++;
        if (!e.a.name && a.name) e.a = a;
      } else seen.set(a.email.toLowerCase(), { a, n: 1 });
    }
  }
  return [...seen.values()].sort((x, y) => y.n - x.n).map((x) => x.a);
}

const principals = "urn:ietf:params:jmap:principals";
const contacts = "urn:ietf:params:jmap:contacts";

/** The calls that look a text up in the person's contacts (RFC 9610), and in the directory (RFC 9670). */
function lookUp(text: string): Call[] {
  const accountId = home.peek();
  const inContacts: Call[] = [
    ["ContactCard/query", { accountId, filter: { text }, limit: 8 }, "cq"],
    ["ContactCard/get", { accountId, "#ids": ref("cq", "ContactCard/query", "/ids"), properties: ["name", "emails"] }, "c"],
  ];
  const inDirectory: Call[] = [
    ["Principal/query", { accountId, filter: { text }, limit: 8 }, "q"],
    ["Principal/get", { accountId, "#ids": ref("q", "Principal/query", "/ids"), properties: ["name", "email"] }, "g"],
  ];
  return [...(offers(contacts) ? inContacts : []), ...(offers(principals) ? inDirectory : [])];
}

interface Named {
  name?: { full?: string; components?: { kind: string; value: string }[] };
  emails?: Record<string, { address: string }> | null;
}

/** The addresses of a contact, each with its name. */
function addressesOf(c: Named): Address[] {
  const name = c.name?.full || (c.name?.components ?? []).filter((x) => x.kind === "given" || x.kind === "surname").map((x) => x.value).join(" ");
  return Object.values(c.emails ?? {}).map(({ address }) => ({ name: name || null, email: address }));
}

/** The person's contacts, and people and groups of the directory, that a text fits; none where the server cannot be asked. */
export async function listed(text: string, signal: AbortSignal): Promise<Address[]> {
  const calls = lookUp(text);
  if (!online.peek() || calls.length === 0) return [];
  try {
    const answers = await client.calls(calls, signal);
    const own = ((answers.get("c")?.["list"] ?? []) as Named[]).flatMap(addressesOf);
    return [...own, ...((answers.get("g")?.["list"] ?? []) as { name: string; email: string }[]).map(({ name, email }) => ({ name, email }))];
  } catch {
    return []; // it is a help and no more: what was typed is good without it
  }
}

/** Addresses that were asked about: true where nobody here has them. It lasts as long as the page. */
const nobodys = signal(new Map<string, boolean>());

/** Reports if the server answered that nobody has an address. */
export const isNobodys = (email: string): boolean => nobodys.value.get(email.toLowerCase()) === true;

/** Asks about addresses that were not asked about yet. What cannot be asked is good: the server tells it when it is sent. */
export async function check(emails: string[]): Promise<void> {
  const fresh = emails.map((e) => e.toLowerCase()).filter((e) => !nobodys.peek().has(e));
  if (fresh.length === 0 || !online.peek()) return;
  try {
    const answer = await client.call("Recipient/check", { accountId: home.peek(), addresses: fresh });
    const bad = new Set(answer["unknown"] as string[]);
    nobodys.value = new Map([...nobodys.peek(), ...fresh.map((e): [string, boolean] => [e, bad.has(e)])]);
  } catch {
    // it is a help and no more
  }
}

/** Those known first, then those of the directory, each address once. */
export function merged(text: string, more: Address[], without: Address[]): Address[] {
  const words = text.toLowerCase();
  const seen = new Set(without.map((a) => a.email.toLowerCase()));
  const out: Address[] = [];
  for (const a of [...known().filter((k) => `${k.name ?? ""} ${k.email}`.toLowerCase().includes(words)), ...more]) {
    const key = a.email.toLowerCase();
    if (seen.has(key)) continue;
    seen.add(key);
    out.push(a);
  }
  return out.slice(0, 8);
}
