/** The request as code, to be copied. */
import { useState } from "preact/hooks";
import { languages, snippetOf } from "./snippets.ts";
import type { Value } from "./value.ts";

export function Code({ inputs }: { readonly inputs: readonly Value[] }) {
  const [language, setLanguage] = useState<(typeof languages)[number]>("curl");
  const [isCopied, setCopied] = useState(false);
  const address = new URL("./", location.href).href;
  const text = snippetOf(language, address, inputs);
  const copy = async () => {
    await copied(text);
    setCopied(true);
    setTimeout(() => setCopied(false), 2000);
  };
  return (
    <section class="panel" aria-labelledby="code-title">
      <header class="panel-head">
        <h2 id="code-title">From a program</h2>
        <fieldset class="tabs" aria-label="Language">
          {languages.map((each) => (
            <button type="button" key={each} aria-pressed={each === language} onClick={() => setLanguage(each)}>
              {each}
            </button>
          ))}
        </fieldset>
      </header>
      <section class="snippet" aria-label={`The request in ${language}`}>
        {/* biome-ignore lint/a11y/noNoninteractiveTabindex: it may scroll, also by keys */}
        <pre tabIndex={0}>{text}</pre>
      </section>
      <div class="under">
        <p class="about">
          <a href="docs">All routes</a> · <a href="openapi.json">OpenAPI document</a>
        </p>
        <button type="button" class="small" onClick={copy}>
          <span role="status">{isCopied ? "Copied" : "Copy"}</span>
        </button>
      </div>
    </section>
  );
}

/** Browsers have a clipboard only for pages from this machine or by https. */
async function copied(text: string): Promise<void> {
  if (navigator.clipboard !== undefined) return navigator.clipboard.writeText(text);
  const area = document.createElement("textarea");
  area.value = text;
  document.body.append(area);
  area.select();
  document.execCommand("copy");
  area.remove();
}
