// Deletions of events and contacts: done after some seconds, and taken back until then. They wait in the outbox, where they outlive the
// page; a page that goes asks for them at once.

import { named } from "./objects";
import { intend, removalsAtOnce, takeBack, type Removal } from "./outbox";
import { online } from "./session";

// A browser may drop what a page begins to send when it is hidden already; some fire only that event.
for (const event of ["beforeunload", "pagehide"]) addEventListener(event, removalsAtOnce);

/** Deletes after some seconds, and then calls ended with the refusal. The answer takes it back; false: it is too late. */
export function defer(what: Omit<Removal, "kind" | "at">, seconds: number, ended: (problem: string) => unknown): () => Promise<boolean> {
  const told = (problem?: string) => { if (problem) ended(problem); };
  // Without the server it waits, and a refusal is kept (objects.ts): the person may have gone by then.
  const intended = intend({ kind: "remove", at: Date.now() + seconds * 1000, ...named(what) }, online.value ? told : undefined);
  return async () => (await takeBack((await intended).key)) !== undefined;
}
