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

export function forgetKey(): void {
  sessionStorage.removeItem(STORED);
}

let asking: Promise<void> | undefined;

/** Asks the user for an API key. Resolves when the tab has a key. Concurrent requests share one dialog. */
export function askForKey(): Promise<void> {
  asking ??= ask().finally(() => {
    asking = undefined;
  });
  return asking;
}

function ask(): Promise<void> {
  const dialog = document.createElement("dialog");
  dialog.className = "key-dialog";
  const form = document.createElement("form");
  form.method = "dialog";
  const label = document.createElement("label");
  label.textContent = hasKey() ? "This key is unknown. API key" : "API key";
  const input = document.createElement("input");
  input.type = "password";
  input.required = true;
  input.autocomplete = "off";
  const button = document.createElement("button");
  button.textContent = "Continue";
  label.append(input);
  form.append(label, button);
  dialog.append(form);
  // The dialog cannot be closed without a key, because the page can show nothing without one.
  dialog.addEventListener("cancel", (event) => event.preventDefault());
  document.body.append(dialog);
  dialog.showModal();
  return new Promise((resolve) => {
    dialog.addEventListener("close", () => {
      sessionStorage.setItem(STORED, input.value.trim());
      dialog.remove();
      resolve();
    });
  });
}
