// Links to addresses of mail.

import type { Asked } from "./writing";

/** Reads a mailto: link (RFC 6068); what it may not set is left out. */
export function mailto(link: string): Asked | undefined {
  const m = /^mailto:([^?]*)(?:\?(.*))?$/isu.exec(link);
  if (!m) return undefined;
  const decoded = (s: string) => {
    try {
      return decodeURIComponent(s);
    } catch {
      return s; // a "%" that stands for itself
    }
  };
  const addresses = (s: string) => s.split(",").map((a) => decoded(a).trim()).filter(Boolean).map((email) => ({ name: null, email }));
  const asked: Extract<Asked, { kind: "new" }> = { kind: "new", to: addresses(m[1] ?? "") };
  for (const part of (m[2] ?? "").split("&")) {
    const at = part.indexOf("=");
    const [name, value] = at < 0 ? [part, ""] : [part.slice(0, at), part.slice(at + 1)];
    switch (name?.toLowerCase()) {
      case "to": asked.to = [...asked.to!, ...addresses(value)]; break;
      case "cc": asked.cc = addresses(value); break;
      case "bcc": asked.bcc = addresses(value); break;
      case "subject": asked.subject = decoded(value).replace(/[\r\n]+/gu, " "); break;
      case "body": asked.text = decoded(value); break;
    }
  }
  return asked;
}
