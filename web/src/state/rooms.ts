// Rooms and other resources of the directory, which are invited as people are (Room/find).

import { signal } from "@preact/signals";
import type { Participant } from "../jmap/calendar";
import type { Id } from "../jmap/types";
import { knowPrincipal } from "./busy";
import { attempt, client, home, offers } from "./session";

export interface Room {
  id: Id;
  name: string;
  email: string;
  kind: "location" | "resource";
  capacity: number;
  equipment: string[];
  site: string | null;
  hours: string | null;
  timeZone: string | null;
  approval: boolean;
  ownersOnly: boolean;
}

export interface RoomWishes {
  text: string;
  capacity: number;
  equipment: string[];
  site: string;
}

export const offersRooms = (): boolean => offers("urn:doublet:jmap:rooms");

/** The rooms that this page has seen, by their addresses in small letters. */
export const knownRooms = signal<Map<string, Room>>(new Map());

export const isRoom = (p: Pick<Participant, "kind">): boolean => p.kind === "location" || p.kind === "resource";

/** Finds rooms; undefined: the server did not answer. */
export async function findRooms(w: RoomWishes): Promise<{ list: Room[]; more: boolean } | undefined> {
  const answer = await attempt(() => client.call("Room/find", {
    accountId: home.peek(), ...(w.text ? { text: w.text } : {}), ...(w.capacity > 0 ? { capacity: w.capacity } : {}), ...(w.equipment.length > 0 ? { equipment: w.equipment } : {}), ...(w.site ? { site: w.site } : {}),
  }));
  if (!answer) return undefined;
  const list = answer["list"] as Room[];
  for (const r of list) knowPrincipal(r.email, r.id);
  knownRooms.value = new Map([...knownRooms.peek(), ...list.map((r) => [r.email.toLowerCase(), r] as const)]);
  return { list, more: answer["hasMore"] as boolean };
}
