// Contacts from .vcf files, and address books into them.

import { groups, people, syncContacts, type Book } from "../../state/cards";
import { say } from "../../state/screen";
import { client } from "../../state/session";
import { largestFile, readCards } from "../../state/vcard";
import { writeCards } from "../../state/vcardwrite";
import { count, size } from "../../text";
import { tn } from "../../text/contacts";
import { chooseFile, createAll } from "../importfile";
import { saveFile } from "../savefile";

export const importCards = (to: Book) => chooseFile(".vcf,text/vcard,text/x-vcard", (file) => takeFile(file, to));

async function takeFile(file: File, to: Book): Promise<void> {
  if (file.size > largestFile) return void say(tn("tooLarge", size(largestFile)));
  const cards = readCards(await file.text());
  if (cards.length === 0) return void say(tn("noCards"));
  try {
    const { done, refused, why } = await createAll("ContactCard", to.account, cards.map((c) => ({ ...c, addressBookIds: { [to.id]: true } })));
    say(refused > 0 ? tn("notImported", count(done), count(refused), why) : tn("imported", count(done)), undefined, 10);
  } finally {
    await syncContacts();
  }
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
