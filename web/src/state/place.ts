// The place that the list shows.

import { signal } from "@preact/signals";
import type { Filter, Id } from "../jmap/types";
import { searchFilter } from "./search";
import { within } from "./view";

/** A folder, or a search in it (or everywhere). */
export interface Place {
  mailbox: Id;
  search: string;
  /** The filter and the order (view.ts). */
  view?: string;
}

export const place = signal<Place>({ mailbox: "", search: "" });
/** The list shows conversations, each as one row. */
export const byThread = signal(true);

/** The condition that the messages of a place fulfil. */
export function filterOf(where: Place): Filter {
  return within(where.search ? searchFilter(where.search) : { inMailbox: where.mailbox }, where.view);
}
