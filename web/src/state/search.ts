// Searches. The server alone parses the text of the search box (urn:doublet:jmap:search, doc/jmap.md): this module passes the text on
// and holds the server's interpretation of it.

import { signal } from "@preact/signals";
import type { Filter, Id } from "../jmap/types";

/** A part of a search as the server understood it; start and end delimit it in the text. */
export interface Term {
  kind: string;
  value?: string;
  not: boolean;
  start: number;
  end: number;
  of?: Term[];
}

export interface Understood {
  text: string;
  terms: Term[];
  notUnderstood: { reason: "operator" | "value" | "empty" | "words" | "folder" | "offline"; text: string; start: number; end: number }[];
  /** Searched without the server, in so many messages. */
  kept?: number;
}

/** The interpretation of the search that the list shows. */
export const understood = signal<Understood | null>(null);

const asked = (text: string) => ({ text, timeZone: Intl.DateTimeFormat().resolvedOptions().timeZone });

/** The filter of a search: everywhere but Trash and Junk, unless the text names a folder. */
export const searchFilter = (text: string): Filter => ({ searchText: asked(text) });

/** The call that asks for the interpretation of a text. */
export const parseCall = (accountId: Id, text: string, id: string): [string, Record<string, unknown>, string] => ["SearchText/parse", { accountId, ...asked(text) }, id];
