/** A button that chooses a file. Files that are dropped on the element `.drop` around the button, or pasted there, are chosen, too. */
import type { ComponentChildren } from "preact";

interface ChooseFileProps {
  readonly label: string;
  readonly accept?: string;
  readonly onChoose: (file: File) => void;
  readonly children: ComponentChildren;
}

export function ChooseFile({ label, accept, onChoose, children }: ChooseFileProps) {
  return (
    <label class="button small">
      {children}
      <input
        type="file"
        class="unseen"
        accept={accept}
        aria-label={label}
        onChange={({ currentTarget }) => {
          const [file] = currentTarget.files ?? [];
          if (file !== undefined) onChoose(file);
          // Choosing the same file again is a change, too.
          currentTarget.value = "";
        }}
      />
    </label>
  );
}

function choose(zone: Element | null | undefined, event: Event, transfer: DataTransfer | null): void {
  const input = zone?.querySelector<HTMLInputElement>("input[type=file]");
  if (!input || !transfer?.files.length) return;
  event.preventDefault();
  input.files = transfer.files;
  input.dispatchEvent(new Event("change"));
}

function zoneOf({ target }: Event): Element | null {
  return target instanceof Element ? target.closest(".drop") : null;
}

/** Takes files that are dropped or pasted anywhere on the page. A file that is pasted outside all fields goes to the first file field. */
export function takeDroppedFiles(): void {
  addEventListener("paste", (event) =>
    choose(zoneOf(event) ?? document.querySelector(".file"), event, event.clipboardData),
  );
  for (const type of ["dragover", "dragleave", "drop"] as const) {
    addEventListener(type, (event) => {
      const zone = zoneOf(event);
      zone?.classList.toggle("over", type === "dragover");
      if (type === "dragover" && zone !== null) event.preventDefault();
      if (type === "drop") choose(zone, event, event.dataTransfer);
    });
  }
}
