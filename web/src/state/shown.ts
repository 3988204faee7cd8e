// Names of strangers as they are shown beside other text.

import type { Address } from "../jmap/types";

// Control characters, those that turn the direction of what follows, and invisible ones; joiners stay, since scripts and pictures need
// them (ShownName of the server does the same).
const hidden = /[\p{Cc}\p{Bidi_Control}\u00ad\u034f\u115f\u1160\u180e\u200b\u2060-\u206f\u3164\ufeff\uffa0\ufffc\u{e0000}-\u{e007f}]/gu;

/** The name of an address as it is shown, "" where it has none. */
export const plainName = (a: Address) => (a.name ?? "").replace(/\s/gu, " ").replace(hidden, "").trim();

/** The name of an address, else the address. */
export const nameOrAddress = (a: Address) => plainName(a) || a.email;
