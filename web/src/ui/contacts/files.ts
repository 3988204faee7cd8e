// Contacts from .vcf files, and address books into them.

import { groups, people, syncContacts, type Book } from "../../state/cards";
import { say } from "../../state/screen";
import { client } from "../../state/session";
import { largestFile, readCards } from "../../state/vcard";
import { writeCards } from "../../state/vcardwrite";
import { count, size, t } from "../../text";
import { tn } from "../../text/contacts";
import { saveFile } from "../savefile";
import type { SetError } from "../../jmap/types";

/** So many contacts are created in one call. */
const piece = 100;

export function chooseFile(to: Book): void {
  const input = document.createElement("input");
  input.type = "file";
  input.accept = ".vcf,text/vcard,text/x-vcard";
  input.onchange = () => {
    const file = input.files?.[0];
    if (file) void takeFile(file, to);
  };
  input.click();
}

async function takeFile(file: File, to: Book): Promise<void> {
  if (file.size > largestFile) return void say(tn("tooLarge", size(largestFile)));
  const cards = readCards(await file.text());
  if (cards.length === 0) return void say(tn("noCards"));
  let done = 0, refused = 0, why = "";
  try {
    for (let i = 0; i < cards.length; i += piece) {
      const create = Object.fromEntries(cards.slice(i, i + piece).map((c, n) => [`c${n}`, { ...c, addressBookIds: { [to.id]: true } }]));
      const answer = await client.call("ContactCard/set", { accountId: to.account, create });
      done += Object.keys((answer["created"] ?? {}) as object).length;
      const bad = Object.values((answer["notCreated"] ?? {}) as Record<string, SetError>);
      refused += bad.length;
      if (bad[0]) why = bad[0].description ?? bad[0].type;
    }
    say(refused > 0 ? tn("notImported", count(done), count(refused), why) : tn("imported", count(done)), undefined, 10);
  } catch (e) {
    say(e instanceof Error ? t("refusedByServer", e.message) : t("cannotReach"));
  }
  await syncContacts();
  return undefined;
}

/** The data: address of a picture that the server has; "" where it cannot be read. */
async function pictureData(url: string): Promise<string> {
  if (!url || url.startsWith("data:")) return url;
  const blob = await client.fetch(url).then((r) => (r.ok ? r.blob() : undefined), () => undefined);
  if (!blob) return "";
  return new Promise((done) => {
    const reader = new FileReader();
    reader.onload = () => done(String(reader.result));
    reader.onerror = () => done("");
    reader.readAsDataURL(blob);
  });
}

/** Saves an address book as a .vcf file. */
export async function exportBook(b: Book): Promise<void> {
  const list = [...people.value, ...groups.value].filter((c) => c.account === b.account && c.card.addressBookIds[b.id]);
  const cards = [];
  for (const c of list) cards.push({ card: c.card, picture: await pictureData(c.picture) });
  saveFile(writeCards(cards), "text/vcard", `${b.name}.vcf`);
}
