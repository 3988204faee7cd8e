// Texts of one part of the client, which come with the code of that part.

import { language, type Language } from ".";

/** Returns what says a text of the part in the language of the client, with values for {0}, {1} …. */
export function texts<Key extends string>(of: Record<Language, Record<Key, string>>): (key: Key, ...values: (string | number)[]) => string {
  return (key, ...values) => of[language.value][key].replace(/\{(\d)\}/gu, (_, n: string) => String(values[Number(n)] ?? ""));
}
