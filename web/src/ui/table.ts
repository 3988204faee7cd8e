// Tables of the editor. A sent table has only attributes that mail programs know: border, cellpadding, cellspacing.

import type { Node, NodeSpec } from "prosemirror-model";
import { TextSelection, type Command } from "prosemirror-state";
import { addColumnAfter, addColumnBefore, addRowAfter, addRowBefore, deleteColumn, deleteRow, deleteTable, isInTable, tableNodes, toggleHeaderRow } from "prosemirror-tables";

const nodes = tableNodes({ tableGroup: "block", cellContent: "paragraph+", cellAttributes: {} });

export const tableSpecs: Record<string, NodeSpec> = {
  ...nodes,
  table: { ...nodes.table, toDOM: () => ["table", { border: "1", cellpadding: "6", cellspacing: "0" }, ["tbody", 0]] },
};

/** Reports if an element is a table as the editor writes them: with a border, and nothing in it but rows of text. */
export function isPlainTable(e: Element): boolean {
  return e.matches("table[border='1']:not([bgcolor], [background], [width], [align])") &&
    !e.querySelector("table, center, [bgcolor], [background], [width], [align], [style], td img");
}

/** The text of a table: a line for each row, its cells apart by bars. */
export function tableText(table: Node): string {
  const rows: string[] = [];
  table.forEach((row) => {
    const cells: string[] = [];
    row.forEach((cell) => {
      cells.push(cell.textBetween(0, cell.content.size, " ", (leaf) => (leaf.type.name === "hard_break" ? " " : "")).trim());
    });
    rows.push(cells.join(" | ").trimEnd());
  });
  return rows.join("\n");
}

/** Puts an empty table in place of the selection, the cursor in its first cell. */
export const insertTable = (rows: number, columns: number): Command => (state, dispatch) => {
  const { table, table_row: row, table_cell: cell } = state.schema.nodes;
  if (isInTable(state)) return false;
  const line = () => row!.create(null, Array.from({ length: columns }, () => cell!.createAndFill()!));
  const at = state.selection.from;
  const tr = state.tr.replaceSelectionWith(table!.create(null, Array.from({ length: rows }, line)));
  dispatch?.(tr.setSelection(TextSelection.near(tr.doc.resolve(Math.max(0, at - 1)), 1)).scrollIntoView());
  return true;
};

export const tableCommands = {
  rowAbove: addRowBefore, rowBelow: addRowAfter, columnBefore: addColumnBefore, columnAfter: addColumnAfter,
  headerRow: toggleHeaderRow, removeRow: deleteRow, removeColumn: deleteColumn, removeTable: deleteTable,
} as const satisfies Record<string, Command>;
export type TableCommand = keyof typeof tableCommands;
