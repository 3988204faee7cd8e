// Which keyword stands for a label.

/** The keyword of a label (RFC 8621 §4.1.1): small ASCII letters as far as the name has such, else a number made of it. */
export function keywordOf(name: string): string {
  const plain = name.trim().toLowerCase().normalize("NFKD").replace(/\p{M}/gu, "").replaceAll("ß", "ss").replace(/[^!#$&'+,\-./0-9:;<=>?@[^_`a-z|}~]+/gu, "-").replace(/^[$-]+|-+$/gu, "").slice(0, 255);
  if (plain || !name.trim()) return plain;
  let h = 2166136261;
  for (const c of name.trim()) h = Math.imul(h ^ c.codePointAt(0)!, 16777619);
  return `label-${(h >>> 0).toString(36)}`;
}
