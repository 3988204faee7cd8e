// The table of a mail merge in its draft at the server: as a header field, which the server removes when the draft is sent. Other programs
// that go on with a draft drop fields that they do not know, or leave them; a file of the draft they would send to somebody.

import type { Message } from "../jmap/types";
import { base64 } from "./fields";

/** The header field of the draft: UTF-8 in base64. */
const field = "header:Doublet-Merge-Table:asRaw";

/** The most bytes of base64 that a draft keeps: about 75,000 letters of a table. */
const mostKept = 100_000;

/** The table as the field has it; "" where it is too long. */
function encoded(table: string): string {
  const text = table.length <= mostKept ? base64(table) : "";
  return text.length <= mostKept ? text : "";
}

/** Reports if the draft at the server can keep a table, which is not empty. */
export const isKeepable = (table: string): boolean => encoded(table) !== "";

/** The property of the draft that keeps a table, as Email/set takes it; none where it is too long, or empty. */
export function tableField(table: string | undefined): Record<string, string> {
  const text = table ? encoded(table) : "";
  return text ? { [field]: text.replace(/.{1,76}/gu, "\r\n $&") } : {};
}

/** The table that a draft keeps; undefined: none, or what cannot be read. */
export function tableIn(m: Message): string | undefined {
  const text = (m[field] ?? "").replace(/\s+/gu, "");
  if (!text || text.length > mostKept) return undefined;
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(Uint8Array.from(atob(text), (c) => c.charCodeAt(0)));
  } catch {
    return undefined; // it is of somebody else
  }
}
