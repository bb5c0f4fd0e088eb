/** Asks the user for an API key, and keeps it in this browser tab's sessionStorage. Closing the tab deletes the key. */

const STORED = "sconce-api-key";

/** Request headers with the API key; empty if the tab has no key. */
export function keyHeaders(): Readonly<Record<string, string>> {
  const key = sessionStorage.getItem(STORED);
  return key === null ? {} : { Authorization: `Bearer ${key}` };
}

export function hasKey(): boolean {
  return sessionStorage.getItem(STORED) !== null;
}

let asking: Promise<void> | undefined;

/** Asks the user for an API key. Resolves when the tab has a key. Concurrent requests share one dialog. */
export function askForKey(label = hasKey() ? "This key is unknown. API key" : "API key"): Promise<void> {
  asking ??= new Promise((resolve) => {
    const dialog = document.createElement("dialog");
    dialog.innerHTML = `<form class="stack" method="dialog"><label class="stack close">${label}<input type="password" required autocomplete="off"></label><button>Continue</button></form>`;
    // The dialog cannot be closed without a key, because the page can show nothing without one.
    dialog.addEventListener("cancel", (event) => event.preventDefault());
    dialog.addEventListener("close", () => {
      sessionStorage.setItem(STORED, dialog.querySelector("input")?.value.trim() ?? "");
      dialog.remove();
      asking = undefined;
      resolve();
    });
    document.body.append(dialog);
    dialog.showModal();
  });
  return asking;
}

/** A button that replaces the tab's API key, which may not permit a request; nothing if the tab has no key. */
export function OtherKey({ onChange = () => {} }: { readonly onChange?: () => void }) {
  if (!hasKey()) return null;
  return (
    <button type="button" class="small" onClick={() => askForKey("API key").then(onChange)}>
      Use another API key
    </button>
  );
}
