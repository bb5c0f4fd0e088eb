/** The API key of this tab. Closing the tab forgets it. */

const STORED = "sconce-api-key";

/** Headers of a request. */
export function keyHeaders(): Readonly<Record<string, string>> {
  const key = sessionStorage.getItem(STORED);
  return key === null ? {} : { Authorization: `Bearer ${key}` };
}

let asking: Promise<void> | undefined;

/** Asks for a key; resolves when the tab has one. Requests at the same time share the question. */
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
  label.textContent = sessionStorage.getItem(STORED) === null ? "API key" : "This key is unknown. API key";
  const input = document.createElement("input");
  input.type = "password";
  input.required = true;
  input.autocomplete = "off";
  const button = document.createElement("button");
  button.textContent = "Continue";
  label.append(input);
  form.append(label, button);
  dialog.append(form);
  // Without a key the page has nothing to show.
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
