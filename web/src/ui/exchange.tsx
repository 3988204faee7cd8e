// Importing mail from files that are dropped or chosen, and exporting folders.

import { exportURL, importFiles, importing } from "../state/exchange";
import { mailboxes } from "../state/mailboxes";
import { say } from "../state/screen";
import { count, t } from "../text";
import { tx } from "../text/files";
import { roleName } from "./side";

/** Imports files into a folder, and says how that went. */
export async function takeFiles(files: File[], mailbox: string): Promise<void> {
  const box = mailboxes.value.get(mailbox);
  if (files.length === 0 || !box || importing.value) return;
  let end = () => undefined as unknown;
  const stop = importing.subscribe((now) => {
    if (!now || now.of < 2) return;
    end();
    end = say(tx("importing", count(now.done), count(now.of)), undefined, 600);
  });
  try {
    const { done, refused, why, unfit } = await importFiles(files, mailbox);
    end();
    if (unfit) say(tx(unfit.large ? "tooLarge" : "noMail", unfit.name));
    else if (refused > 0) say(tx("notImported", count(done), count(refused), why), undefined, 12);
    if (done > 0 && refused === 0) say(tx("imported", count(done), roleName(box)));
  } catch {
    end();
    say(t("cannotReach"));
  } finally {
    stop();
  }
}

/** Lets the person choose files to import into a folder. */
export function chooseFiles(mailbox: string): void {
  const input = document.createElement("input");
  input.type = "file";
  input.multiple = true;
  input.accept = ".eml,.mbox,.mbx,message/rfc822,application/mbox";
  input.onchange = () => void takeFiles([...(input.files ?? [])], mailbox);
  input.click();
}

/** Saves a folder as an mbox file. */
export function exportFolder(mailbox: string): void {
  const box = mailboxes.value.get(mailbox);
  if (!box) return;
  const a = document.createElement("a");
  a.href = exportURL(mailbox, roleName(box));
  a.download = "";
  a.click();
}
