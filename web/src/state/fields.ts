// Header fields of messages that the client makes itself (RFC 5322), in encoded words where they are not plain (RFC 2047).

import type { Address } from "../jmap/types";

const plain = (text: string) => /^[ -~]*$/u.test(text);

/** A text as encoded words of 75 bytes at most, one to a line. */
function encodedWords(text: string): string {
  const words: string[] = [];
  let part = "";
  const encoder = new TextEncoder();
  for (const c of [...text.replace(/[\u0000-\u001f\u007f]/gu, " "), ""]) {
    if (part && (c === "" || encoder.encode(part + c).length > 42)) {
      words.push(`=?UTF-8?B?${base64(part)}?=`);
      part = "";
    }
    part += c;
  }
  return words.join("\r\n ");
}

/** UTF-8 in base64. */
export function base64(text: string): string {
  let bytes = "";
  for (const b of new TextEncoder().encode(text)) bytes += String.fromCharCode(b);
  return btoa(bytes);
}

/** A name before an address. */
export const phrase = (text: string) => (plain(text) ? `"${text.replace(/["\\]/gu, "\\$&")}"` : encodedWords(text));

/** The text of a Subject: encoded where it is not plain, or too long for a line. */
export const subjectText = (text: string) => (plain(text) && text.length < 900 && !text.includes("=?") ? text : encodedWords(text));

export const mailbox = (a: Address) => (a.name ? `${phrase(a.name)} <${a.email}>` : a.email);

/** A date as a Date field has it. */
export const dateField = (d: Date) => d.toUTCString().replace("GMT", "+0000");
