// Tables of people, as they are pasted from a spreadsheet or read from a file (RFC 4180).

import Papa from "papaparse";
import type { Address } from "../jmap/types";
import { mostPeople, nameKey } from "./merge";

/** A line of a table: at counts lines from 1. to is null where it has no address. */
export interface Line {
  at: number;
  values: string[];
  to: Address | null;
}

/** A table of people. full: it has more lines than are read. */
export interface Table {
  columns: string[];
  lines: Line[];
  full: boolean;
}

const mostColumns = 50;
/** The most characters of a table. */
export const mostText = 2_000_000;
const mostValue = 10_000;

const nameColumns = new Set(["name", "full name", "fullname", "vollständiger name", "姓名", "名字", "名称"]);

/** The address in a cell, "anna@example.org" or "Anna <anna@example.org>". */
function addressIn(cell: string): Address | null {
  const m = /^(?:"?([^"<]*?)"?\s*<\s*)?([^\s@<>,;"]+@[^\s@<>,;"]+?)\s*>?$/u.exec(cell.trim());
  return m ? { name: m[1]?.trim() || null, email: m[2]! } : null;
}

/** Names for columns of which the first line has none, or twice the same. */
function named(cells: string[]): string[] {
  const seen = new Set<string>();
  return cells.map((cell, i) => {
    let name = cell.replace(/[{}\s]+/gu, " ").trim().slice(0, 60) || String(i + 1);
    while (seen.has(nameKey(name))) name = `${name} ${i + 1}`;
    seen.add(nameKey(name));
    return name;
  });
}

/**
 * Reads a table whose cells are separated by tabs, semicolons or commas. The first line names the columns, unless it has an address: then
 * their names are 1, 2, 3. Addresses are those of the first column that has some.
 */
export function readTable(text: string): Table {
  const { data } = Papa.parse<string[]>(text.replace(/^\ufeff/u, "").slice(0, mostText), { skipEmptyLines: false, preview: 10 * mostPeople, delimitersToGuess: ["\t", ";", ","] });
  const all = data.map((cells, i) => ({ at: i + 1, cells: cells.slice(0, mostColumns).map((c) => c.replaceAll("\r\n", "\n").trim().slice(0, mostValue)) })).filter((l) => l.cells.some(Boolean));
  const [head] = all;
  if (!head) return { columns: [], lines: [], full: false };
  const hasHead = !head.cells.some(addressIn);
  const rest = hasHead ? all.slice(1) : all;
  const width = Math.max(...all.map((l) => l.cells.length));
  const columns = named(Array.from({ length: width }, (_, i) => (hasHead ? (head.cells[i] ?? "") : "")));
  const address = columns.findIndex((_, i) => rest.some((l) => addressIn(l.cells[i] ?? "")));
  const name = columns.findIndex((c) => nameColumns.has(nameKey(c)));
  const lines = rest.slice(0, mostPeople).map(({ at, cells }): Line => {
    const values = columns.map((_, i) => cells[i] ?? "");
    const a = addressIn(values[address] ?? "");
    if (a) values[address] = a.email;
    return { at, values, to: a && { name: a.name ?? (values[name] || null), email: a.email } };
  });
  return { columns, lines, full: rest.length > mostPeople };
}

/** A table as text, its cells separated by tabs. */
export const tableText = (columns: string[], lines: string[][]): string => Papa.unparse([columns, ...lines], { delimiter: "\t", newline: "\n" });

/** Reads a file of a table: UTF-8, else as spreadsheets in the west of Europe write it. */
export async function readTableFile(file: File): Promise<string> {
  const bytes = await file.slice(0, 2 * mostText).arrayBuffer();
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch {
    return new TextDecoder("windows-1252").decode(bytes);
  }
}
