// A message that was sent on names who did it beside its author: it is not one that the author sent to the reader directly.

import type { Address, Row } from "../jmap/types";
import { nameOrAddress } from "../state/shown";
import { t } from "../text";

/**
 * The last people who sent it on: the newest Resent-From, with those of the newest Resent-Sender that it does not name (mailbox.Resenders of the
 * server does the same).
 */
function resenders(row: Row): Address[] {
  const from = row["header:Resent-From:asAddresses:all"]?.[0] ?? [];
  const sender = row["header:Resent-Sender:asAddresses:all"]?.[0] ?? [];
  return [...from, ...sender.filter((s) => !from.some((f) => f.email === s.email))];
}

export function SentOn({ of }: { of: Row }) {
  const list = resenders(of);
  if (list.length === 0) return null;
  const text = t("sentOnByName", list.map(nameOrAddress).join(", "));
  return <span class="sent-on" dir="auto" title={list.map((a) => a.email).join(", ")}>{text}</span>;
}
