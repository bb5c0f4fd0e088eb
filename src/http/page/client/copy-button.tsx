/** A button that copies a text to the clipboard, and then shows "Copied". */
import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";

export function CopyButton({ text, children }: { readonly text: string; readonly children: ComponentChildren }) {
  const [isCopied, setCopied] = useState(false);
  const copy = async () => {
    await copied(text);
    setCopied(true);
    setTimeout(() => setCopied(false), 2000);
  };
  return (
    <button type="button" class="small" onClick={copy}>
      <span role="status">{isCopied ? "Copied" : children}</span>
    </button>
  );
}

/** Copies a text. Browsers offer `navigator.clipboard` only over HTTPS and on localhost, so a hidden text area replaces it elsewhere. */
async function copied(text: string): Promise<void> {
  if (navigator.clipboard !== undefined) return navigator.clipboard.writeText(text);
  const area = document.createElement("textarea");
  area.value = text;
  document.body.append(area);
  area.select();
  document.execCommand("copy");
  area.remove();
}
