// E-mails of which only a little is known: those that were selected without having been in the list.

import type { Id, Row } from "../jmap/types";

export type Brief = Pick<Row, "mailboxIds" | "keywords">;

/** By e-mail. Their rows, where they are in memory, know better. */
export const briefs = new Map<Id, Brief>();
