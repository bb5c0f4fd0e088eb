/** Shows the request as code in several languages, with a button that copies it. */
import { useState } from "preact/hooks";
import { hasKey } from "./api-key.ts";
import { languages, snippetOf } from "./snippets.ts";
import type { Value } from "./value.ts";

export function Code({ input }: { readonly input: Value }) {
  const [language, setLanguage] = useState<(typeof languages)[number]>("curl");
  const [copied, setCopied] = useState("");
  const text = snippetOf(language, { url: new URL("predictions", location.href).href, input, hasKey: hasKey() });
  return (
    <article aria-labelledby="code-title">
      <div class="row ends">
        <h2 id="code-title">From a program</h2>
        <fieldset class="tabs row" aria-label="Language">
          {languages.map((each) => (
            <button type="button" key={each} aria-pressed={each === language} onClick={() => setLanguage(each)}>
              {each}
            </button>
          ))}
        </fieldset>
      </div>
      <section class="snippet" aria-label={`The request in ${language}`}>
        {/* biome-ignore lint/a11y/noNoninteractiveTabindex: it may scroll, also by keys */}
        <pre tabIndex={0}>{text}</pre>
      </section>
      <div class="under row ends">
        <small>
          <a href="docs">All routes</a> · <a href="openapi.json">OpenAPI document</a>
        </small>
        {/* Browsers offer the clipboard only over HTTPS and on localhost. */}
        {navigator.clipboard !== undefined && (
          <button type="button" onClick={() => navigator.clipboard.writeText(text).then(() => setCopied(text))}>
            <span role="status">{copied === text ? "Copied" : "Copy"}</span>
          </button>
        )}
      </div>
    </article>
  );
}
