// The attachments of events: links of JSCalendar (RFC 8984 §4.2.7), of which those that the server keeps have a blobId.

import type { Link } from "../jmap/calendar";
import type { Id } from "../jmap/types";
import { client } from "./session";

/** The most of one file in bytes, and the most files of an event: those of the server (groupware.MaxAttachment, MaxAttachments). */
export const maxFile = 10 << 20;
export const maxFiles = 50;

/** saves: the browser saves what the address leads to; else it is a page of somebody else. */
export interface Attached {
  id: Id;
  name: string;
  size: number | null;
  url: string;
  saves: boolean;
  /** The host of a link, "" for what is saved: the name is the organizer's, who may be a stranger. */
  host: string;
  pdf: boolean;
}

const lastOf = (href: string) => {
  const name = new URL(href).pathname.split("/").pop()!;
  try {
    return decodeURIComponent(name) || href;
  } catch {
    return name;
  }
};

/** The size of what a data: address in base64 holds. */
const sizeOf = (data: string) => Math.floor(((data.replace(/=+$/u, "").length - data.indexOf(",") - 1) * 3) / 4);

function read(account: Id, id: Id, l: Link): Attached | null {
  const kept = l.blobId;
  if (!kept && l.rel !== "enclosure") return null;
  const data = !kept && l.href?.startsWith("data:");
  if (!kept && !data && !(l.href && /^https?:/iu.test(l.href) && URL.canParse(l.href))) return null;
  const type = l.contentType ?? "application/octet-stream";
  const name = l.title || (kept || data ? type : lastOf(l.href!));
  return { id, name, size: l.size ?? (data ? sizeOf(l.href!) : null), url: kept ? client.blobURL(account, kept, type, name) : l.href!, saves: !!kept || !!data, host: kept || data ? "" : new URL(l.href!).host, pdf: !!kept && type === "application/pdf" };
}

/** The attachments among the links of an event, without those that no browser may open. */
export const attachedOf = (account: Id, links: Record<Id, Link> | null | undefined): Attached[] =>
  Object.entries(links ?? {}).flatMap(([id, l]) => read(account, id, l) ?? []);
