// Facts read from a message before it is made harmless.

/** A cid as it is in the message; one with a stray "%" is as it is. */
export function unescaped(cid: string): string {
  try {
    return decodeURIComponent(cid);
  } catch {
    return cid;
  }
}

/** The start of the quotation in plain text: lines with ">" at its end, and the line that introduces them. */
export function splitQuoted(text: string): { own: string; quoted: string } {
  const lines = text.trimEnd().split("\n");
  let i = lines.length;
  while (i > 0 && (/^\s*>/u.test(lines[i - 1]!) || lines[i - 1]!.trim() === "")) i--;
  if (i === lines.length || !lines.slice(i).some((l) => l.startsWith(">"))) return { own: text, quoted: "" };
  if (i > 0 && lines[i - 1]!.trimEnd().endsWith(":")) i--;
  return { own: lines.slice(0, i).join("\n"), quoted: lines.slice(i).join("\n") };
}
