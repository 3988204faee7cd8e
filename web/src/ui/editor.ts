// The editor of rich text: ProseMirror with the few marks that mail carries everywhere, and blocks of what is quoted as it is.

import { baseKeymap, setBlockType, toggleMark, wrapIn, lift } from "prosemirror-commands";
import { history, redo, undo } from "prosemirror-history";
import { inputRules, wrappingInputRule } from "prosemirror-inputrules";
import { keymap } from "prosemirror-keymap";
import { DOMParser, DOMSerializer, Schema, type Fragment, type MarkSpec, type Node } from "prosemirror-model";
import { schema as basic } from "prosemirror-schema-basic";
import { addListNodes, liftListItem, sinkListItem, splitListItem, wrapInList } from "prosemirror-schema-list";
import { EditorState, type Command } from "prosemirror-state";
import { goToNextCell, isInTable, tableEditing } from "prosemirror-tables";
import { EditorView } from "prosemirror-view";
import { safeHTML } from "./html";
import { image, pictureView, scale } from "./picture";
import { cleanPasted, inert, kept, keptView, markKept, sent, textOf } from "./kept";
import { insertTable, tableCommands, tableSpecs, tableText, type TableCommand } from "./table";

const underline: MarkSpec = { parseDOM: [{ tag: "u" }, { style: "text-decoration=underline" }], toDOM: () => ["u", 0] };
/** A mark that <font> carries: mail programs know it, and unlike a style the page's policy lets it in. */
const font = (name: "color" | "size" | "face", valid: RegExp): MarkSpec => ({
  attrs: { value: { validate: "string" } },
  parseDOM: [{ tag: `font[${name}]`, consuming: false, getAttrs: (e) => (valid.test(e.getAttribute(name)!) ? { value: e.getAttribute(name) } : false) }],
  toDOM: (m) => ["font", { [name]: m.attrs["value"] as string }, 0],
});

const strike: MarkSpec = { parseDOM: [{ tag: "s" }, { tag: "strike" }, { tag: "del" }], toDOM: () => ["s", 0] };

export const schema = new Schema({
  nodes: addListNodes(basic.spec.nodes.update("image", image), "paragraph block*", "block").append(tableSpecs).addToEnd("kept", kept),
  marks: basic.spec.marks.addToEnd("underline", underline).addToEnd("strike", strike)
    .addToEnd("color", font("color", /^(?:#[0-9a-f]{3,6}|[a-z]{3,20})$/iu)).addToEnd("size", font("size", /^[1-7]$/u)).addToEnd("face", font("face", /^[\w ,'"-]{1,100}$/u)),
});

export interface Editor {
  view: EditorView;
  html(): string;
  text(): string;
  run(name: CommandName): void;
  link(href: string): void;
  image(src: string, alt: string): void;
  /** Sets a mark of <font> on what is chosen, or on what is typed next; null takes it away. */
  font(name: "color" | "size" | "face", value: string | null): void;
  /** Puts an empty table in place of the selection. */
  insertTable(rows: number, columns: number): void;
  /** Changes the table that the cursor is in. */
  changeTable(by: TableCommand): void;
  /** Reports if the cursor is in a table. */
  inTable(): boolean;
  /** Puts markup, which is made harmless, in the place of what is chosen. */
  insert(html: string): void;
  destroy(): void;
}

const commands = {
  bold: toggleMark(schema.marks["strong"]!),
  italic: toggleMark(schema.marks["em"]!),
  underline: toggleMark(schema.marks["underline"]!),
  strike: toggleMark(schema.marks["strike"]!),
  list: wrapInList(schema.nodes["bullet_list"]!),
  numbers: wrapInList(schema.nodes["ordered_list"]!),
  quote: wrapIn(schema.nodes["blockquote"]!),
  clear: ((state, dispatch) => {
    const { from, to } = state.selection;
    if (dispatch) {
      let tr = state.tr;
      for (const m of Object.values(schema.marks)) tr = tr.removeMark(from, to, m);
      dispatch(tr);
    }
    return lift(state, dispatch) || setBlockType(schema.nodes["paragraph"]!)(state, dispatch) || true;
  }) as Command,
};
export type CommandName = keyof typeof commands;

/** Plain text of a document, with quotes marked by ">" as plain mail has them. */
function plain(node: Node, prefix = ""): string {
  const lines: string[] = [];
  let n = 0;
  node.forEach((child) => {
    n++;
    switch (child.type.name) {
      case "blockquote": lines.push(plain(child, `${prefix}> `)); break;
      case "kept": lines.push(...textOf(child.attrs["html"] as string).split("\n").map((l) => prefix + l)); break;
      case "table": lines.push(...tableText(child).split("\n").map((l) => prefix + l)); break;
      case "bullet_list":
      case "ordered_list": {
        let i = 0;
        child.forEach((item) => {
          i++;
          const body = plain(item).split("\n");
          const lead = child.type.name === "bullet_list" ? "- " : `${i}. `;
          lines.push(...body.map((l, k) => prefix + (k === 0 ? lead : " ".repeat(lead.length)) + l));
        });
        break;
      }
      default:
        lines.push(...child.textBetween(0, child.content.size, "\n", (leaf) => (leaf.type.name === "hard_break" ? "\n" : "")).split("\n").map((l) => prefix + l));
    }
  });
  return n === 0 ? prefix : lines.join("\n");
}

/** The markup of blocks. Nodes are immutable, so an entry stays valid, and a key replaces one block of a long message. */
const written = new WeakMap<Node, string>();

function markupOf(blocks: Fragment): string {
  let out = "";
  blocks.forEach((block) => {
    let html = written.get(block);
    if (html === undefined) written.set(block, (html = block.type.name === "blockquote" ? `<blockquote>${markupOf(block.content)}</blockquote>` : blockMarkup(block)));
    out += html;
  });
  return out;
}

function blockMarkup(block: Node): string {
  const out = document.createElement("div");
  out.append(DOMSerializer.fromSchema(schema).serializeNode(block));
  for (const p of out.querySelectorAll("p:empty")) p.append(document.createElement("br"));
  // A kept block is put in as text, because the page's policy would report its styles.
  const as = [...out.querySelectorAll("[data-kept]")].map((e, i) => {
    e.replaceWith(document.createComment(`kept ${i}`));
    return sent(e.getAttribute("data-kept")!);
  });
  return out.innerHTML.replace(/<!--kept (\d+)-->/gu, (_, i: string) => as[Number(i)]!);
}

export function edit(at: HTMLElement, html: string, label: string, changed: () => void, files: (list: File[]) => void): Editor {
  const holder = inert(html);
  markKept(holder);
  const li = schema.nodes["list_item"]!;
  const view = new EditorView(at, {
    state: EditorState.create({
      doc: DOMParser.fromSchema(schema).parse(holder),
      plugins: [
        history(),
        inputRules({ rules: [wrappingInputRule(/^\s*([-*])\s$/u, schema.nodes["bullet_list"]!), wrappingInputRule(/^1\.\s$/u, schema.nodes["ordered_list"]!), wrappingInputRule(/^>\s$/u, schema.nodes["blockquote"]!)] }),
        keymap({ Tab: goToNextCell(1), "Shift-Tab": goToNextCell(-1) }),
        keymap({ "Mod-z": undo, "Mod-y": redo, "Shift-Mod-z": redo, "Mod-b": commands.bold, "Mod-i": commands.italic, "Mod-u": commands.underline, Enter: splitListItem(li), "+": scale(1.2), "-": scale(1 / 1.2), Tab: sinkListItem(li), "Shift-Tab": liftListItem(li) }),
        keymap(baseKeymap),
        tableEditing(),
      ],
    }),
    attributes: { role: "textbox", "aria-multiline": "true", "aria-label": label, dir: "auto", tabindex: "0" },
    dispatchTransaction(tr) {
      view.updateState(view.state.apply(tr));
      if (tr.docChanged) changed();
    },
    nodeViews: { kept: keptView, image: pictureView },
    transformPastedHTML: cleanPasted,
    handlePaste: (_, e) => take(e.clipboardData, e),
    handleDrop: (_, e) => take((e as DragEvent).dataTransfer, e),
  });
  const take = (data: DataTransfer | null, e: Event): boolean => {
    const list = [...(data?.files ?? [])];
    if (list.length === 0) return false;
    e.preventDefault();
    e.stopPropagation();
    files(list);
    return true;
  };
  return {
    view,
    html: () => markupOf(view.state.doc.content),
    text: () => plain(view.state.doc),
    run(name) {
      commands[name](view.state, view.dispatch, view);
      view.focus();
    },
    insertTable(rows, columns) {
      insertTable(rows, columns)(view.state, view.dispatch);
      view.focus();
    },
    changeTable(by) {
      tableCommands[by](view.state, view.dispatch);
      view.focus();
    },
    inTable: () => isInTable(view.state),
    link(href) {
      const { from, to, empty } = view.state.selection;
      const mark = schema.marks["link"]!.create({ href });
      view.dispatch(empty ? view.state.tr.insert(from, schema.text(href, [mark])) : view.state.tr.addMark(from, to, mark));
      view.focus();
    },
    image(src, alt) {
      view.dispatch(view.state.tr.replaceSelectionWith(schema.nodes["image"]!.create({ src, alt })));
    },
    font(name, value) {
      const { from, to, empty } = view.state.selection;
      const type = schema.marks[name]!;
      let tr = view.state.tr;
      if (empty) tr = value === null ? tr.removeStoredMark(type) : tr.addStoredMark(type.create({ value }));
      else {
        tr = tr.removeMark(from, to, type);
        if (value !== null) tr = tr.addMark(from, to, type.create({ value }));
      }
      view.dispatch(tr);
      view.focus();
    },
    insert(markup) {
      const put = inert(safeHTML(markup, false).html);
      markKept(put);
      view.dispatch(view.state.tr.replaceSelection(DOMParser.fromSchema(schema).parseSlice(put)).scrollIntoView());
      view.focus();
    },
    destroy: () => view.destroy(),
  };
}
