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

let asking: Promise<boolean> | undefined;

/**
 * Asks the user for an API key. Concurrent requests share one dialog.
 * @param reason why the tab's key does not suffice; empty if it has none
 * @returns whether the user has given a key
 */
export function askForKey(reason: string): Promise<boolean> {
  asking ??= new Promise((resolve) => {
    const dialog = document.createElement("dialog");
    dialog.innerHTML = `<form method="dialog"><p></p><label class="field">API key<input type="password" required autocomplete="off"></label><button>Continue</button></form>`;
    dialog.querySelector("p")?.append(reason);
    dialog.onclose = () => {
      const key = dialog.querySelector("input")?.value.trim() ?? "";
      if (key !== "") sessionStorage.setItem(STORED, key);
      dialog.remove();
      asking = undefined;
      resolve(key !== "");
    };
    document.body.append(dialog);
    dialog.showModal();
  });
  return asking;
}
