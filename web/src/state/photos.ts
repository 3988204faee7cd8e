// The photos of senders who are among the person's contacts, and the logos of verified senders.

import { ref } from "../jmap/client";
import type { Card } from "../jmap/contacts";
import type { Message } from "../jmap/types";
import { pictureOf } from "./cardform";
import { contactsCapability } from "./cards";
import { verdictOf } from "./senders";
import { account, client, home, offers, online } from "./session";

/** The addresses of photos by the account and the sender's address, "" for none; those asked for last are behind. */
const known = new Map<string, Promise<string>>();
const mostKnown = 500;

async function ask(email: string): Promise<string> {
  const accountId = home.value;
  const answers = await client.calls([
    ["ContactCard/query", { accountId, filter: { email }, limit: 5 }, "q"],
    ["ContactCard/get", { accountId, "#ids": ref("q", "ContactCard/query", "/ids"), properties: ["id", "emails", "media"] }, "g"],
  ]);
  const cards = (answers.get("g")!["list"] as Card[]).filter((c) => Object.values(c.emails ?? {}).some((e) => e.address.toLowerCase() === email));
  return cards.map((c) => pictureOf(c, (id, type) => client.blobURL(accountId, id, type, "photo"))).find(Boolean) ?? "";
}

/** The address of the photo that a contact with an address has; "": there is none. Each is asked for once. */
export function photoOf(address: string): Promise<string> {
  const email = address.toLowerCase();
  const key = `${home.value} ${email}`;
  const before = known.get(key);
  if (before) return before;
  if (!email || !online.peek() || !offers(contactsCapability)) return Promise.resolve("");
  const asked = ask(email).catch(() => {
    known.delete(key);
    return "";
  });
  known.set(key, asked);
  if (known.size > mostKnown) known.delete(known.keys().next().value!);
  return asked;
}

/** The address of the logo of a verified sender; "": the message is not verified, or the server serves no logos. */
export function logoOf(m: Message): string {
  const offered = client.session?.capabilities["urn:doublet:jmap:senders"] as { logos?: boolean } | undefined;
  return offered?.logos && verdictOf(m)?.result === "pass" ? `/jmap/logo/${encodeURIComponent(account.value)}/${encodeURIComponent(m.id)}` : "";
}
