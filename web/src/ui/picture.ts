// A picture in the editor: its width is changed by dragging its corner, or with + and − while it is chosen.

import type { NodeSpec, Node } from "prosemirror-model";
import { schema as basic } from "prosemirror-schema-basic";
import { NodeSelection, type Command } from "prosemirror-state";
import type { EditorView, NodeView } from "prosemirror-view";
import { tw } from "../text/format";

const smallest = 16, largest = 2000;
const widthOf = (s: string | null) => (s && /^\d{1,4}$/u.test(s) ? Math.min(largest, Math.max(1, Number(s))) : null);

const plain = basic.spec.nodes.get("image")!;

export const image: NodeSpec = {
  ...plain,
  attrs: { ...plain.attrs, width: { default: null } },
  parseDOM: [{ tag: "img[src]", getAttrs: (e) => ({ src: e.getAttribute("src"), title: e.getAttribute("title"), alt: e.getAttribute("alt"), width: widthOf(e.getAttribute("width")) }) }],
  toDOM: (node) => {
    const { src, alt, title, width } = node.attrs as { src: string; alt: string | null; title: string | null; width: number | null };
    return ["img", { src, alt, title, ...(width ? { width: String(width) } : {}) }];
  },
};

const setWidth = (view: Pick<EditorView, "state" | "dispatch">, pos: number, width: number) => {
  const w = Math.round(Math.min(largest, Math.max(smallest, width)));
  const tr = view.state.tr.setNodeAttribute(pos, "width", w);
  view.dispatch(tr.setSelection(NodeSelection.create(tr.doc, pos)));
};

/** Makes the chosen picture larger or smaller. */
export const scale = (by: number): Command => (state, dispatch, view) => {
  const { selection } = state;
  if (!(selection instanceof NodeSelection) || selection.node.type.name !== "image") return false;
  const shown = (view?.nodeDOM(selection.from) as HTMLElement | null)?.querySelector?.("img")?.clientWidth;
  if (dispatch) setWidth({ state, dispatch } as EditorView, selection.from, ((selection.node.attrs["width"] as number | null) ?? shown ?? 300) * by);
  return true;
};

export function pictureView(node: Node, view: EditorView, at: () => number | undefined): NodeView {
  const dom = document.createElement("span");
  dom.className = "picture";
  const img = document.createElement("img");
  const handle = document.createElement("span");
  handle.className = "corner";
  handle.title = tw("resize");
  dom.append(img, handle);
  const show = (n: Node) => {
    img.src = n.attrs["src"] as string;
    img.alt = (n.attrs["alt"] as string | null) ?? "";
    if (n.attrs["width"]) img.width = n.attrs["width"] as number;
    else img.removeAttribute("width");
  };
  show(node);
  handle.addEventListener("mousedown", (e) => e.preventDefault()); // else the picture would be dragged away
  handle.addEventListener("pointerdown", (e) => {
    e.preventDefault();
    e.stopPropagation();
    handle.setPointerCapture(e.pointerId);
    const from = e.clientX, width = img.clientWidth;
    const most = view.dom.clientWidth - 16;
    const move = (m: PointerEvent) => (img.width = Math.round(Math.min(most, Math.max(smallest, width + m.clientX - from))));
    const end = () => {
      handle.removeEventListener("pointermove", move);
      const pos = at();
      if (pos !== undefined) setWidth(view, pos, img.clientWidth);
    };
    handle.addEventListener("pointermove", move);
    handle.addEventListener("pointerup", end, { once: true });
  });
  return {
    dom,
    update: (n) => {
      if (n.type.name !== "image") return false;
      show(n);
      return true;
    },
    selectNode: () => dom.classList.add("chosen"),
    deselectNode: () => dom.classList.remove("chosen"),
    stopEvent: (e) => e.target === handle,
    ignoreMutation: () => true,
  };
}
