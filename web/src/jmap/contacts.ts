// The objects of JMAP Contacts (RFC 9610) and JSContact (RFC 9553) that the client uses.

import type { Id } from "./types";

export interface AddressBook {
  id: Id;
  name: string;
  isDefault: boolean;
  sortOrder: number;
  isSubscribed: boolean;
  myRights: { mayRead: boolean; mayWrite: boolean; mayShare: boolean; mayDelete: boolean };
}

/** A value of which a card has several, by their ids. */
export type Several<T> = Record<Id, T & { "@type"?: string; contexts?: Record<string, boolean>; pref?: number; label?: string }>;

export interface NameComponent {
  kind: string;
  value: string;
}

/** RFC 9553 §2.8.1: a date of which parts may be unknown, or a moment. */
export interface PartialDate {
  "@type"?: string;
  year?: number;
  month?: number;
  day?: number;
  utc?: string;
}

export interface Card {
  id: Id;
  "@type"?: "Card";
  version?: string;
  uid: string;
  kind?: string;
  addressBookIds: Record<Id, boolean>;
  name?: { "@type"?: string; components?: NameComponent[]; isOrdered?: boolean; full?: string };
  nicknames?: Several<{ name: string }> | null;
  organizations?: Several<{ name?: string; units?: { "@type"?: string; name: string }[] }> | null;
  titles?: Several<{ name: string; kind?: string }> | null;
  emails?: Several<{ address: string }> | null;
  phones?: Several<{ number: string; features?: Record<string, boolean> }> | null;
  addresses?: Several<{ components?: NameComponent[]; full?: string; isOrdered?: boolean }> | null;
  links?: Several<{ uri: string; kind?: string }> | null;
  anniversaries?: Several<{ kind: string; date: PartialDate }> | null;
  notes?: Several<{ note: string }> | null;
  media?: Several<{ kind: string; uri?: string; blobId?: Id; mediaType?: string }> | null;
  /** The uids of the people of a group. */
  members?: Record<string, boolean> | null;
}
