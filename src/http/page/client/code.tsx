/** Shows the request as code in several languages, with a button that copies it. */
import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { hasKey } from "./api-key.ts";
import { CopyButton } from "./copy-button.tsx";
import { languages, snippetOf } from "./snippets.ts";
import type { Value } from "./value.ts";

export function Code({ inputs }: { readonly inputs: readonly Value[] }) {
  const [language, setLanguage] = useState<(typeof languages)[number]>("curl");
  const address = new URL("./", location.href).href;
  const text = snippetOf(language, { address, inputs, hasKey: hasKey() });
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
        <pre tabIndex={0}>
          <Highlighted code={text} />
        </pre>
      </section>
      <div class="under">
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

/** Finds strings, numbers and keywords of all three languages, to colour them. */
const tokens =
  /(?<text>"(?:[^"\\\n]|\\.)*"|'[^'\n]*'|`(?:[^`\\]|\\.)*`)|(?<number>\b\d[\d.]*\b)|(?<word>\b(?:import|from|const|await|async|return|def|with|as|open|curl|true|false|null|True|False|None)\b)/g;

/** Maximum length of code that is shown in colours. */
const MAX_LENGTH = 100_000;

function Highlighted({ code }: { readonly code: string }) {
  if (code.length > MAX_LENGTH) return <>{code}</>;
  const parts: ComponentChildren[] = [];
  let end = 0;
  for (const match of code.matchAll(tokens)) {
    const [kind] = Object.entries(match.groups ?? {}).find(([, found]) => found !== undefined) ?? ["text"];
    parts.push(
      code.slice(end, match.index),
      <span key={match.index} class={`code-${kind}`}>
        {match[0]}
      </span>,
    );
    end = match.index + match[0].length;
  }
  return (
    <>
      {parts}
      {code.slice(end)}
    </>
  );
}
