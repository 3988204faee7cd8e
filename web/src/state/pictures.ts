// Senders whose pictures are shown without being asked for: of the person, in this browser.

import { computed, signal } from "@preact/signals";
import type { Message } from "../jmap/types";
import { localStorageGet, localStorageSet, person } from "./session";

/** By address: the sender was proven to be who it says when it was allowed, and has to be each time. */
type Allowed = Record<string, { proven: boolean }>;

const changed = signal(0);
const key = computed(() => `doublet:pictures:${person.value.address || person.value.name}`);

export const allowed = computed<Allowed>(() => {
  void changed.value;
  try {
    const kept = JSON.parse(localStorageGet(key.value) ?? "{}") as unknown;
    return kept && typeof kept === "object" && !Array.isArray(kept) ? (kept as Allowed) : {};
  } catch {
    return {}; // what cannot be read is as if it were not there
  }
});

function keep(next: Allowed): void {
  localStorageSet(key.value, JSON.stringify(next));
  changed.value++;
}

const addressOf = (m: Message) => (m.from?.length === 1 ? m.from[0]!.email.toLowerCase() : "");

/** Reports if the receiving server verified the author: DMARC passed, for the domain of the address. */
export function isProven(m: Message): boolean {
  const results = m["header:Authentication-Results:asRaw:all"]?.[0] ?? ""; // the first is the last server's, which is ours
  const found = /;\s*dmarc=pass\b[^;]*\bheader\.from=([\w.-]+)/iu.exec(results.replace(/\([^()]*\)/gu, " "))?.[1]?.toLowerCase();
  const domain = addressOf(m).split("@")[1] ?? "";
  return !!found && !!domain && (domain === found || domain.endsWith(`.${found}`));
}

/** The sender whose pictures could be allowed; "" where it is not known. */
export const senderOf = addressOf;

export function isAllowed(m: Message): boolean {
  const entry = Object.hasOwn(allowed.value, addressOf(m)) ? allowed.value[addressOf(m)] : undefined;
  return !!entry && (!entry.proven || isProven(m));
}

export function allow(m: Message): void {
  const address = addressOf(m);
  if (address) keep({ ...allowed.value, [address]: { proven: isProven(m) } });
}

export function disallow(address: string): void {
  keep(Object.fromEntries(Object.entries(allowed.value).filter(([a]) => a !== address)));
}
