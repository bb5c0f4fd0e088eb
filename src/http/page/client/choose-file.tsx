/** A button that chooses files. Files that are dropped on the element `.drop` around the button, or pasted there, are chosen, too. */
import type { ComponentChildren } from "preact";

interface ChooseFileProps {
  readonly label: string;
  readonly accept?: string;
  readonly multiple?: boolean;
  /** The camera or microphone that a phone opens. The style sheet hides the button on other devices, whose browsers ignore the attribute. */
  readonly capture?: "user" | "environment";
  readonly onChoose: (files: readonly File[]) => void;
  readonly children: ComponentChildren;
}

export function ChooseFile({ label, onChoose, children, ...attributes }: ChooseFileProps) {
  return (
    <label class="button">
      {children}
      <input
        {...attributes}
        type="file"
        class="unseen"
        aria-label={label}
        onChange={({ currentTarget }) => {
          const files = [...(currentTarget.files ?? [])];
          if (files.length > 0) onChoose(files);
          // Choosing the same file again is a change, too.
          currentTarget.value = "";
        }}
      />
    </label>
  );
}

/** Accepts dropped and pasted files anywhere on the page. A file pasted outside all fields goes to the first file field. */
export function takeDroppedFiles(): void {
  const take = (event: DragEvent | ClipboardEvent) => {
    const { type, target } = event;
    const zone = target instanceof Element ? target.closest(".drop") : null;
    const input = (zone ?? (type === "paste" ? document : null))?.querySelector<HTMLInputElement>(".drop [type=file]");
    const files = event instanceof DragEvent ? event.dataTransfer?.files : event.clipboardData?.files;
    zone?.classList.toggle("over", type === "dragover");
    if (!input || type === "dragleave" || (type !== "dragover" && !files?.length)) return;
    event.preventDefault();
    if (type === "dragover" || files === undefined) return;
    input.files = files;
    input.dispatchEvent(new Event("change"));
  };
  for (const type of ["paste", "dragover", "dragleave", "drop"] as const) addEventListener(type, take);
}
