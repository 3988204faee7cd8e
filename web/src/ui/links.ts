// Links of a message: where they lead, and those that say otherwise.

/** Endings of names of files, which are no hosts when they stand alone. */
const file = /\.(?:pdf|docx?|xlsx?|pptx?|odt|ods|txt|csv|html?|php|js|ts|md|png|jpe?g|gif|svg|zip|gz|exe|eml|ics|xml|json|log|sh|py|go|rs|net)$/iu;
const host = /^\s*(?:(https?:\/\/)|(www\.)?)((?:[\p{L}\p{N}_-]+\.)+[\p{L}]{2,})(?::\d+)?(?:[/?#]\S*)?\s*$/iu;

const bare = (h: string) => h.toLowerCase().replace(/^www\d?\./u, "").replace(/\.$/u, "");

/** The host that a link's text names, or "". */
export function namedHost(text: string): string {
  const m = host.exec(text.replace(/[\u00ad\u200b-\u200f\u2060\ufeff]/gu, ""));
  if (!m || !m[1] && !m[2] && file.test(m[3]!)) return "";
  try {
    return bare(new URL(`https://${m[3]}`).hostname); // as addresses have it: lower case, ASCII
  } catch {
    return "";
  }
}

export interface Lead {
  /** The target of the link. */
  url: string;
  host: string;
  /** Another host, which its text names; "" where it names none or this one. */
  named: string;
}

/** The target of a link; null if the element is none, or leads to another place in the message. */
export function leadOf(a: Element | null | undefined): Lead | null {
  const href = a?.getAttribute("href");
  if (!href || href.startsWith("#")) return null;
  if (/^mailto:/iu.test(href)) return { url: href, host: "", named: "" };
  let url: URL;
  try {
    url = new URL(href, "https://invalid.invalid");
  } catch {
    return null;
  }
  const named = namedHost(a!.textContent ?? ""), to = bare(url.hostname);
  return { url: url.href, host: url.host, named: named && named !== to && !to.endsWith(`.${named}`) ? named : "" };
}
