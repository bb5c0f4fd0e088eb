/** A button that replaces the tab's API key, which may not permit a request; nothing if the tab has no key. */
import { askForKey, forgetKey, hasKey } from "./api-key.ts";

export function OtherKey({ onChange = () => {} }: { readonly onChange?: () => void }) {
  if (!hasKey()) return null;
  const replace = () => {
    forgetKey();
    askForKey().then(onChange);
  };
  return (
    <button type="button" class="small own" onClick={replace}>
      Use another API key
    </button>
  );
}
