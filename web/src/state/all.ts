// The progress of a selection of all, and of the server with what was done to many messages.

import { computed, signal } from "@preact/signals";
import { waiting } from "./outbox";

/** The progress of a selection, in messages; null: none is under way. */
export const selecting = signal<{ done: number; of: number } | null>(null);

/** With more changed messages waiting, the progress of the server is shown. */
const many = 100;
let last = 0;
let of = 0;

/** The progress of the server with changes of many messages; null while few wait. */
export const telling = computed(() => {
  let left = 0;
  for (const i of waiting.value) if (i.kind === "change") left += Object.keys(i.update).length + i.destroy.length;
  of = left === 0 ? 0 : of + Math.max(0, left - last);
  last = left;
  return of > many ? { done: of - left, of } : null;
});
