// A contact's picture, else the domino of their address.

import type { Contact } from "../../state/cards";
import { Domino } from "../icons";

export function Face({ c, size }: { c: Contact; size: number }) {
  if (c.picture) return <img class="face-photo" src={c.picture} alt="" width={size} height={size} />;
  return <Domino of={Object.values(c.card.emails ?? {})[0]?.address ?? c.name} name={c.name} size={size} />;
}
