/** Shows the request as code in several languages, with a button that copies it. */
import { useState } from "preact/hooks";
import { hasKey } from "./api-key.tsx";
import { CopyButton } from "./copy-button.tsx";
import { languages, snippetOf } from "./snippets.ts";
import type { Value } from "./value.ts";

export function Code({ inputs }: { readonly inputs: readonly Value[] }) {
  const [language, setLanguage] = useState<(typeof languages)[number]>("curl");
  const address = new URL("./", location.href).href;
  const text = snippetOf(language, { address, inputs, hasKey: hasKey() });
  return (
    <section class="panel stack" aria-labelledby="code-title">
      <header class="row ends">
        <h2 id="code-title">From a program</h2>
        <fieldset class="tabs row" aria-label="Language">
          {languages.map((each) => (
            <button
              type="button"
              class="quiet small"
              key={each}
              aria-pressed={each === language}
              onClick={() => setLanguage(each)}
            >
              {each}
            </button>
          ))}
        </fieldset>
      </header>
      <section class="snippet" aria-label={`The request in ${language}`}>
        {/* biome-ignore lint/a11y/noNoninteractiveTabindex: it may scroll, also by keys */}
        <pre tabIndex={0}>{text}</pre>
      </section>
      <div class="under row ends">
        <p class="about">
          <a href="docs">All routes</a> · <a href="openapi.json">OpenAPI document</a>
        </p>
        <CopyButton key={language} text={text}>
          Copy
        </CopyButton>
      </div>
    </section>
  );
}
