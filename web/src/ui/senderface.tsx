// The picture of the sender of an opened message: the photo of a contact, the logo of a verified domain, or a domino with initials.

import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import type { Message } from "../jmap/types";
import { logoOf, photoOf } from "../state/photos";
import { verdictOf } from "../state/senders";
import { plainName } from "../state/shown";
import { Domino } from "./icons";

export function SenderFace({ m, size }: { m: Message; size: number }) {
  const sender = m.from?.[0];
  const photo = useSignal<string | null>(null); // null: not known yet
  const broken = useSignal("");
  // A photo beside mail that somebody else sent in the contact's name would vouch for it.
  const trusted = verdictOf(m)?.result !== "fail" && m.from?.length === 1;
  useEffect(() => {
    let there = true;
    void (trusted && sender ? photoOf(sender.email) : Promise.resolve("")).then((url) => {
      if (there) photo.value = url;
    });
    return () => { there = false; };
  }, [m.id]);
  const src = photo.value || (photo.value === "" && trusted ? logoOf(m) : "");
  if (src && src !== broken.value) return <img class={photo.value ? "face-photo" : "face-photo logo"} src={src} alt="" width={size} height={size} onError={() => (broken.value = src)} />;
  return <Domino of={sender?.email ?? ""} name={sender && plainName(sender)} size={size} />;
}
